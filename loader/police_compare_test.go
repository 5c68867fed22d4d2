package loader

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// A comparison is one flow of UDP through tc police and then through tricolor, by the same rate and burst.
// docs/tc-police.md says why they differ.
type comparison struct {
	name      string
	police    tcPolice // and tricolor's CIR and CBS
	direction Direction
	count     string // tricolor's unit
	link      netlab.Options
	flow      netlab.UDPFlow // its payload as bytes of IP
	// The wire packets that must arrive. With fast, what arrives is up to how fast the sender is: these
	// are the least that must, and a 0 says none.
	wantPolice, wantTricolor uint64
	fast                     bool
	// margin is how many bytes may be earned while packets are sent before one more would pass either.
	margin uint64
}

var comparisons = []comparison{
	{
		name:   "1600bit, ingress",
		police: tcPolice{rate: 200, burst: 40_000}, direction: Ingress, count: "l3",
		flow:       netlab.UDPFlow{Payload: 1000, Count: 60},
		wantPolice: 40, wantTricolor: 40, margin: 1000,
	},
	{
		name:   "1600bit, egress",
		police: tcPolice{rate: 200, burst: 40_000}, direction: Egress, count: "l3",
		flow:       netlab.UDPFlow{Payload: 1000, Count: 60},
		wantPolice: 39, wantTricolor: 40, margin: 560,
	},
	{
		name:   "1600bit, egress, count: l2",
		police: tcPolice{rate: 200, burst: 40_000}, direction: Egress, count: "l2",
		flow:       netlab.UDPFlow{Payload: 1000, Count: 60},
		wantPolice: 39, wantTricolor: 39, margin: 560,
	},
	{
		name:   "43-byte frames, egress, count: l2",
		police: tcPolice{rate: 12, burst: 3020}, direction: Egress, count: "l2",
		flow:       netlab.UDPFlow{Payload: 29, Count: 100},
		wantPolice: 70, wantTricolor: 50, margin: 33,
	},
	{
		name:   "a burst of one packet",
		police: tcPolice{rate: 200, burst: 1000}, direction: Ingress, count: "l3",
		flow:       netlab.UDPFlow{Payload: 1000, Count: 40},
		wantPolice: 1, wantTricolor: 1, margin: 1000,
	},
	{
		name:   "a burst below one packet",
		police: tcPolice{rate: 200, burst: 999}, direction: Ingress, count: "l3",
		flow: netlab.UDPFlow{Payload: 1000, Count: 40}, margin: 1 << 30,
	},
	{
		name:   "300 s of burst",
		police: tcPolice{rate: 180, burst: 54_000}, direction: Ingress, count: "l3",
		flow:       netlab.UDPFlow{Payload: 1000, Count: 60},
		wantPolice: 4, wantTricolor: 54, margin: 478,
	},
	{
		name:   "300 s of burst, newer tc",
		police: tcPolice{rate: 180, burst: 54_000, newer: true}, direction: Ingress, count: "l3",
		flow:       netlab.UDPFlow{Payload: 1000, Count: 60},
		wantPolice: 49, wantTricolor: 54, margin: 478,
	},
	{
		name:   "jumbo frames",
		police: tcPolice{rate: 800, burst: 30_000}, direction: Ingress, count: "l3",
		link: netlab.Options{MTU: 9000}, flow: netlab.UDPFlow{Payload: 8000, Count: 8},
		wantPolice: 0, wantTricolor: 3, margin: 2000,
	},
	{
		name:   "jumbo frames, police mtu 9100",
		police: tcPolice{rate: 800, burst: 30_000, mtu: 9100}, direction: Ingress, count: "l3",
		link: netlab.Options{MTU: 9000}, flow: netlab.UDPFlow{Payload: 8000, Count: 8},
		wantPolice: 3, wantTricolor: 3, margin: 2000,
	},
	{
		name:   "super-packets of 30 × 1000 B, egress",
		police: tcPolice{rate: 200, burst: 20_000}, direction: Egress, count: "l3",
		link: netlab.Options{Offload: true}, flow: netlab.UDPFlow{Payload: 30 * 1000, GSO: 1000, Count: 4},
		wantPolice: 0, wantTricolor: 0, margin: 1 << 30,
	},
	{
		name:   "super-packets of 60 × 128 B, ingress",
		police: tcPolice{rate: 200, burst: 30_200}, direction: Ingress, count: "l3",
		link: netlab.Options{Offload: true}, flow: netlab.UDPFlow{Payload: 60 * 128, GSO: 128, Count: 8},
		wantPolice: 5 * 60, wantTricolor: 3 * 60, margin: 520,
	},
	{
		name:   "super-packets of 60 × 128 B, egress, count: l2",
		police: tcPolice{rate: 200, burst: 30_200}, direction: Egress, count: "l2",
		link: netlab.Options{Offload: true}, flow: netlab.UDPFlow{Payload: 60 * 128, GSO: 128, Count: 8},
		wantPolice: 3 * 60, wantTricolor: 3 * 60, margin: 3880,
	},
	{
		name:   "10gbit",
		police: tcPolice{rate: 1_250_000_000, burst: 1400}, direction: Ingress, count: "l3",
		flow:         netlab.UDPFlow{Payload: 1400, Count: 60},
		wantTricolor: 1, fast: true,
	},
	{
		name:   "10gbit, newer tc",
		police: tcPolice{rate: 1_250_000_000, burst: 1400, newer: true}, direction: Ingress, count: "l3",
		flow:       netlab.UDPFlow{Payload: 1400, Count: 60},
		wantPolice: 1, wantTricolor: 1, fast: true,
	},
	{
		name:   "400gbit",
		police: tcPolice{rate: 50_000_000_000, burst: 10_240}, direction: Ingress, count: "l3",
		flow:         netlab.UDPFlow{Payload: 1400, Count: 60},
		wantTricolor: 1, fast: true,
	},
	{
		name:   "400gbit, newer tc",
		police: tcPolice{rate: 50_000_000_000, burst: 10_240, newer: true}, direction: Ingress, count: "l3",
		flow:       netlab.UDPFlow{Payload: 1400, Count: 60},
		wantPolice: 1, wantTricolor: 1, fast: true,
	},
	{
		name:   "400gbit, 1 MB of burst",
		police: tcPolice{rate: 50_000_000_000, burst: 1_000_000}, direction: Ingress, count: "l3",
		flow:       netlab.UDPFlow{Payload: 1400, Count: 60},
		wantPolice: 60, wantTricolor: 60, fast: true,
	},
}

