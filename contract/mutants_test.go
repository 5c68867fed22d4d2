package contract

import (
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
)

// mutant breaks one algorithm in one way, which one check has to see.
type mutant struct {
	name  string
	kind  Kind
	check Check
	wreck func(d decider) decider
}

// mutants break the three algorithms that the audit promises something of, and the fourth by its queue. The
// sliding log and counter have an oracle (oracle_test.go), which is shown theirs.
var mutants = []mutant{
	{"token loses a row", Token, TokenRows, losesRow},
	{"token answers a row twice", Token, TokenRows, repeatsRow},
	{"GCRA loses a row", GCRA, GCRARows, losesRow},
	{"GCRA answers a row twice", GCRA, GCRARows, repeatsRow},
	{"token refuses an exact fit", Token, Agreement, with(func(t *terms) contract { return &token{terms: t} },
		func(c contract, now, _ uint64) {
			b := c.(*token)
			b.profile.Refill(&b.bucket, now)
			if b.bucket.Tc == marker.Nano {
				b.bucket.Tc--
			}
		})},
	{"GCRA refuses an exact fit", GCRA, Agreement, altered(nil, func(t *terms) contract { return exactGCRA{&gcra{terms: t}} })},
	{"GCRA rounds TAT up to whole ns", GCRA, Agreement, with(func(t *terms) contract { return &gcra{terms: t} },
		func(c contract, _, _ uint64) {
			g := c.(*gcra)
			g.tat = product(g.tat.over(g.Rate), g.Rate)
		})},
	{"GCRA lets TAT stand in the past", GCRA, Agreement, altered(nil, func(t *terms) contract { return pastGCRA{&gcra{terms: t}} })},
	{"token never stops filling", Token, TokensInRange, altered(func(t *terms) { t.profile.CBS *= 4; t.profile.CFill *= 4 }, makers[Token])},
	{"token goes into debt", Token, TokensInRange, altered(nil, func(t *terms) contract { return &debtor{token{terms: t}} })},
	{"token holds one more", Token, Envelope, altered(func(t *terms) {
		t.Burst++
		t.profile, _ = t.meter()
	}, makers[Token])},
	{"token earns twice the rate", Token, Envelope, altered(func(t *terms) { t.profile.CIR *= 2 }, makers[Token])},
	{"GCRA tolerates one more", GCRA, Envelope, altered(func(t *terms) { t.Burst++ }, makers[GCRA])},
	{"fixed admits one more", Fixed, FixedQuota, altered(func(t *terms) { t.quota++ }, makers[Fixed])},
	{"fixed has windows that begin with the first arrival", Fixed, EdgeExcess, shifted},
	{"fixed forgets within the window", Fixed, FixedQuota, altered(func(t *terms) { t.Window /= 50 }, makers[Fixed])},
	{"fixed never begins anew", Fixed, EdgeExcess, altered(func(t *terms) { t.Window *= 100 }, makers[Fixed])},
	{"shaper sends at once", Shaper, ShaperOrder, func(d decider) decider {
		return func(t *terms, arrivals []Arrival) []decision {
			rows := d(t, arrivals)
			for i := range rows {
				rows[i].leaves = arrivals[i].Time * t.Rate
			}
			return rows
		}
	}},
	{"shaper sends the last first", Shaper, ShaperOrder, func(d decider) decider {
		return func(t *terms, arrivals []Arrival) []decision {
			rows := d(t, arrivals)
			for i := 1; i < len(rows); i++ {
				if rows[i-1].admitted && rows[i].admitted {
					rows[i-1].leaves, rows[i].leaves = rows[i].leaves, rows[i-1].leaves
				}
			}
			return rows
		}
	}},
	{"shaper queues one more", Shaper, ShaperOrder, altered(func(t *terms) { t.Queue++ }, makers[Shaper])},
	{"shaper sends twice as fast", Shaper, ShaperOrder, altered(func(t *terms) { t.Rate *= 2 }, makers[Shaper])},
}

