package main

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// topOrders are what buckets and classes may be sorted by: bytes or packets, of all colours or one.
var topOrders = []string{"bytes", "packets", "green", "yellow", "red"}

// topChoice says which buckets are wanted, and in what order.
type topChoice struct {
	order   string       // one of topOrders; most first
	packets bool         // a colour's packets count, not its bytes
	only    marker.Color // those that had packets of it; marker.Colors: of any
	filter  topFilter
}

// rank is a bucket's or class's place; 0: it is not wanted.
func (c *topChoice) rank(packets, bytes *[marker.Colors]uint64) uint64 {
	if c.only < marker.Colors && packets[c.only] == 0 {
		return 0
	}
	of := bytes
	if c.packets {
		of = packets
	}
	var n uint64
	switch c.order {
	case "packets":
		n = total(*packets)
	case "green":
		n = of[marker.Green]
	case "yellow":
		n = of[marker.Yellow]
	case "red":
		n = of[marker.Red]
	default:
		n = total(*bytes)
	}
	return n + 1 // it counted something all the same
}

// ranker ranks the buckets of a policy.
func (c *topChoice) ranker(names *bucketNames) func(*maps.Counted) uint64 {
	return func(b *maps.Counted) uint64 {
		rank := c.rank(&b.Packets, &b.Bytes)
		if rank > 0 && !c.filter.takes(names, &b.Key) {
			return 0
		}
		return rank
	}
}

// topFilter is what a person typed, in words that must all hold: an address, or its first bytes, or a prefix
// (`10.1.2.3`, `10.1`, `2001:db8::/32`), a port (`:443`), or a part of the class's, profile's or protocol's name.
type topFilter struct {
	text     string
	prefixes []netip.Prefix
	ports    []uint16
	names    []string
}

func newTopFilter(text string) topFilter {
	f := topFilter{text: text}
	for _, word := range strings.Fields(text) {
		if port, err := strconv.ParseUint(strings.TrimPrefix(word, ":"), 10, 16); err == nil && word[0] == ':' {
			f.ports = append(f.ports, uint16(port))
		} else if prefix, ok := filterPrefix(word); ok {
			f.prefixes = append(f.prefixes, prefix)
		} else {
			f.names = append(f.names, strings.ToLower(word))
		}
	}
	return f
}

// filterPrefix reads an address, a prefix, or the first bytes of an IPv4 address.
func filterPrefix(word string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(word); err == nil {
		return prefix.Masked(), true
	}
	if address, err := netip.ParseAddr(word); err == nil {
		return netip.PrefixFrom(address.WithZone(""), address.BitLen()), true
	}
	first, dotted := strings.TrimSuffix(word, "."), strings.Contains(word, ".")
	missing := 3 - strings.Count(first, ".")
	if !dotted || missing < 1 {
		return netip.Prefix{}, false
	}
	address, err := netip.ParseAddr(first + strings.Repeat(".0", missing))
	return netip.PrefixFrom(address, 8*(4-missing)), err == nil
}

// takes reports whether a bucket's key is wanted.
func (f *topFilter) takes(names *bucketNames, k *marker.Key) bool {
	if f.text == "" {
		return true
	}
	key := k.Fields()
	if len(f.prefixes) > 0 {
		src, dst, ok := addresses(key)
		if !ok || slices.ContainsFunc(f.prefixes, func(p netip.Prefix) bool { return !p.Contains(src) && !p.Contains(dst) }) {
			return false
		}
	}
	for _, port := range f.ports {
		if key.Per() != marker.PerFlow || port != binary.BigEndian.Uint16(key.Sport[:]) && port != binary.BigEndian.Uint16(key.Dport[:]) {
			return false
		}
	}
	if len(f.names) == 0 {
		return true
	}
	m := names.of(key)
	text := []string{m.class, m.profile, key.Per().String()}
	if key.Per() == marker.PerFlow {
		text = append(text, marker.ProtoName(key.Proto))
	}
	for _, name := range f.names {
		if !slices.ContainsFunc(text, func(t string) bool { return strings.Contains(strings.ToLower(t), name) }) {
			return false
		}
	}
	return true
}

// addresses are those of a key; ok: it has at least one. The other is then no address.
func addresses(key marker.KeyFields) (src, dst netip.Addr, ok bool) {
	of := func(b [16]byte) netip.Addr {
		if key.IPv6() {
			return netip.AddrFrom16(b)
		}
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	switch key.Per() {
	case marker.PerFlow:
		return of(key.Src), of(key.Dst), true
	case marker.PerSrc:
		return of(key.Src), netip.Addr{}, true
	case marker.PerDst:
		return netip.Addr{}, of(key.Dst), true
	}
	return src, dst, false
}