// Where a policer of the kernel's own and this one differ is documented, and so it stays until that is
// changed.
func TestComparePolice(t *testing.T) {
	testutils.RequireRoot(t)
	(&tcPolice{rate: 1, burst: 1}).attach(t, newLab(t, netlab.Options{}).Right, Ingress) // or skip
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "case\trate, B/s\tburst, B\tsent\tpolice passes\ttricolor passes\tpolice reports\tits burst\tholds\ttricolor reports")
	for _, c := range comparisons {
		t.Run(c.name, func(t *testing.T) { c.run(t, w) })
	}
	w.Flush()
	t.Logf("\n%s", table.String())
}

// run sends the flow through both. Where sending took so long that what was earned could have let more
// pass, it sends it again.
func (c *comparison) run(t *testing.T, w *tabwriter.Writer) {
	t.Helper()
	for try := 1; ; try++ {
		police, report, slow := c.throughPolice(t)
		ours, counted, slower := c.throughTricolor(t)
		switch {
		case !slow && !slower:
		case try == 10:
			t.Fatalf("%d times the sender took longer than the %d bytes to spare take to be earned", try, c.margin)
		default:
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t%db\t%d B\t%s\n", c.name, c.police.rate, c.police.burst, c.packets(),
			police, ours, report, c.police.shown(report.ticks), c.police.held(report.ticks), counted)
		c.judge(t, "tc police", police, c.wantPolice)
		c.judge(t, "tricolor", ours, c.wantTricolor)
		return
	}
}

func (c *comparison) judge(t *testing.T, who string, got, want uint64) {
	t.Helper()
	if c.fast && want > 0 && got >= want && got <= c.packets() {
		return
	}
	if got != want {
		t.Errorf("%s let %d of %d packets pass, want %d", who, got, c.packets(), want)
	}
}

// packets is how many the flow is on the wire.
func (c *comparison) packets() uint64 {
	n := uint64(c.flow.Count)
	if c.flow.GSO > 0 {
		n *= uint64(c.flow.Payload / c.flow.GSO)
	}
	return n
}

func (c *comparison) throughPolice(t *testing.T) (passed uint64, report policeReport, slow bool) {
	t.Helper()
	lab, host := c.lab(t)
	c.police.attach(t, host, c.direction)
	passed, slow = c.send(t, lab, func() {
		report = c.police.wait(t, host, c.direction, c.packets())
	})
	return passed, report, slow
}

func (c *comparison) throughTricolor(t *testing.T) (passed uint64, counted string, slow bool) {
	t.Helper()
	lab, host := c.lab(t)
	p := police(t, host, host.Device, c.direction, policyPlan(t, fmt.Sprintf(`
version: 1
profiles: { peer: { meter: token, cir: %dB/s, cbs: %dB } }
classes: [ { name: all, count: %s, meters: [ { profile: peer, per: class } ] } ]
`, c.police.rate, c.police.burst, c.count)))
	passed, slow = c.send(t, lab, func() {
		s := p.wait(t, c.packets()).Classes[0]
		counted = fmt.Sprintf("green %d B %d pkt, red %d B %d pkt", s.Bytes[marker.Green], s.Packets[marker.Green],
			s.Bytes[marker.Red], s.Packets[marker.Red])
		if got := s.Packets[marker.Green] + s.Packets[marker.Red]; got != c.packets() {
			t.Errorf("tricolor counts %d packets, want %d", got, c.packets())
		}
	})
	return passed, counted, slow
}

func (c *comparison) lab(t *testing.T) (*netlab.Lab, *netlab.Host) {
	t.Helper()
	lab := newLab(t, c.link)
	if c.direction == Egress {
		return lab, lab.Left
	}
	return lab, lab.Right
}

// send sends the flow, waits until all of it has met the policer, and returns how many packets arrived. It
// is slow where more than the margin was earned meanwhile.
func (c *comparison) send(t *testing.T, lab *netlab.Lab, wait func()) (passed uint64, slow bool) {
	t.Helper()
	const headers = 20 + 8 // of IPv4 and UDP
	sink, err := lab.Right.ReceiveUDP(false, port)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Stop()
	flow := c.flow
	flow.To, flow.From = sink.Addr(), port
	if flow.GSO > 0 {
		flow.Payload -= flow.Payload / flow.GSO * headers
		flow.GSO -= headers
	} else {
		flow.Payload -= headers
	}
	start := time.Now()
	if _, err := lab.Left.SendUDP(bounded(t), flow); err != nil {
		t.Fatal(err)
	}
	wait()
	took := time.Since(start)
	got, err := sink.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if got.Dropped != 0 || got.BadChecksums != 0 {
		t.Fatalf("the receiver lost %d datagrams, and %d had a wrong checksum", got.Dropped, got.BadChecksums)
	}
	return got.Datagrams, !c.fast && took.Seconds()*float64(c.police.rate) >= float64(c.margin)
}
