package main

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/pcaptest"
	"github.com/tricolor-policer/tricolor/policy"
)

// explained is what explain prints of a frame, as one line, and its lines as they are.
func explained(t *testing.T, m *marker.Mirror, f marker.Frame, now uint64) (words string, lines []string) {
	t.Helper()
	x := &pcaptest.Explained{
		Packet: capture.Packet{Number: 1, Time: now, Data: bytes.Clone(f.Data), Length: int(f.Length), Link: capture.LinkEthernet}, First: now,
	}
	x.Explanation = m.Explain(&f, now)
	var out strings.Builder
	if err := printExplained(&out, "x.pcap", x, newBucketNames(m.Plan())); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out.String()), " "), strings.Split(out.String(), "\n")
}

// Frames that the committed captures have not: what is said of them, and that it fits 80 columns.
func TestExplainWords(t *testing.T) {
	const (
		macs = "020000000001020000000002"
		ip   = "45b8001c0001000040110000c0000201c0000202" // 28 bytes, EF
		udp  = "1234003500080000"
		ip6  = "6b8000000034063f" + "20010db8aaaabbbbccccddddeeee0001" + "20010db8aaaabbbbccccddddeeee0002"
		tcp  = "12340035000000010000000280100000" + "00000000" + "000000000000000000000000"
	)
	for _, c := range []struct {
		words   policy.Words
		frame   string
		length  uint32
		change  func(*marker.Frame)
		has     []string
		hasNot  []string
		packets int // policed before
	}{
		{frame: macs + "0806" + "0001", has: []string{"not IP, let through", "not IP the EtherType is ARP (0x0806)", "done let through untouched"}, hasNot: []string{"meter"}},
		{frame: macs + "0800" + "44" + ip[2:] + udp, has: []string{"malformed, dropped", "malformed the header length is 16 bytes (IHL 4): at least 20", "done drop (malformed)"}},
		{words: policy.Words{Malformed: "pass"}, frame: macs + "0800" + "44" + ip[2:] + udp, has: []string{"malformed, let through", "done pass (malformed), untouched"}},
		{frame: macs + "88a86005" + "81001007" + "0800" + ip + udp, has: []string{"tag 802.1ad VID 5, priority 3", "802.1Q VID 7, drop eligible", "at byte 22"}},
		{words: policy.Words{Count: "l2", Overhead: "-10"}, frame: macs + "0800" + ip + udp,
			has: []string{"cost 50 B: the frame of 60 B (42 B here), overhead -10 (count l2)"}},
		{words: policy.Words{Count: "l1"}, frame: macs + "0800" + ip + udp, has: []string{"cost 84 B: the frame of 60 B (42 B here), 24 B for preamble, FCS and gap (count l1)"}},
		{frame: macs + "86dd" + ip6 + tcp, length: 54 + 32 + 2000, change: func(f *marker.Frame) { f.GSOSize, f.GSOSegs = 1000, 2 },
			words: policy.Words{CBS: "10kB"},
			has:   []string{"headers", "segments a super-packet", "cost 2,1", "for each of 2 segments, which share 2,0", "shared by packets of class default"}},
		{frame: macs + "0800" + ip + udp, packets: 1, words: policy.Words{CBS: "28B"},
			has: []string{"red, dropped", "green Tc is 28 B short; green 28,000,000 ns (28.000 ms) later", "later green after 28,000,000 ns (28.000 ms), if nothing else came"}},
		{frame: macs + "0800" + ip + udp, words: policy.Words{CBS: "27B"},
			has: []string{"green Tc is 1 B short; never: the packet is larger than CBS", "later green never, if nothing else came"}, hasNot: []string{"yellow or better"}},
		{frame: macs + "0800" + ip + udp, words: policy.Words{Green: "dscp=af11,mark=7"},
			has: []string{"done dscp=af11,mark=7; DSCP ef (46) → af11 (10), ECN stays Not-ECT, header checksum 0x0000 → 0x0090"}},
		{frame: macs + "0800" + ip + udp, words: policy.Words{Green: "dscp=ef"}, has: []string{"done dscp=ef: the packet is so already, and not written"}},
		{frame: macs + "0800" + "45b9" + ip[4:] + udp, words: policy.Words{Green: "ecn-ce"}, has: []string{"DSCP stays ef (46), ECN ECT(1) → CE"}},
		// Never, in each meter: it is said of the first colour that never comes, and of those that are better by that.
		{frame: macs + "0800" + ip + udp, words: policy.Words{Meter: "srtcm", CBS: "27B", EBS: "27B"},
			has: []string{"red, dropped", "later yellow or better never, if nothing else came"}, hasNot: []string{"green never,"}},
		{frame: macs + "0800" + ip + udp, words: policy.Words{Meter: "srtcm", CBS: "27B", EBS: "28B"},
			has: []string{"yellow, let through", "later green never, if nothing else came"}},
		{frame: macs + "0800" + ip + udp, packets: 1, words: policy.Words{Meter: "srtcm", CBS: "27B", EBS: "28B"},
			has: []string{"red, dropped", "later yellow or better after 28,000,000 ns (28.000 ms), green never, if nothing else came"}},
		{frame: macs + "0800" + ip + udp, packets: 1, words: policy.Words{Meter: "srtcm", CBS: "28B", EBS: "27B"},
			has: []string{"red, dropped", "later green after 28,000,000 ns (28.000 ms), if nothing else came"}, hasNot: []string{"never, if"}},
		{frame: macs + "0800" + "459a" + ip[4:] + udp, words: policy.Words{Meter: "srtcm", Color: "aware", CBS: "28B", EBS: "28B"},
			has: []string{"red, dropped", "green never: it arrives red", "yellow never: it arrives red", "later yellow or better never"}},
		// What is larger than is ever charged is as large as it is all the same.
		{frame: macs + "0800" + "45b80000" + ip[8:] + udp, length: 20_000_000,
			has: []string{"19,999,986 B, as the frame is long", "cost 16,777,216 B: the IP packet of 19,999,986 B, and more is never charged (count l3)"}},
		{words: policy.Words{Count: "l2"}, frame: macs + "0800" + "45b80000" + ip[8:] + udp, length: 20_000_000,
			has: []string{"cost 16,777,216 B: the frame of 20,000,000 B, and more is never charged (count l2)"}},
		// What is cut, and which fragment it is.
		{frame: macs + "0800" + ip[:30], length: 42, has: []string{"the IPv4 header is cut short: it has 20 bytes from byte 14 on, and 29 of the frame's were captured"}},
		{frame: macs + "0800" + "45b8001c000120b9" + ip[16:] + udp, has: []string{"fragment at byte 1,480 of its datagram, more follow", "udp no ports: it is a fragment"}},
		{frame: macs + "0800" + "45b8001c000100b9" + ip[16:] + udp, has: []string{"fragment at byte 1,480 of its datagram, the last"}},
		{frame: macs + "0800" + "45b8001c00012000" + ip[16:] + udp, has: []string{"fragment at byte 0 of its datagram, more follow"}},
		{frame: macs + "86dd" + ip6[:8] + "0010" + "2c" + ip6[14:] + "1100000000000001" + udp,
			has: []string{"fragment atomic: its datagram's only one", "udp no ports: it is a fragment", "shared by the fragments of"}},
		// AH counts its length otherwise: what follows it is found. Behind the packet nothing is charged where there is no link header.
		{frame: macs + "86dd" + ip6[:8] + "0028" + "33" + ip6[14:] + "3c04" + strings.Repeat("00", 22) + "1100010400000000" + udp,
			has: []string{"header 72 B at byte 14", "extension ah, destination DSCP", "udp 4660 > 53"}},
		{words: policy.Words{Count: "l2"}, frame: ip + udp[:16] + "00000000", change: func(f *marker.Frame) { f.Link = marker.LinkIPv4 },
			has: []string{"cost 28 B: the IP packet of 28 B (there is no link header) (count l2)"}},
		{frame: "40", change: func(f *marker.Frame) { f.Link = marker.LinkOther }, has: []string{"not IP it is announced neither as IPv4 nor as IPv6"}},
		{frame: macs + "0800" + ip + udp, words: policy.Words{Meter: "token", Color: "aware", CBS: "100B"}, has: []string{"judged green (green on arrival)"}},
	} {
		w := c.words
		w.CIR, w.Flows = "8kbit", "64"
		if w.Meter == "" {
			w.Meter = "token"
		}
		if w.CBS == "" {
			w.CBS = "1000B"
		}
		m := mirrorOf(t, w)
		data, err := hex.DecodeString(c.frame)
		if err != nil {
			t.Fatal(err)
		}
		f := marker.Frame{Data: data, Length: max(c.length, uint32(len(data)))}
		if c.change != nil {
			c.change(&f)
		}
		for range c.packets {
			before := f
			before.Data = bytes.Clone(data)
			m.Packet(&before, 1e9)
		}
		words, lines := explained(t, m, f, 1e9)
		for _, has := range c.has {
			if !strings.Contains(words, has) {
				t.Errorf("%s: no %q in:\n%s", c.frame, has, strings.Join(lines, "\n"))
			}
		}
		for _, has := range c.hasNot {
			if strings.Contains(words, has) {
				t.Errorf("%s: %q in:\n%s", c.frame, has, strings.Join(lines, "\n"))
			}
		}
		for _, line := range lines {
			if len([]rune(line)) > factWidth {
				t.Errorf("over %d columns: %q", factWidth, line)
			}
		}
	}
}

