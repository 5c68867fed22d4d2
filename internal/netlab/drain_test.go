package netlab

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// What arrives after the reader found its queue empty, and before it learns that it
// is to stop, was there before the stop: it must be read.
func TestDrainReadsToTheEnd(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	const late = 3
	foundEmpty, stopped := make(chan struct{}), make(chan struct{})
	first := true
	var read int
	d, err := newDrain(pair[0], func(fd int) error {
		_, err := unix.Read(fd, make([]byte, 8))
		if err == nil {
			read++
		} else if first {
			first = false
			close(foundEmpty)
			<-stopped // the reader has not yet said that the queue is empty
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	<-foundEmpty
	for range late {
		if _, err := unix.Write(pair[1], []byte("late")); err != nil {
			t.Error(err)
		}
	}
	if err := d.signal(); err != nil {
		t.Error(err)
	}
	close(stopped)
	if err := d.stop(func(int) error { return nil }); err != nil {
		t.Error(err)
	}
	if read != late {
		t.Errorf("read %d messages of %d", read, late)
	}
}

func TestDrainTellsErrors(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[1])
	want := errors.New("the read's own")
	d, err := newDrain(pair[0], func(int) error { return want })
	if err != nil {
		t.Fatal(err)
	}
	if err := d.stop(func(int) error { t.Error("last was called after an error"); return nil }); !errors.Is(err, want) {
		t.Errorf("stop says %v, want %v", err, want)
	}
}
