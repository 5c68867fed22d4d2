package contract

import (
	"math/big"

	"github.com/tricolor-policer/tricolor/marker"
)

// Row is what one contract made of the arrivals. Of several keys, what is worst is that of the worst key.
type Row struct {
	Contract     Kind
	Packets      uint64   // admitted
	Units        uint64   // admitted
	MostInWindow uint64   // units that went on in (t - Window, t], the greatest over all t
	Excess       *big.Int // nano-units by which what went on exceeded Burst + Rate × time, over all intervals; 0: never
	WorstDelay   uint64   // ns, rounded up
	State        uint64   // bytes a key, at most
}

// Comparison runs arrivals through all six contracts, each key on its own. Not safe for concurrent use.
type Comparison struct {
	// Admitted is told of each admission, if not nil.
	Admitted func(Admission)

	terms          *terms
	span           wide // Window as work
	keys           map[marker.Key]*key
	packets, units uint64 // that arrived
	totals         [Kinds]total
}

// Admission is an arrival that a contract let through.
type Admission struct {
	Contract Kind
	Leaves   uint64 // ns, rounded up: when it goes on
	Cost     uint64 // units
	Held     uint64 // units, rounded up: what a bucket at the rate has to hold for all that went on; over Burst: B + rT was exceeded
}

// key is one key's state under all contracts.
type key struct {
	last      uint64
	contracts [Kinds]contract
	measures  [Kinds]measure
}

// total is a row in the making.
type total struct {
	packets, units   uint64
	most, state      uint64
	greatest, waited wide // level, delay as work
}

// New makes a comparison. Returns an error that wraps ErrParams where Check refuses the parameters.
func New(p Params) (*Comparison, error) {
	t, err := p.compile()
	if err != nil {
		return nil, err
	}
	return &Comparison{terms: t, span: t.work(p.Window), keys: map[marker.Key]*key{}}, nil
}

// Arrive runs an arrival of a key through all contracts. A time before the key's last counts as that one,
// as in the policer.
func (c *Comparison) Arrive(id marker.Key, a Arrival) {
	k := c.keys[id]
	if k == nil {
		k = &key{}
		for kind, make := range makers {
			k.contracts[kind] = make(c.terms)
		}
		c.keys[id] = k
	}
	now := max(a.Time, k.last)
	k.last = now
	c.packets++
	c.units += a.Cost
	for kind := range Kinds {
		t := &c.totals[kind]
		v := k.contracts[kind].admit(now, a.Cost)
		t.state = max(t.state, k.contracts[kind].state())
		if !v.admitted {
			continue
		}
		t.packets++
		t.units += a.Cost
		level, inWindow := k.measures[kind].add(v.leaves, a.Cost, c.span)
		t.greatest = t.greatest.max(level)
		t.most = max(t.most, inWindow)
		t.waited = t.waited.max(v.leaves.minus(c.terms.work(now)))
		if c.Admitted != nil {
			c.Admitted(Admission{kind, v.leaves.over(c.terms.Rate), a.Cost, level.over(marker.Nano)})
		}
	}
}

// Arrived returns what arrived, and of how many keys.
func (c *Comparison) Arrived() (packets, units uint64, keys int) {
	return c.packets, c.units, len(c.keys)
}

// Rows returns what each contract made of it so far, in the order of Kind.
func (c *Comparison) Rows() []Row {
	rows := make([]Row, 0, Kinds)
	for kind := range Kinds {
		t := &c.totals[kind]
		rows = append(rows, Row{
			Contract: kind, Packets: t.packets, Units: t.units, MostInWindow: t.most,
			Excess:     t.greatest.minus(product(c.terms.Burst, marker.Nano)).big(),
			WorstDelay: t.waited.over(c.terms.Rate), State: t.state,
		})
	}
	return rows
}