// mirrorOf is the mirror that these words give.
func mirrorOf(t *testing.T, w policy.Words) *marker.Mirror {
	t.Helper()
	p, err := w.Policy()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	m, err := marker.NewMirror(plan, marker.SeedsFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A table without room: the overflow bucket, and new buckets in the place of full ones.
func TestExplainFullTable(t *testing.T) {
	w := policy.Words{Meter: "srtcm", CIR: "8kbit", CBS: "100B", EBS: "100B", Flows: "64"}
	m := mirrorOf(t, w)
	frame := func(i int) marker.Frame {
		data, err := hex.DecodeString("020000000001020000000002" + "0800" + "45b8001c0001000040110000c0000201c0000202" + "1234003500080000")
		if err != nil {
			t.Fatal(err)
		}
		data[28], data[29] = byte(i>>8), byte(i)
		return marker.Frame{Data: data, Length: uint32(len(data))}
	}
	var overflow, reused string
	for i := range 100 {
		if words, _ := explained(t, m, frame(i), 1e9); strings.Contains(words, "no room for this key: metered in the overflow bucket") {
			overflow = words
		}
	}
	for i := range 100 {
		if words, _ := explained(t, m, frame(1000+i), 100e9); strings.Contains(words, "which was full and is forgotten; it starts ") {
			reused = words
		}
	}
	if overflow == "" || reused == "" {
		t.Errorf("overflow: %q, reused: %q", overflow, reused)
	}
}

// Whatever files are called, what is said of a packet moves no cursor and forges no line.
func TestExplainHostileFiles(t *testing.T) {
	f := newHostileFiles(t)
	meter := []string{"--meter", "token", "--cir", "1mbit", "--cbs", "2kB", "--flows", "64"}
	for _, args := range [][]string{
		{f.capture, "--packet", "7"}, {f.capture, "--packet", "7", "-o", "json"}, {f.capture, "--packet", "99"}, {f.capture, "--packet", hostile},
		{f.capture}, {f.trace, "--packet", "1"}, {f.missing, "--packet", "1"}, {f.dir, "--packet", "1"}, {f.prefixes, "--packet", "1"}, {hostile, hostile},
	} {
		wantHarmless(t, append(append([]string{"explain"}, args...), meter...)...)
	}
}