func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			var deciders [Kinds]decider
			for kind := range Kinds {
				deciders[kind] = func(t *terms, in []Arrival) []decision { return decide(makers[kind](t), in) }
			}
			deciders[m.kind] = m.wreck(deciders[m.kind])
			a, err := audit(deciders)
			if err != nil {
				t.Fatal(err)
			}
			if a.OK() || a.CasesPassed == a.Cases {
				t.Fatal("the audit passes")
			}
			if a.Passed[m.check] == a.Cases {
				t.Errorf("the check %q passes in all cases; there are %d faults, the first %v", m.check, len(a.Faults), a.Faults[0])
			}
		})
	}
}

// Every check is failed by some mutant.
func TestMutantsOfEveryCheck(t *testing.T) {
	var seen [Checks]bool
	for _, m := range mutants {
		seen[m.check] = true
	}
	for check, ok := range seen {
		if !ok {
			t.Errorf("no mutant fails %v", Check(check))
		}
	}
}

func losesRow(d decider) decider {
	return func(t *terms, in []Arrival) []decision { return d(t, in)[1:] }
}

func repeatsRow(d decider) decider {
	return func(t *terms, in []Arrival) []decision {
		rows := d(t, in)
		rows[len(rows)-1] = rows[0]
		return rows
	}
}

// with has something done to a contract before each arrival.
func with(maker func(*terms) contract, before func(c contract, now, cost uint64)) func(decider) decider {
	return func(decider) decider {
		return func(t *terms, in []Arrival) []decision { return decide(tampered(maker(t), before), in) }
	}
}

func tampered(c contract, before func(c contract, now, cost uint64)) contract {
	if b, ok := c.(*token); ok {
		return &tamperedToken{b, before}
	}
	return &tamper{c, before}
}

type tamper struct {
	contract
	before func(c contract, now, cost uint64)
}

func (m *tamper) admit(now, cost uint64) verdict {
	m.before(m.contract, now, cost)
	return m.contract.admit(now, cost)
}

type tamperedToken struct {
	*token
	before func(c contract, now, cost uint64)
}

func (m *tamperedToken) admit(now, cost uint64) verdict {
	m.before(m.token, now, cost)
	return m.token.admit(now, cost)
}

// altered has a contract made by other terms.
func altered(change func(*terms), maker func(*terms) contract) func(decider) decider {
	return func(decider) decider {
		return func(t *terms, in []Arrival) []decision {
			other := *t
			if change != nil {
				change(&other)
			}
			return decide(maker(&other), in)
		}
	}
}

// shifted has the arrivals come as if the first window began with the first of them.
func shifted(decider) decider {
	return func(t *terms, in []Arrival) []decision {
		moved := append([]Arrival(nil), in...)
		for i := range moved {
			moved[i].Time -= in[0].Time
		}
		return decide(makers[Fixed](t), moved)
	}
}

type exactGCRA struct{ *gcra }

func (g exactGCRA) admit(now, cost uint64) verdict {
	at := g.work(now)
	next := g.tat.max(at).plus(wide{lo: cost * marker.Nano})
	ok := next.less(at.plus(product(g.Burst, marker.Nano)))
	if ok {
		g.tat = next
	}
	return g.admits(ok, now)
}

type pastGCRA struct{ *gcra }

func (g pastGCRA) admit(now, cost uint64) verdict {
	at := g.work(now)
	next := g.tat.plus(wide{lo: cost * marker.Nano})
	ok := !at.plus(product(g.Burst, marker.Nano)).less(next)
	if ok {
		g.tat = next
	}
	return g.admits(ok, now)
}

// debtor admits what it has no tokens for.
type debtor struct{ token }

func (b *debtor) admit(now, cost uint64) verdict {
	v := b.token.admit(now, cost)
	if !v.admitted {
		b.bucket.Tc -= cost * marker.Nano
	}
	return b.admits(true, now)
}
