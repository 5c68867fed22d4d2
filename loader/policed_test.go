package loader

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// policyPlan compiles a policy that needs no other file.
func policyPlan(tb testing.TB, text string) *marker.Plan {
	tb.Helper()
	p, err := policy.Parse("policy.yaml", []byte(text), func(name string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("no file %s", name)
	})
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := p.CompileAfter(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return plan
}

// policed is a device under a plan.
type policed struct {
	*Attachment
	plan *marker.Plan
	seen marker.Stats // when it was last looked at
}

// police puts a device of the host under a plan until the test ends.
func police(tb testing.TB, h *netlab.Host, device string, d Direction, plan *marker.Plan) *policed {
	tb.Helper()
	p := &policed{plan: plan}
	err := h.Do(func() (err error) {
		p.Attachment, err = Attach(device, plan, AttachOptions{Direction: d})
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(detach(h, p.Attachment), p.Close()); err != nil {
			tb.Error(err)
		}
	})
	p.seen = p.stats(tb)
	return p
}

func (p *policed) stats(tb testing.TB) marker.Stats {
	tb.Helper()
	s, err := p.Maps.Stats(p.plan)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// total is how many packets have met the policer.
func total(s *marker.Stats) uint64 {
	n := s.Port.Unmatched + s.Port.NotIP + s.Port.Malformed + s.Port.Unread
	for _, c := range s.Classes {
		for _, packets := range c.Packets {
			n += packets
		}
	}
	return n
}

// wait returns the counters once so many packets have met the policer. The minute is for a machine that
// hangs.
func (p *policed) wait(tb testing.TB, packets uint64) marker.Stats {
	tb.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Microsecond) {
		s := p.stats(tb)
		if total(&s) >= packets {
			return s
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%d packets have met the policer, want %d: %+v", total(&s), packets, s)
		}
	}
}

// next returns what became of the next packet, once it has met the policer.
func (p *policed) next(tb testing.TB) fate {
	tb.Helper()
	before := p.seen
	p.seen = p.wait(tb, total(&before)+1)
	return fateOf(&before, &p.seen)
}

// fate is what counters say of one packet.
type fate struct {
	Kind  marker.Kind
	Class int
	Color marker.Color
	Bytes uint64 // its cost
}

func (f fate) String() string {
	return fmt.Sprintf("%v, class %d, %v, %d bytes", f.Kind, f.Class, f.Color, f.Bytes)
}

// fateOf tells one packet's fate by the counters before and after it.
func fateOf(before, after *marker.Stats) fate {
	for class := range after.Classes {
		for color := range after.Classes[class].Packets {
			if after.Classes[class].Packets[color] != before.Classes[class].Packets[color] {
				return fate{marker.Metered, class, marker.Color(color),
					after.Classes[class].Bytes[color] - before.Classes[class].Bytes[color]}
			}
		}
	}
	switch {
	case after.Port.Unmatched != before.Port.Unmatched:
		return fate{Kind: marker.Unmatched}
	case after.Port.NotIP != before.Port.NotIP:
		return fate{Kind: marker.NotIP}
	default:
		return fate{Kind: marker.Malformed}
	}
}

// buckets reads every bucket in use.
func (p *policed) buckets(tb testing.TB) []marker.Slot {
	tb.Helper()
	b, err := maps.OpenBuckets(p.Maps.Buckets)
	if err != nil {
		tb.Fatal(err)
	}
	defer b.Close()
	var all []marker.Slot
	torn := 0
	for _, s := range b.All(&torn) {
		all = append(all, *s)
	}
	if torn != 0 {
		tb.Errorf("%d sets of buckets could not be read", torn)
	}
	return all
}

// wantKeys checks that the buckets in use are those of the mirror.
func (p *policed) wantKeys(tb testing.TB, mirror *marker.Mirror) {
	tb.Helper()
	var want, got []string
	sets := mirror.Sets()
	for i := range sets {
		for slot := range sets[i] {
			if sets[i].Tag(slot) != 0 {
				want = append(want, fmt.Sprint(sets[i][slot].Key.Fields()))
			}
		}
	}
	for _, s := range p.buckets(tb) {
		got = append(got, fmt.Sprint(s.Key.Fields()))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("keys of buckets (-mirror +kernel):\n%s", diff)
	}
}
