package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// Where the flood goes. Packets to nowhere pass every hook at which a peer could police, the last being
// PREROUTING, and are dropped right behind it: the router looks no further at a loopback address that comes from
// outside. Nothing drops them earlier and nothing cheaper does so there; what it costs is in the floor. Packets
// to the host itself go on to UDP, where no socket waits for them, and are counted one by one: who gets there
// has been let through.
var (
	nowhere  = [4]byte{127, 0, 0, 9}
	rightUDP = [4]byte{192, 0, 2, 2}
)

// bucketSize is what a policer is told to allow each flow.
type bucketSize struct {
	rate, burst uint64 // bytes a second, bytes
	flows       uint64 // it must hold that many at least
}

// policer is a way of policing the packets that arrive at a host.
type policer struct {
	name string
	// install starts it. All of it ends with the host, and with the process; stop, where it is not nil, ends it
	// earlier.
	install func(h *netlab.Host, b bucketSize) (stop func() error, err error)
}

// target is a laboratory under flood.
type target struct {
	policer
	lab   *netlab.Lab
	flood *generator
	close func() error
}

// newTarget makes a laboratory in which policer guards the right host.
func newTarget(p policer, b bucketSize, to [4]byte) (_ *target, err error) {
	t := &target{policer: p}
	t.close = func() error {
		var errs []error
		if t.flood != nil {
			errs = append(errs, t.flood.close())
		}
		return errors.Join(append(errs, t.lab.Close())...)
	}
	if t.lab, err = netlab.New(netlab.Options{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("flood, %s: %w", p.name, err), t.close())
		}
	}()
	if err := t.quicken(); err != nil {
		return nil, err
	}
	if t.flood, err = newGenerator(t.lab, to); err != nil {
		return nil, err
	}
	stop, err := p.install(t.lab.Right, b)
	if err != nil {
		return nil, err
	}
	if stop != nil {
		rest := t.close
		t.close = func() error { return errors.Join(stop(), rest()) }
	}
	return t, nil
}

// quicken has the right host take redirected packets in, as a device with NAPI does, and look at them no longer
// than need be.
func (t *target) quicken() error {
	return t.lab.Right.Do(func() error {
		pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "pass", Type: ebpf.XDP, License: "Dual BSD/GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}, // XDP_PASS
		})
		if err != nil {
			return fmt.Errorf("load an XDP program: %w", err)
		}
		defer pass.Close()
		// A veth has NAPI while it has an XDP program; or GRO, which would look at each packet.
		if err := netlink.LinkSetXdpFd(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: t.lab.Right.Ifindex}}, pass.FD()); err != nil {
			return fmt.Errorf("attach an XDP program to %s: %w", t.lab.Right.Device, err)
		}
		for _, s := range [][2]string{
			{"conf/all/rp_filter", "0"}, {"conf/" + t.lab.Right.Device + "/rp_filter", "0"}, // any source address will do
			{"conf/all/log_martians", "0"}, {"conf/" + t.lab.Right.Device + "/log_martians", "0"},
			{"conf/all/route_localnet", "0"}, {"conf/" + t.lab.Right.Device + "/route_localnet", "0"},
			{"ip_early_demux", "0"}, // there is no socket to look for
		} {
			if err := os.WriteFile("/proc/sys/net/ipv4/"+s[0], []byte(s[1]), 0); err != nil {
				return fmt.Errorf("set net/ipv4/%s: %w", s[0], err)
			}
		}
		return nil
	})
}

// received returns how many packets the right device has received.
func (t *target) received() (n uint64, err error) {
	err = t.lab.Right.Do(func() error {
		dev, err := netlink.LinkByName(t.lab.Right.Device)
		if err != nil {
			return fmt.Errorf("read the counters of %s: %w", t.lab.Right.Device, err)
		}
		n = dev.Attrs().Statistics.RxPackets
		return nil
	})
	return n, err
}

// arrived returns how many packets got past the policer to the right host's UDP.
func (t *target) arrived() (uint64, error) { return t.snmp("Udp:", "NoPorts") }

// snmp reads one of the right host's counters.
func (t *target) snmp(protocol, name string) (n uint64, err error) {
	err = t.lab.Right.Do(func() error {
		table, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return fmt.Errorf("read the kernel's counters: %w", err)
		}
		var names []string
		for line := range strings.Lines(string(table)) {
			fields := strings.Fields(line)
			if fields[0] != protocol {
				continue
			}
			if names == nil {
				names = fields
				continue
			}
			for i, is := range names {
				if is == name {
					n, err = strconv.ParseUint(fields[i], 10, 64)
					return err
				}
			}
		}
		return fmt.Errorf("the kernel's counters have no %s %s", protocol, name)
	})
	return n, err
}

// nothing lets every packet pass without being asked.
var nothing = policer{"nothing", func(*netlab.Host, bucketSize) (func() error, error) { return nil, nil }}

// verdictProgram is a TCX program that always gives the same verdict.
func verdictProgram(name string, verdict int32) policer {
	return policer{name, func(h *netlab.Host, _ bucketSize) (func() error, error) {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "verdict", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
		})
		if err != nil {
			return nil, err
		}
		defer p.Close()
		var on link.Link
		err = h.Do(func() error {
			on, err = link.AttachTCX(link.TCXOptions{Interface: h.Ifindex, Program: p, Attach: ebpf.AttachTCXIngress})
			return err
		})
		if errors.Is(err, ebpf.ErrNotSupported) {
			err = fmt.Errorf("%w: %w", errNoPeer, err) // before Linux 6.6
		}
		if err != nil {
			return nil, fmt.Errorf("attach a program to the TCX hook: %w", err)
		}
		return on.Close, nil
	}}
}

var (
	emptyTCX = verdictProgram("an empty TCX program", -1)        // TCX_NEXT
	dropTCX  = verdictProgram("a TCX program that drops all", 2) // TCX_DROP
)

// ours is one class with a bucket a flow, in a table of at least two slots a flow.
func ours(name string, params func(b bucketSize) marker.Params) policer {
	return policer{name, func(h *netlab.Host, b bucketSize) (func() error, error) {
		plan, err := planOf(params(b), 2*b.flows)
		if err != nil {
			return nil, err
		}
		var held *loader.Held
		err = h.Do(func() error {
			held, err = loader.Hold(h.Device, plan, loader.AttachOptions{})
			return err
		})
		if err != nil {
			return nil, err
		}
		return held.Close, nil
	}}
}

var (
	oursToken = ours("ours, token", func(b bucketSize) marker.Params {
		return marker.Params{Meter: marker.Token, CIR: b.rate, CBS: b.burst}
	})
	oursSRTCM = ours("ours, srtcm", func(b bucketSize) marker.Params {
		return marker.Params{Meter: marker.SRTCM, CIR: b.rate, CBS: b.burst, EBS: b.burst}
	})
)
