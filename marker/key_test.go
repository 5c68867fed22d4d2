package marker

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"
)

// The bytes of a key are those of the kernel's struct key_fields, whatever the machine's order.
func TestKeyLayout(t *testing.T) {
	for name, at := range map[string][2]uintptr{
		"src":   {unsafe.Offsetof(KeyFields{}.Src), 0},
		"dst":   {unsafe.Offsetof(KeyFields{}.Dst), 16},
		"sport": {unsafe.Offsetof(KeyFields{}.Sport), 32},
		"dport": {unsafe.Offsetof(KeyFields{}.Dport), 34},
		"proto": {unsafe.Offsetof(KeyFields{}.Proto), 36},
		"kind":  {unsafe.Offsetof(KeyFields{}.Kind), 37},
		"class": {unsafe.Offsetof(KeyFields{}.Class), 38},
		"size":  {unsafe.Sizeof(KeyFields{}), 40},
	} {
		if at[0] != at[1] {
			t.Errorf("%s at %d, not %d", name, at[0], at[1])
		}
	}
	f := KeyFields{Src: [16]byte{1, 2, 3}, Dst: [16]byte{15: 9}, Sport: [2]byte{0x12, 0x34}, Dport: [2]byte{0, 53}, Proto: 17, Kind: 0x95, Class: 300}
	k := f.Key()
	if got := k.Fields(); got != f {
		t.Errorf("%+v, not %+v", got, f)
	}
	b := make([]byte, 40)
	for i, w := range k {
		binary.NativeEndian.PutUint64(b[8*i:], w)
	}
	if want := unhex("01020300 000000000000000000000000 000000000000000000000000 00000009 1234 0035 11 95"); !bytes.Equal(b[:38], want) {
		t.Errorf("%x, not %x", b[:38], want)
	}
	if f.Per() != PerClass || f.Position() != 1 || !f.IPv6() {
		t.Errorf("kind 0x95: per %v, position %d, IPv6 %v", f.Per(), f.Position(), f.IPv6())
	}
}

func TestKeyString(t *testing.T) {
	v4 := KeyFields{Src: [16]byte{192, 0, 2, 1}, Dst: [16]byte{198, 51, 100, 7}, Sport: [2]byte{0, 53}, Dport: [2]byte{16, 146}, Proto: 17}
	v6 := KeyFields{Src: [16]byte{0x20, 1, 0xd, 0xb8, 15: 1}, Dst: [16]byte{0x20, 1, 0xd, 0xb8, 15: 2}, Dport: [2]byte{1, 187}, Proto: 6, Kind: kindIPv6}
	of := func(f KeyFields, change func(*KeyFields)) KeyFields {
		change(&f)
		return f
	}
	for want, f := range map[string]KeyFields{
		"udp 192.0.2.1:53 > 198.51.100.7:4242":    v4,
		"udp 192.0.2.1 > 198.51.100.7":            of(v4, func(f *KeyFields) { f.Sport, f.Dport = [2]byte{}, [2]byte{} }),
		"gre 192.0.2.1 > 198.51.100.7":            of(v4, func(f *KeyFields) { f.Proto = 47 }),
		"proto200 192.0.2.1 > 198.51.100.7":       of(v4, func(f *KeyFields) { f.Proto = 200 }),
		"tcp [2001:db8::1]:0 > [2001:db8::2]:443": v6,
		"icmpv6 2001:db8::1 > 2001:db8::2":        of(v6, func(f *KeyFields) { f.Proto = 58 }),
		"2001:db8::1":                             of(v6, func(f *KeyFields) { f.Kind |= uint8(PerSrc) }),
		"198.51.100.7":                            of(v4, func(f *KeyFields) { f.Kind = uint8(PerDst) | 2<<kindPositionShift }),
		"class":                                   {Kind: uint8(PerClass)},
		"interface":                               {Kind: uint8(PerInterface)},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// SPEC 3.1: what of a packet makes its bucket's key, and nothing else does.
func TestKeyOfMeters(t *testing.T) {
	const class = 5
	whole4 := KeyFields{Src: [16]byte{10, 1, 2, 3}, Dst: [16]byte{10, 4, 5, 6}, Sport: [2]byte{1, 2}, Dport: [2]byte{3, 4}, Proto: 6}
	whole6 := whole4
	for i := range whole6.Src {
		whole6.Src[i], whole6.Dst[i] = byte(0xf0+i), byte(0xe0+i)
	}
	first := func(b [16]byte, n int) (out [16]byte) {
		copy(out[:n], b[:])
		return out
	}
	for _, c := range []struct {
		name     string
		per      Per
		position int
		prefix   [2]int
		v4, v6   KeyFields
	}{
		{"flow", PerFlow, 0, [2]int{}, whole4, whole6},
		{"flow, third of a chain", PerFlow, 2, [2]int{}, whole4, whole6},
		{"src", PerSrc, 0, [2]int{32, 64}, KeyFields{Src: whole4.Src}, KeyFields{Src: first(whole6.Src, 8)}},
		{"dst", PerDst, 0, [2]int{32, 64}, KeyFields{Dst: whole4.Dst}, KeyFields{Dst: first(whole6.Dst, 8)}},
		{"src/24,56", PerSrc, 1, [2]int{24, 56}, KeyFields{Src: first(whole4.Src, 3)}, KeyFields{Src: first(whole6.Src, 7)}},
		{"dst/0,128", PerDst, 1, [2]int{0, 128}, KeyFields{}, KeyFields{Dst: whole6.Dst}},
		{"src/9,65", PerSrc, 0, [2]int{9, 65}, KeyFields{Src: [16]byte{10, 0}}, KeyFields{Src: [16]byte{0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0x80}}},
		{"class", PerClass, 0, [2]int{}, KeyFields{}, KeyFields{}},
	} {
		m := NewMeter(class, c.position, c.per, c.prefix)
		for ipv6, f := range []KeyFields{whole4, whole6} {
			want := []KeyFields{c.v4, c.v6}[ipv6]
			want.Class, want.Kind = class, uint8(c.per)|uint8(c.position)<<4
			if ipv6 == 1 && c.per != PerClass {
				want.Kind |= 0x80
			}
			k := keyOf(&m, &packet{key: f.Key(), header: header{family: []uint8{FamilyIPv4, FamilyIPv6}[ipv6]}})
			if got := k.Fields(); got != want {
				t.Errorf("%s, IPv6 %d:\n%+v, not\n%+v", c.name, ipv6, got, want)
			}
		}
	}
}
