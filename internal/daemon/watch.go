package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// indexOf is a device's index, by any of its names; 0 where there is none.
func indexOf(device string) int {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return 0
	}
	return link.Attrs().Index
}

// resubscribe is how long a subscription that ended is left alone.
const resubscribe = time.Second

// watch tells, without a word of what, that devices have changed since it was last heard. Where the kernel
// dropped notes, since there were too many, it says so too: nothing goes unnoticed.
func watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default: // it is being told already
		}
	}
	go func() {
		for ctx.Err() == nil {
			updates := make(chan netlink.LinkUpdate, 64)
			done := make(chan struct{})
			err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{
				ErrorCallback: func(err error) {
					if ctx.Err() == nil {
						log.Debug("notes of devices were lost; all are looked at", "error", err)
					}
				},
			})
			if err != nil {
				log.Error("devices cannot be watched", "error", err)
			} else {
				poke() // what happened before the subscription
				pass(ctx, updates, poke)
			}
			close(done)
			poke()
			select {
			case <-ctx.Done():
			case <-time.After(resubscribe):
			}
		}
	}()
	return changed
}

// pass pokes for each note, until their source ends.
func pass(ctx context.Context, updates <-chan netlink.LinkUpdate, poke func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, more := <-updates:
			poke()
			if !more {
				return
			}
		}
	}
}

// reloading is what sd_notify(3) wants of a reload that begins.
func reloading() string {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it never fails
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}
