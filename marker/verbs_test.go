package marker

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// acting is a mirror that does one thing with every packet.
func acting(t *testing.T, a Action) *Mirror {
	return mirrorOf(t, planOf(t, testClass{
		name: "a", meters: []testMeter{{per: PerClass, params: token(1e6)}},
		change: func(c *Class) { c.Actions[Green] = a },
	}))
}

// SPEC 4.6 and RFC 3168: CE where the packet is ECN-capable (ECT(0) = 2, ECT(1) = 1) or CE already; else the DSCP that stands
// beside it, or nothing. The traffic classes are written by hand: DSCP 46 is b8, DSCP 12 is 30.
func TestVerbsECN(t *testing.T) {
	both, alone := Action{Verbs: VerbCE | VerbDSCP, DSCP: 12}, Action{Verbs: VerbCE}
	for _, c := range []struct {
		name      string
		action    Action
		tos, want byte
	}{
		{"Not-ECT, CE", alone, 0xb8, 0xb8},
		{"ECT(1), CE", alone, 0xb9, 0xbb},
		{"ECT(0), CE", alone, 0xba, 0xbb},
		{"CE, CE", alone, 0xbb, 0xbb},
		{"Not-ECT, CE or DSCP", both, 0xb8, 0x30},
		{"ECT(1), CE or DSCP", both, 0xb9, 0xbb},
		{"ECT(0), CE or DSCP", both, 0xba, 0xbb},
		{"CE, CE or DSCP", both, 0xbb, 0xbb},
		{"Not-ECT, DSCP", Action{Verbs: VerbDSCP, DSCP: 12}, 0xb8, 0x30},
		{"ECT(0), DSCP", Action{Verbs: VerbDSCP, DSCP: 12}, 0xba, 0x32},
		{"CE, DSCP", Action{Verbs: VerbDSCP, DSCP: 12}, 0xbb, 0x33},
		{"ECT(1), pass", Action{}, 0xb9, 0xb9},
		{"ECT(1), drop", Action{Verbs: VerbDrop | VerbCE | VerbDSCP, DSCP: 12}, 0xb9, 0xb9},
		{"ECT(0), a DSCP without its verb", Action{DSCP: 12}, 0xba, 0xba},
	} {
		t.Run(c.name, func(t *testing.T) {
			four := sized(100)
			four.Data[15] = c.tos
			copy(four.Data[24:], []byte{0, 0})
			binary.BigEndian.PutUint16(four.Data[24:], checksumOf(four.Data[14:34]))
			want := bytes.Clone(four.Data)
			want[15] = c.want
			copy(want[24:], []byte{0, 0})
			binary.BigEndian.PutUint16(want[24:], checksumOf(want[14:34]))
			m := acting(t, c.action)
			if out := m.Packet(&four, 0); !bytes.Equal(four.Data, want) || out.Dropped != (c.action.Verbs&VerbDrop != 0) {
				t.Errorf("IPv4: dropped %v,\n%x, not\n%x", out.Dropped, four.Data[14:34], want[14:34])
			}
			// Version 6, traffic class, and the flow label's first four bits, a.
			six := whole(udp6Frame)
			six.Data[14], six.Data[15] = 0x60|c.tos>>4, c.tos<<4|0xa
			want = bytes.Clone(six.Data)
			want[14], want[15] = 0x60|c.want>>4, c.want<<4|0xa
			if m.Packet(&six, 0); !bytes.Equal(six.Data, want) {
				t.Errorf("IPv6:\n%x, not\n%x", six.Data[14:18], want[14:18])
			}
		})
	}
}

// mark and priority set the skb's; several verbs are all done; a dropped packet is left alone.
func TestVerbsMarkAndPriority(t *testing.T) {
	for _, c := range []struct {
		name           string
		action         Action
		mark, priority uint32
		tos            byte
	}{
		{"pass", Action{}, 5, 6, 0xb8},
		{"mark", Action{Verbs: VerbMark, Mark: 0xdeadbeef}, 0xdeadbeef, 6, 0xb8},
		{"mark 0", Action{Verbs: VerbMark}, 0, 6, 0xb8},
		{"priority", Action{Verbs: VerbPriority, Priority: 0x10001, Mark: 9}, 5, 0x10001, 0xb8},
		{"priority 0", Action{Verbs: VerbPriority}, 5, 0, 0xb8},
		{"all", Action{Verbs: VerbMark | VerbPriority | VerbDSCP | VerbCE, Mark: 1, Priority: 2, DSCP: 10}, 1, 2, 0x28},
		{"drop", Action{Verbs: VerbDrop | VerbMark | VerbPriority | VerbDSCP, Mark: 1, Priority: 2, DSCP: 10}, 5, 6, 0xb8},
	} {
		f := sized(100)
		f.Mark, f.Priority = 5, 6
		acting(t, c.action).Packet(&f, 0)
		if f.Mark != c.mark || f.Priority != c.priority || f.Data[15] != c.tos {
			t.Errorf("%s: mark %#x, priority %#x, %#x; not %#x, %#x, %#x", c.name, f.Mark, f.Priority, f.Data[15], c.mark, c.priority, c.tos)
		}
	}
}

// SPEC 5: each colour has verbs of its own.
func TestVerbsOfEachColor(t *testing.T) {
	m := mirrorOf(t, planOf(t, testClass{
		name: "a", meters: []testMeter{{per: PerClass, params: srtcmOf(100, 100)}},
		change: func(c *Class) {
			c.Actions = [Colors]Action{{Verbs: VerbMark, Mark: 1}, {Verbs: VerbPriority, Priority: 2}, {Verbs: VerbMark, Mark: 3}}
		},
	}))
	for i, want := range [][2]uint32{{1, 0}, {0, 2}, {3, 0}} {
		f := sized(100)
		if out := m.Packet(&f, 0); f.Mark != want[0] || f.Priority != want[1] || out.Dropped || out.Color != Color(i) {
			t.Errorf("packet %d: %+v, mark %d, priority %d", i+1, out, f.Mark, f.Priority)
		}
	}
}
