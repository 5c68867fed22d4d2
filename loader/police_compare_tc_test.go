package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// tcPolice is what "tc filter add … action police rate RATE burst BURST [mtu MTU] conform-exceed drop/ok"
// asks the kernel for. The netlink library's PoliceAction has no rate over 34 Gbit/s.
type tcPolice struct {
	rate  uint64 // bytes per second
	burst uint64 // bytes
	mtu   uint32 // bytes; 0: none given
	newer bool   // by an iproute2 with its roundings of 2025, not by one from before
}

const (
	tickNS = 64 // what the kernel's interface to traffic control counts time in

	// Of the kernel's linux/pkt_cls.h, and not the library's.
	tcaPoliceRate64 = 8
)

// ticks is a burst as tc sends it: the time to earn it, in ticks, in 32 bits. The older cuts it to whole
// microseconds, and what is beyond 32 bits off; the newer rounds up, and sends the most there is.
func (p *tcPolice) ticks() uint32 {
	if p.newer {
		return uint32(min(math.Ceil(float64(p.burst)*1e9/float64(p.rate)/tickNS), math.MaxUint32))
	}
	return uint32(p.burst * 1_000_000 / p.rate * 1000 / tickNS)
}

// held is the burst, in bytes, that ticks stand for.
func (p *tcPolice) held(ticks uint32) uint64 { return uint64(ticks) * tickNS * p.rate / 1e9 }

// shown is the burst that tc prints: the older turns ticks into whole microseconds here, too.
func (p *tcPolice) shown(ticks uint32) uint64 {
	if p.newer {
		return p.held(ticks)
	}
	return uint64(ticks) * tickNS / 1000 * p.rate / 1e6
}

// options are the attributes of the action.
func (p *tcPolice) options(to *nl.RtAttr) {
	m := nl.TcPolice{Action: int32(netlink.TC_ACT_SHOT), Burst: p.ticks(), Mtu: p.mtu}
	m.Rate.Rate = uint32(min(p.rate, 1<<32-1))
	table := make([]uint32, 256) // of times by length: the kernel wants one, and reckons by itself
	netlink.CalcRtable(&m.Rate, table, -1, p.mtu, nl.LINKLAYER_ETHERNET)
	to.AddRtAttr(nl.TCA_POLICE_TBF, m.Serialize())
	to.AddRtAttr(nl.TCA_POLICE_RATE, netlink.SerializeRtab([256]uint32(table)))
	if p.rate >= 1<<32 {
		to.AddRtAttr(tcaPoliceRate64, nl.Uint64Attr(p.rate))
	}
}

// attach hangs the action on a device, behind a filter that takes every packet. It goes with the laboratory.
// It skips the test where the kernel has no such action.
func (p *tcPolice) attach(tb testing.TB, h *netlab.Host, d Direction) {
	tb.Helper()
	addClsact(tb, h)
	request := nl.NewNetlinkRequest(unix.RTM_NEWTFILTER, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	request.AddData(&nl.TcMsg{
		Ifindex: int32(h.Ifindex), Handle: 1, Parent: d.parent(),
		Info: netlink.MakeHandle(1, nl.Swap16(unix.ETH_P_ALL)),
	})
	request.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("bpf")))
	options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	action := options.AddRtAttr(nl.TCA_BPF_ACT, nil).AddRtAttr(1, nil)
	action.AddRtAttr(nl.TCA_ACT_KIND, nl.ZeroTerminated("police"))
	p.options(action.AddRtAttr(nl.TCA_ACT_OPTIONS, nil))
	all := binary.NativeEndian.AppendUint16(nil, unix.BPF_RET|unix.BPF_K)
	all = binary.NativeEndian.AppendUint32(append(all, 0, 0), 1<<32-1)
	options.AddRtAttr(nl.TCA_BPF_OPS_LEN, nl.Uint16Attr(1))
	options.AddRtAttr(nl.TCA_BPF_OPS, all)
	request.AddData(options)
	err := h.Do(func() error {
		_, err := request.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		tb.Skipf("needs tc police (act_police and cls_bpf), which this kernel lacks: %v", err)
	}
	if err != nil {
		tb.Fatalf("attach tc police: %v", err)
	}
}

