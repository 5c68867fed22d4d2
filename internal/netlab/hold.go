package netlab

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// A Hold holds the frames that pass a device, and looks at none before it is read: until
// then it shares each with whoever else has it, as a tcpdump does that is not prompt. Who
// writes to a frame that others hold shows there. Close it.
type Hold struct{ fd int }

// Hold starts to hold the frames that arrive at a device of the host's, or leave it.
func (h *Host) Hold(device string) (_ *Hold, err error) {
	hold := &Hold{fd: -1}
	err = h.Do(func() error {
		dev, err := net.InterfaceByName(device)
		if err != nil {
			return err
		}
		if hold.fd, err = packetSocket(); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptInt(hold.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, queueBytes),
			unix.Bind(hold.fd, &unix.SockaddrLinklayer{Protocol: bigEndian16(unix.ETH_P_ALL), Ifindex: dev.Index}),
		)
	})
	if err != nil {
		err = fmt.Errorf("netlab: hold the frames of %s: %w", device, err)
		if hold.fd >= 0 {
			err = errors.Join(err, unix.Close(hold.fd))
		}
		return nil, err
	}
	return hold, nil
}

// Read returns the frames that are held, oldest first, and lets them go.
func (hold *Hold) Read() (frames [][]byte, err error) {
	for {
		b := make([]byte, maxMTU+etherLen)
		n, _, err := unix.Recvfrom(hold.fd, b, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return frames, nil
		case err != nil:
			return frames, fmt.Errorf("netlab: read what is held: %w", err)
		}
		frames = append(frames, b[:n])
	}
}

// Close lets all frames go.
func (hold *Hold) Close() error { return unix.Close(hold.fd) }
