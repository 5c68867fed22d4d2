package pcaptest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

// bigPrefixes are n different prefixes of both families, most of them nested in others.
func bigPrefixes(r *rand.Rand, n int) []netip.Prefix {
	seen := map[netip.Prefix]bool{}
	list := make([]netip.Prefix, 0, n)
	for len(list) < n {
		p := netip.PrefixFrom(bigAddress(r), 0)
		if p.Addr().Is4() {
			p = netip.PrefixFrom(p.Addr(), 23+r.IntN(10)).Masked()
		} else {
			p = netip.PrefixFrom(p.Addr(), 42+r.IntN(87)).Masked()
		}
		if !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	return list
}

// bigAddress is an address out of 10.0.0.0/10 or 2001:db8::/34, which are where bigPrefixes lie.
func bigAddress(r *rand.Rand) netip.Addr {
	if r.IntN(3) > 0 {
		n := r.Uint32N(1 << 22)
		return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
	}
	n := r.Uint32N(1 << 18)
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, byte(n >> 12 & 0x3f), byte(n >> 4), byte(n << 4)}
	for i := 7; i < 16; i++ {
		a[i] = byte(r.IntN(2) * r.IntN(256))
	}
	return netip.AddrFrom16(a)
}

// bigPolicy is the text of a policy with a file of prefixes, and the file: every third line with a profile.
// The oracle is which profile a prefix has.
func bigPolicy(prefixes []netip.Prefix, turn int) (policyFiles, map[netip.Prefix]string) {
	var csv strings.Builder
	oracle := make(map[netip.Prefix]string, len(prefixes))
	for i, p := range prefixes {
		profile := []string{"basic", "silver", "gold"}[(i+turn)%3]
		oracle[p] = profile
		if profile == "basic" {
			fmt.Fprintf(&csv, "%v\n", p)
		} else {
			fmt.Fprintf(&csv, "%v,%s\n", p, profile)
		}
	}
	return policyFiles{text: `version: 1
flows: 64
profiles:
  basic:  { meter: token, cir: 8mbit, cbs: 1000B }
  silver: { meter: token, cir: 8mbit, cbs: 2000B }
  gold:   { meter: token, cir: 8mbit, cbs: 3000B }
  link:   { meter: token, cir: 8mbit, cbs: 4000B }
classes:
  - name: customers
    match: { src: "@big.csv" }
    meters: [ { profile: basic, per: flow } ]
  - name: strangers
    meters: [ { profile: link, per: class } ]
`, csv: map[string]string{"big.csv": csv.String()}}, oracle
}

// longest is the profile of the longest prefix that holds an address, as a naive search finds it.
func longest(oracle map[netip.Prefix]string, a netip.Addr) (profile string, ok bool) {
	for bits := a.BitLen(); bits >= 0; bits-- {
		p, _ := a.Prefix(bits)
		if profile, ok = oracle[p]; ok {
			return profile, true
		}
	}
	return "", false
}

// addressFrame is a UDP packet from an address, of 100 bytes of IP.
func addressFrame(a netip.Addr) marker.Frame {
	if a.Is4() {
		var data [42]byte
		f := keyedFrame(&data, 0, 100)
		copy(data[26:], a.AsSlice())
		return f
	}
	data := make([]byte, 62)
	data[12], data[13], data[14] = 0x86, 0xdd, 0x60
	data[19], data[20], data[21] = 60, 17, 64
	copy(data[22:], a.AsSlice())
	data[53] = 1
	return marker.Frame{Data: data, Length: 114}
}

