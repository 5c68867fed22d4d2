package netlab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// queueBytes is the receive queue asked for; the kernel doubles it.
	queueBytes = 64 << 20
	// settleWithin bounds the wait for packets that are still on their way.
	settleWithin = time.Second
)

// A drain reads a socket on a goroutine of its own until it is stopped, and then
// on until the socket's queue is empty: what was queued before stop is never lost.
type drain struct {
	fd, wake int
	done     chan error
}

// newDrain takes fd over. read is called when the socket may be readable: it
// reads one message without waiting, and returns unix.EAGAIN if there is none.
func newDrain(fd int, read func(fd int) error) (*drain, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	d := &drain{fd: fd, wake: wake, done: make(chan error, 1)}
	go func() { d.done <- d.run(read) }()
	return d, nil
}

func (d *drain) run(read func(fd int) error) error {
	for stopping := false; ; {
		err := read(d.fd)
		switch {
		case err == nil, errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EAGAIN):
			return err
		case stopping:
			return nil
		}
		fds := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}, {Fd: int32(d.wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		stopping = fds[1].Revents != 0
	}
}

// stop reads what is queued, ends the goroutine and calls last, if the socket was
// read without error, before it closes the socket.
func (d *drain) stop(last func(fd int) error) error {
	err := d.signal()
	if err == nil {
		err = <-d.done
	}
	if err == nil {
		err = last(d.fd)
	}
	return errors.Join(err, unix.Close(d.fd), unix.Close(d.wake))
}

// signal tells the goroutine to end once the queue is empty.
func (d *drain) signal() error {
	if _, err := unix.Write(d.wake, binary.NativeEndian.AppendUint64(nil, 1)); err != nil {
		return fmt.Errorf("wake the reader: %w", err)
	}
	return nil
}

// settle waits until what was sent before the call has been received. Under lasting
// load it gives up after settleWithin; packets in a device's own NAPI ring (Offload)
// are not seen.
func settle() {
	emptyQueues()
	// What was off its queue then may still be on its way to a socket, as an RCU reader:
	// wait for these. Where the kernel refuses (nohz_full), nothing is lost but that.
	const membarrierGlobal = 1
	_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
}

// emptyQueues waits until each CPU's queue of received packets has been empty once
// since the call. The queues are the machine's, and each is first in, first out.
func emptyQueues() {
	empty := map[int]bool{}
	for deadline := time.Now().Add(settleWithin); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		table, err := os.ReadFile("/proc/thread-self/net/softnet_stat")
		if err != nil {
			return
		}
		rows := strings.Split(strings.TrimSpace(string(table)), "\n")
		for cpu, row := range rows {
			// The twelfth column is the CPU's backlog, in hexadecimal (Linux 5.10).
			column := strings.Fields(row)
			if len(column) < 12 {
				return
			}
			if n, err := strconv.ParseUint(column[11], 16, 32); err == nil && n == 0 {
				empty[cpu] = true
			}
		}
		if len(empty) == len(rows) {
			return
		}
	}
}

// socketDrops returns how many packets the kernel dropped for want of room in the
// socket's queue.
func socketDrops(fd int) (uint64, error) {
	var info [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("read the socket's drops: %w", errno)
	}
	return uint64(info[unix.SK_MEMINFO_DROPS]), nil
}
