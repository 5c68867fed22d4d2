package exporter

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
)

// identity is what tells a policer apart from all others: labels of each of its metrics.
type identity struct {
	device, direction string
	netns             string // inode of the network namespace; empty where it is the exporter's own
}

// policer is what is read of one, at about one moment.
type policer struct {
	identity
	hook, version, object string // object: SHA-256, in hex
	since                 uint64 // seconds since 1970
	plan                  *marker.Plan
	unconfirmed           time.Duration // how long the plan is in force unless it is confirmed; 0: for good
	stats                 marker.Stats
	used                  [marker.MaxChain]uint64 // slots, by chain position
	err                   error                   // why nothing but the identity could be read
}

// snapshot is all that a scrape reads.
type snapshot struct {
	policers []policer            // without stale ones, which no packet meets
	states   map[loader.State]int // of all that could be opened
	err      error                // of those that have no identity, or one that another has
}

// errTwice is met in other network namespaces, where the names that devices had when they were attached are all that
// is known of them.
var errTwice = errors.New("another policer has the same labels")

// String is the identity as a person reads it.
func (id identity) String() string {
	if id.netns == "" {
		return id.device + " " + id.direction
	}
	return fmt.Sprintf("%s %s in network namespace %s", id.device, id.direction, id.netns)
}

// read reads all policers. Nothing that cannot be read hides anything else.
func read() snapshot {
	all, err := loader.List()
	s := snapshot{states: map[loader.State]int{}, err: err}
	for _, a := range all {
		s.states[a.State]++
		if a.State == loader.Stale {
			s.err = errors.Join(s.err, a.Close())
			continue
		}
		p := policer{identity: identify(a)}
		p.err = errors.Join(p.read(a), a.Close())
		s.policers = append(s.policers, p)
	}
	return s
}

// tellApart leaves out all but the first of those that have the same identity.
func (s *snapshot) tellApart() {
	taken := map[identity]bool{}
	s.policers = slices.DeleteFunc(s.policers, func(p policer) bool {
		if taken[p.identity] {
			s.err = errors.Join(s.err, fmt.Errorf("%v: %w", p.identity, errTwice))
			return true
		}
		taken[p.identity] = true
		return false
	})
}

func identify(a *loader.Attachment) identity {
	id := identity{device: labelValue(a.Device), direction: a.Direction().String()}
	if !a.Here {
		id.netns = strconv.FormatUint(a.About.NetNS, 10)
	}
	return id
}

// read reads what an attachment counted, and how full its table is.
func (p *policer) read(a *loader.Attachment) (err error) {
	p.hook, p.version, p.object, p.since = a.Mechanism.String(), labelValue(a.About.Version), hex.EncodeToString(a.About.Object[:]), a.About.Since
	if p.plan, p.unconfirmed, err = a.InForce(); err != nil {
		return err
	}
	if p.stats, err = a.Maps.Stats(p.plan); err != nil {
		return err
	}
	names := map[string]bool{}
	for i := range p.plan.Classes {
		name := labelValue(p.plan.Classes[i].Name)
		if names[name] {
			return fmt.Errorf("%w: two classes %s", maps.ErrLayout, name)
		}
		names[name] = true
	}
	buckets, err := maps.OpenBuckets(a.Maps.Buckets)
	if err != nil {
		return err
	}
	p.used = buckets.Used(p.plan.Geometry)
	return buckets.Close()
}

// keyed is how many chain positions have a table that a plan uses, from the first on; at least 1.
func keyed(plan *marker.Plan) int {
	positions := 1
	for i := range plan.Classes {
		for at, m := range plan.Classes[i].Meters {
			if m.Per < marker.PerClass {
				positions = max(positions, at+1)
			}
		}
	}
	return positions
}