func (p *policyFiles) mustCompile(t testing.TB, prev *marker.Plan) *marker.Plan {
	t.Helper()
	parsed, err := p.parse()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := parsed.CompileAfter(prev)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// 100,000 prefixes: mirror and kernel agree with a naive search, for addresses looked up again and again;
// also after a change that gives each prefix another profile and takes some away, so that an answer kept from
// before would show.
func TestPrefixesAtScale(t *testing.T) {
	testutils.RequireKernel(t)
	const lookups = 10_000
	r := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	prefixes := bigPrefixes(r, 100_000)
	addresses := make([]netip.Addr, lookups/2) // each twice: the second is kept
	for i := range addresses {
		addresses[i] = bigAddress(r)
		if i%4 == 0 {
			addresses[i] = prefixes[r.IntN(len(prefixes))].Addr()
		}
	}
	files, oracle := bigPolicy(prefixes, 0)
	plan := files.mustCompile(t, nil)
	p := newPair(t, plan)
	now := uint64(1 << 40)
	for turn := range 3 {
		hits, families := map[string]int{}, map[bool]int{}
		for i := range lookups {
			// Now and then one of few, so that it surely is kept still.
			a := addresses[(i/2)%len(addresses)]
			if i%8 < 2 {
				a = addresses[i/8%16]
			}
			want, ok := longest(oracle, a)
			f := addressFrame(a)
			now += 10_000_000 // every bucket is full and may be forgotten
			m, err := p.mirror.Packet(&f, now)
			if err != nil {
				t.Fatal(err)
			}
			k, err := p.kernel.Packet(&f, now)
			if err != nil {
				t.Fatal(err)
			}
			if m != k {
				t.Fatalf("%v: mirror %+v, kernel %+v", a, m, k)
			}
			if !ok {
				want = "link"
			}
			var s marker.Set
			if err := p.kernel.Set(m.Slots[0]/marker.SetSlots, &s); err != nil {
				t.Fatal(err)
			}
			if got := plan.Profiles[s[m.Slots[0]%marker.SetSlots].Profile].Name; got != want {
				t.Fatalf("change %d, %v: profile %s, not %s", turn, a, got, want)
			}
			hits[want]++
			families[a.Is4()]++
		}
		t.Logf("change %d: %v, IPv4 %d, IPv6 %d", turn, hits, families[true], families[false])
		for _, profile := range []string{"basic", "silver", "gold", "link"} {
			if hits[profile] < lookups/50 {
				t.Errorf("only %d of %d found %s", hits[profile], lookups, profile)
			}
		}
		if d, _, err := p.end(); d != nil || err != nil {
			t.Fatalf("%v %v", d, err)
		}
		if turn == 2 {
			break
		}
		files, oracle = bigPolicy(prefixes[turn*5000:len(prefixes)-5000], turn+1)
		plan = files.mustCompile(t, plan)
		if err := p.apply(Change{At: now, Plan: plan}, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkPrefixesLoad is what a policy with 100,000 prefixes takes until it is in the kernel.
func BenchmarkPrefixesLoad(b *testing.B) {
	testutils.RequireKernel(b)
	files, _ := bigPolicy(bigPrefixes(rand.New(rand.NewPCG(1, 1)), 100_000), 0)
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			k, err := NewKernel(files.mustCompile(b, nil), marker.SeedsFrom(1))
			if err != nil {
				b.Fatal(err)
			}
			if err := k.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		plan := files.mustCompile(b, nil)
		k, err := NewKernel(plan, marker.SeedsFrom(1))
		if err != nil {
			b.Fatal(err)
		}
		defer k.Close()
		for b.Loop() {
			plan = files.mustCompile(b, plan)
			if err := k.Apply(plan, 1<<40, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkPrefixesPacket is what a packet costs whose address is looked up among 100,000 prefixes: one that
// was there before, or one of so many that hardly any was; that one's bucket is new, too.
func BenchmarkPrefixesPacket(b *testing.B) {
	testutils.RequireKernel(b)
	r := rand.New(rand.NewPCG(1, 1))
	files, _ := bigPolicy(bigPrefixes(r, 100_000), 0)
	for _, c := range []struct {
		name      string
		addresses int
	}{{"cached", 1}, {"uncached", 1 << 18}} {
		b.Run(c.name, func(b *testing.B) {
			k, err := NewKernel(files.mustCompile(b, nil), marker.SeedsFrom(1))
			if err != nil {
				b.Fatal(err)
			}
			defer k.Close()
			frames := make([]marker.Frame, c.addresses)
			for i := range frames {
				for frames[i].Data == nil || len(frames[i].Data) > 42 {
					frames[i] = addressFrame(bigAddress(r))
				}
			}
			now, i := uint64(1<<40), 0
			for b.Loop() {
				now += 10_000_000
				if _, err := k.Runner.Run(&frames[i%len(frames)], now); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
