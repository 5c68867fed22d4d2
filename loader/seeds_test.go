package loader

import (
	"testing"

	"github.com/tricolor-policer/tricolor/internal/netlab"
	"github.com/tricolor-policer/tricolor/marker"
)

// fresh fails the test where seeds have a word that any table before had: a fixed one, or one never set.
type fresh map[uint64]bool

func (f fresh) want(t *testing.T, seeds marker.Seeds) {
	t.Helper()
	for i, word := range seeds {
		if word == 0 || f[word] {
			t.Errorf("seed %d is %#x: not made at random for this table", i, word)
		}
		f[word] = true
	}
}

func TestRandomSeeds(t *testing.T) {
	f := fresh{}
	for range 1000 {
		f.want(t, randomSeeds())
	}
}

// SPEC 3.5: each table has seeds of its own, in the kernel, whoever made it; what is attached again is a new table.
func TestSeedsOfEachTable(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(m.String(), func(t *testing.T) {
			needs(t, m)
			lab := newLab(t, netlab.Options{})
			f := fresh{}
			for range 2 {
				a := attach(t, lab.Left, AttachOptions{Direction: Egress, Mechanism: m})
				_, seeds, err := a.Maps.ReadTable()
				if err != nil {
					t.Fatal(err)
				}
				f.want(t, seeds)
				if err := detach(lab.Left, a); err != nil {
					t.Fatal(err)
				}
			}
			held, err := hold(t, lab.Left, "left0", AttachOptions{Direction: Egress, Mechanism: m})
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			_, seeds, err := held.Maps.ReadTable()
			if err != nil {
				t.Fatal(err)
			}
			f.want(t, seeds)
		})
	}
}

// Seeds that are asked for are the table's.
func TestSeedsGiven(t *testing.T) {
	lab := newLab(t, netlab.Options{})
	given := marker.SeedsFrom(7)
	a := attach(t, lab.Left, AttachOptions{Direction: Egress, Mechanism: Clsact, Seeds: given})
	if _, seeds, err := a.Maps.ReadTable(); err != nil || seeds != given {
		t.Errorf("seeds %x, error %v, not the given %x", seeds, err, given)
	}
}
