package marker

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The frames are written by hand, in hexadecimal, and so are the answers.

// unhex joins bytes in hexadecimal; blanks are for the reader.
func unhex(parts ...string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(parts, ""), " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

const (
	macs  = "020000000001 020000000002"
	udp   = "1234 0035 0008 0000"
	tcp   = "1234 0035 00000001 00000002 5010 ffff 0000 0000"
	sctp  = "1234 0035 00000007 00000000"
	pppoe = "8864 1100 0001 0000"
)

// ip4 is an IPv4 header from 10.0.0.1 to 10.0.0.2, EF.
func ip4(total int, proto int) string {
	return fmt.Sprintf("45b8 %04x 0001 0000 40%02x 0000 0a000001 0a000002", total, proto)
}

// ip6 is an IPv6 header from 2001:db8::1 to 2001:db8::2, EF, flow label abcde.
func ip6(payload int, next int) string {
	return fmt.Sprintf("6b8abcde %04x %02x40 20010db8000000000000000000000001 20010db8000000000000000000000002", payload, next)
}

// extension is an IPv6 extension header of size bytes.
func extension(next, size int) string {
	return fmt.Sprintf("%02x%02x", next, size/8-1) + strings.Repeat("00", size-2)
}

// seen is what the parser says of a packet, in words.
type seen struct {
	what         string
	src, dst     string
	proto        int
	sport, dport int
	l3, l4       int
	length       int // of the IP packet
	vlan         int
	dscp         int
	fragment     bool
	long         bool
}

func look(f Frame) seen {
	if f.Length == 0 {
		f.Length = uint32(len(f.Data))
	}
	var p packet
	switch parseFrame(&f, &p) {
	case parsedNotIP:
		return seen{what: "not IP"}
	case parsedMalformed:
		return seen{what: "malformed"}
	}
	k := p.key.Fields()
	addr := func(b [16]byte) string {
		if p.family == FamilyIPv6 {
			return netip.AddrFrom16(b).String()
		}
		if [12]byte(b[4:]) != [12]byte{} {
			return "not only an IPv4 address"
		}
		return netip.AddrFrom4([4]byte(b[:4])).String()
	}
	s := seen{
		what: "IPv4", src: addr(k.Src), dst: addr(k.Dst), proto: int(k.Proto),
		sport: int(binary.BigEndian.Uint16(k.Sport[:])), dport: int(binary.BigEndian.Uint16(k.Dport[:])),
		l3: int(p.l3), l4: int(p.l4), length: int(p.ipLength), vlan: int(p.vlan), dscp: int(p.dscp),
		fragment: p.fragment, long: p.longChain,
	}
	if p.family == FamilyIPv6 {
		s.what = "IPv6"
	}
	if k.Kind != 0 || k.Class != 0 {
		s.what += " with a kind or class"
	}
	return s
}

// v4 and v6 are the usual answers, changed by what the case says.
func v4(l3, length int, change ...func(*seen)) seen {
	s := seen{what: "IPv4", src: "10.0.0.1", dst: "10.0.0.2", proto: 17, sport: 0x1234, dport: 53, l3: l3, l4: l3 + 20, length: length, dscp: 46}
	for _, c := range change {
		c(&s)
	}
	return s
}

func v6(l3, length int, change ...func(*seen)) seen {
	s := seen{what: "IPv6", src: "2001:db8::1", dst: "2001:db8::2", proto: 17, sport: 0x1234, dport: 53, l3: l3, l4: l3 + 40, length: length, dscp: 46}
	for _, c := range change {
		c(&s)
	}
	return s
}

func noPorts(s *seen)                { s.sport, s.dport = 0, 0 }
func fragment(s *seen)               { s.fragment = true; noPorts(s) }
func long(s *seen)                   { s.long = true; noPorts(s) }
func proto(n int) func(*seen)        { return func(s *seen) { s.proto = n } }
func vlan(id int) func(*seen)        { return func(s *seen) { s.vlan = id } }
func transportAt(n int) func(*seen)  { return func(s *seen) { s.l4 = n } }
func ports(s, d int) func(*seen)     { return func(x *seen) { x.sport, x.dport = s, d } }
func flow(a, b string) func(s *seen) { return func(s *seen) { s.src, s.dst = a, b } }

var (
	malformed = seen{what: "malformed"}
	notIP     = seen{what: "not IP"}
)

type parseCase struct {
	name  string
	frame Frame
	want  seen
}

func runParse(t *testing.T, cases []parseCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, look(c.frame), cmp.AllowUnexported(seen{})); diff != "" {
				t.Errorf("%x\n-want +got\n%s", c.frame.Data, diff)
			}
		})
	}
}

func ethernet(parts ...string) Frame { return Frame{Data: unhex(append([]string{macs}, parts...)...)} }

// longer is the frame with a true length beyond its captured bytes.
func longer(f Frame, length int) Frame {
	f.Length = uint32(length)
	return f
}

func tagged(f Frame, tci uint32) Frame {
	f.VLAN = VLANPresent | tci
	return f
}

func super(f Frame, size, segments uint32) Frame {
	f.GSOSize, f.GSOSegs = size, segments
	return f
}

// keyOf is the key of a packet's bucket.
func keyOf(m *Meter, p *packet) (k Key) {
	m.key(p, &k)
	return k
}
