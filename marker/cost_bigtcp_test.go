package marker

import "testing"

// BIG TCP over IPv6: in a super-packet over 64 KiB the kernel puts a hop-by-hop header with the jumbo
// option, which it takes off again when it cuts the packet up (ipv6_hopopt_jumbo_remove). The segments on
// the wire do not carry it, so (SPEC 4.1) it costs nothing.
func TestCostBigTCP(t *testing.T) {
	jumbo := "0600 c204 00018ac4" // TCP follows; 8 + 20 + 101,000 bytes of payload
	f := super(longer(ethernet("86dd", ip6(0, 0), jumbo, tcp), 14+40+8+20+101_000), 1000, 101)
	want := uint64(101_000 + 101*60)
	if got := charge(t, CountL3, 0, f); got != (cost{want, want, 101}) {
		t.Errorf("%+v, not %d: 8 bytes too many for each of 101 segments", got, want)
	}
}
