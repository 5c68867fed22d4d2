package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	stateLine = "state:     memory of this host's kernel, for each interface and direction its own; lost at detach and at reboot: buckets then start full"
	clockLine = "clock:     CLOCK_MONOTONIC of this host, in nanoseconds; in a replay the capture's own time stamps"
)

func TestContract(t *testing.T) {
	p, err := parseText(wholePolicy, nil)
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string][]string{
		"voice": {
			"principal: each flow (addresses, protocol, ports) has a bucket of its own",
			"unit:      bytes of the IP packet, its header included, the link's excluded (l3)",
			"rate:      CIR 50 Mbit/s, PIR 100 Mbit/s (RFC 2698, by the colour that the DSCP says on arrival)",
			"burst:     CBS 128 KiB, PBS 256 KiB",
			"verbs:     green pass; yellow dscp=af41; red drop",
			"signal:    yellow has DSCP af41, which the receiver sees and the sender does not; red is lost: TCP and QUIC send again, slower; other senders must notice themselves",
			stateLine, clockLine,
		},
		"customers": {
			"principal: (1) each flow (addresses, protocol, ports) has a bucket of its own; (2) each source /24 of IPv4 and /56 of IPv6 has a bucket of its own; " +
				"(3) all classes of the interface that name profile link so share one bucket; a packet must please each, and has the worst of their colours",
			"unit:      bytes of the frame without FCS, at least 60 on Ethernet (l2)",
			"rate:      (1) CIR 10 Mbit/s (RFC 2697); (2) CIR 200 Mbit/s, EIR 50 Mbit/s (RFC 4115, coupled); (3) CIR 1 Gbit/s (one token bucket)",
			"burst:     (1) CBS 96 KiB, EBS 192 KiB; (2) CBS 250 kB, EBS 62500 B; (3) CBS 2500 kB",
			"verbs:     green dscp=af11; yellow ecn-ce,dscp=af12; red drop",
			"signal:    yellow has ECN's CE where the sender knows ECN: it slows down without a loss; yellow has DSCP af12, which the receiver sees and the sender does not; " +
				"red is lost: TCP and QUIC send again, slower; other senders must notice themselves",
			stateLine, clockLine,
		},
	} {
		if diff := cmp.Diff(want, Contract(p, class)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", class, diff)
		}
	}
	if got := Contract(p, "nobody"); got != nil {
		t.Errorf("a class that is none: %q", got)
	}
}

// What each word of a policy says to a customer.
func TestContractWords(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		line int
		want string
	}{
		"per src":      {strings.Replace(one(""), "per: flow", "per: src", 1), 0, "principal: each source address (on IPv6 each /64) has a bucket of its own"},
		"per host":     {strings.Replace(one(""), "per: flow", "per: \"dst/32,128\"", 1), 0, "principal: each destination address has a bucket of its own"},
		"per vlan":     {strings.Replace(one(""), "per: flow", "per: vlan", 1), 0, "principal: each VLAN has a bucket of its own"},
		"per dscp":     {strings.Replace(one(""), "per: flow", "per: dscp", 1), 0, "principal: each DSCP has a bucket of its own"},
		"per class":    {strings.Replace(one(""), "per: flow", "per: class", 1), 0, "principal: all packets of the class share one bucket"},
		"l1":           {one("    count: l1\n    overhead: -4\n"), 1, "unit:      bytes of the frame, at least 60, and 24 more for FCS, preamble and gap (l1), -4 for each packet"},
		"packets":      {strings.Replace(one("    count: packets\n"), "profile: p", "profile: q", 1), 1, "unit:      packets, each of a super-packet's segments one"},
		"their rate":   {strings.Replace(one("    count: packets\n"), "profile: p", "profile: q", 1), 2, "rate:      CIR 1 kpps (one token bucket)"},
		"their burst":  {strings.Replace(one("    count: packets\n"), "profile: p", "profile: q", 1), 3, "burst:     CBS 10 pkt"},
		"no signal":    {one("    red: { mark: 1, priority: 2 }\n"), 5, "signal:    none: no packet is dropped, nor marked with more than green"},
		"no yellow":    {one("    yellow: { dscp: af12 }\n"), 5, "signal:    red is lost: TCP and QUIC send again, slower; other senders must notice themselves"},
		"marks":        {one("    red: { mark: 1, priority: 2 }\n"), 4, "verbs:     green pass; yellow pass; red mark=1,priority=2"},
		"lines' rates": {customers("src"), 2, "rate:      CIR 10 Mbit/s (one token bucket); where the line of c.csv names a profile, that one for the first"},
	} {
		p, err := parseText(test.text, files{"c.csv": "10.0.0.0/24,p\n"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if lines := Contract(p, "c"); len(lines) != 8 || lines[test.line] != test.want {
			t.Errorf("%s: %q, want %q", name, lines, test.want)
		}
	}
}