// policeReport is what the action says of itself, as "tc -s filter show" prints it.
type policeReport struct {
	sentBytes, sentPackets, dropped, overlimits uint64
	ticks                                       uint32 // its burst
}

func (r policeReport) String() string {
	return fmt.Sprintf("Sent %d bytes %d pkt (dropped %d, overlimits %d)", r.sentBytes, r.sentPackets, r.dropped, r.overlimits)
}

// attributes finds what lies under a path of types in a row of attributes.
func attributes(b []byte, path ...uint16) ([]byte, error) {
	for _, kind := range path {
		row, err := nl.ParseRouteAttr(b)
		if err != nil {
			return nil, err
		}
		found := false
		for _, a := range row {
			if a.Attr.Type&nl.NLA_TYPE_MASK == kind {
				b, found = a.Value, true
			}
		}
		if !found {
			return nil, fmt.Errorf("attribute %d of %v: %w", kind, path, unix.ENODATA)
		}
	}
	return b, nil
}

// report asks the device's only filter.
func (p *tcPolice) report(tb testing.TB, h *netlab.Host, d Direction) (r policeReport) {
	tb.Helper()
	err := h.Do(func() error {
		request := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
		request.AddData(&nl.TcMsg{Ifindex: int32(h.Ifindex), Parent: d.parent()})
		messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER)
		if err != nil {
			return err
		}
		for _, m := range messages {
			action, err := attributes(m[nl.SizeofTcMsg:], nl.TCA_OPTIONS, nl.TCA_BPF_ACT, 1)
			if errors.Is(err, unix.ENODATA) {
				continue // the head of a chain of filters
			}
			basic, err1 := attributes(action, nl.TCA_ACT_STATS, nl.TCA_STATS_BASIC)
			queue, err2 := attributes(action, nl.TCA_ACT_STATS, nl.TCA_STATS_QUEUE)
			tbf, err3 := attributes(action, nl.TCA_ACT_OPTIONS, nl.TCA_POLICE_TBF)
			if err := errors.Join(err, err1, err2, err3); err != nil {
				return err
			}
			word := func(b []byte, n int) uint64 { return uint64(binary.NativeEndian.Uint32(b[4*n:])) }
			r = policeReport{binary.NativeEndian.Uint64(basic), word(basic, 2), word(queue, 2), word(queue, 4), nl.DeserializeTcPolice(tbf).Burst}
			return nil
		}
		return errors.New("the filter is gone")
	})
	if err != nil {
		tb.Fatalf("read what tc police reports: %v", err)
	}
	return r
}

// wait returns the report once so many packets of the wire have met the action. The minute is for a machine
// that hangs.
func (p *tcPolice) wait(tb testing.TB, h *netlab.Host, d Direction, packets uint64) policeReport {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r := p.report(tb, h, d)
		if r.sentPackets >= packets {
			return r
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%d packets have met tc police, want %d", r.sentPackets, packets)
		}
	}
}

// What "tc" of iproute2 6.1 was seen to send (by strace), the comparison sends.
func TestPoliceTicks(t *testing.T) {
	for _, test := range []struct {
		police tcPolice
		want   uint32
	}{
		{tcPolice{rate: 1_250_000_000, burst: 1400}, 15},
		{tcPolice{rate: 50_000_000_000, burst: 10_240}, 0},
		{tcPolice{rate: 180, burst: 54_000}, 392_532_704},
		{tcPolice{rate: 12, burst: 3020}, 3_932_291_656},
		{tcPolice{rate: 800, burst: 30_000}, 585_937_500},
	} {
		if got := test.police.ticks(); got != test.want {
			t.Errorf("a burst of %d bytes at %d bytes per second is sent as %d, want %d", test.police.burst, test.police.rate, got, test.want)
		}
	}
}
