package contract

import (
	"fmt"

	"github.com/tricolor-policer/tricolor/marker"
)

// Check is one of the audit's checks.
type Check uint8

// The checks.
const (
	TokenRows     Check = iota // token bucket: one decision for each arrival, in order
	GCRARows                   // GCRA: the same
	Agreement                  // token bucket and GCRA say the same of each arrival
	TokensInRange              // tokens stay within [0, B]
	Envelope                   // token bucket and GCRA admit no more than B + r × T in any interval T
	FixedQuota                 // the fixed window stays within its own quota in each window
	ShaperOrder                // the shaper sends in order, at its rate, none before it came or after its queue's worth
	EdgeExcess                 // where the edge is tight, the fixed window exceeds B + r × T by just what the edge gives it
	Checks                     // how many there are
)

var checkNames = [Checks]string{
	"token rows = arrivals",
	"GCRA rows = arrivals",
	"token and GCRA agree, request by request",
	"tokens within [0, B]",
	"accepted never over B + rT in any interval",
	"fixed window within its own quota",
	"shaper output ordered",
	"tight edges show the fixed window's excess",
}

// String returns what is checked.
func (c Check) String() string {
	if c < Checks {
		return checkNames[c]
	}
	return fmt.Sprintf("check(%d)", uint8(c))
}

// Audit is the outcome of all checks on all cases.
type Audit struct {
	Cases       int         // run
	CasesPassed int         // in which all checks passed
	Passed      [Checks]int // cases that passed each check
	Faults      []Fault     // in the order of the cases
}

// Fault is a check that a case failed.
type Fault struct {
	Case  Case
	Check Check
	What  string // what was seen
}

// Case is a scenario under a contract in packets.
type Case struct {
	Scenario string
	Params
}

// String names the case.
func (c Case) String() string {
	return fmt.Sprintf("%s, rate %d/s, burst %d, window %d s, queue %d", c.Scenario, c.Rate, c.Burst, c.Window/marker.Nano, c.Queue)
}

// OK reports whether every check passed in every case, and all cases were run.
func (a *Audit) OK() bool { return a.Cases == len(auditCases()) && a.CasesPassed == a.Cases }

// ChecksRun is how many checks were made: Checks in each case. One that does not apply to a case passes.
func (a *Audit) ChecksRun() int { return a.Cases * int(Checks) }

// ChecksPassed is how many of them passed.
func (a *Audit) ChecksPassed() (n int) {
	for _, passed := range a.Passed {
		n += passed
	}
	return n
}

// RunAudit runs the algorithms through 4 scenarios × rates 2, 5, 9 × bursts 3, 8, 16 × windows 3, 6, 10 s × queues
// 0, 8, 24 = 324 cases, and checks each. The checks reckon for themselves, and share no code with the algorithms.
func RunAudit() (*Audit, error) {
	var ours [Kinds]decider
	for kind := range Kinds {
		ours[kind] = func(t *terms, arrivals []Arrival) []decision { return decide(makers[kind](t), arrivals) }
	}
	return audit(ours)
}

func auditCases() (cases []Case) {
	for _, s := range Scenarios {
		for _, rate := range []uint64{2, 5, 9} {
			for _, burst := range []uint64{3, 8, 16} {
				for _, window := range []uint64{3, 6, 10} {
					for _, queue := range []uint64{0, 8, 24} {
						cases = append(cases, Case{s.Name, Params{rate, burst, window * marker.Nano, queue}})
					}
				}
			}
		}
	}
	return cases
}

// audit is RunAudit of any algorithms.
func audit(deciders [Kinds]decider) (*Audit, error) {
	a := &Audit{}
	for _, c := range auditCases() {
		arrivals, err := scenario(c.Scenario).Arrivals(c.Params, 1)
		if err != nil {
			return nil, err
		}
		t, err := c.compile()
		if err != nil {
			return nil, err
		}
		x := examined{Case: c, arrivals: arrivals}
		for kind, decide := range deciders {
			x.decisions[kind] = decide(t, arrivals)
		}
		a.Cases++
		passed := true
		for check := range Checks {
			if what := checks[check](&x); what != "" {
				a.Faults = append(a.Faults, Fault{c, check, what})
				passed = false
				continue
			}
			a.Passed[check]++
		}
		if passed {
			a.CasesPassed++
		}
	}
	return a, nil
}

func scenario(name string) (found Scenario) {
	for _, s := range Scenarios {
		if s.Name == name {
			found = s
		}
	}
	return found
}

// decision is a row of the record that is checked.
type decision struct {
	number   int // of the arrival, from 0
	admitted bool
	leaves   uint64 // of an admitted one: when it goes on, ns × rate
	tokens   uint64 // token bucket: afterwards, nano-units
}

// decider is an algorithm as the audit sees it: it decides on arrivals, a row each.
type decider func(t *terms, arrivals []Arrival) []decision

// decide has a contract decide.
func decide(c contract, arrivals []Arrival) (rows []decision) {
	for i, a := range arrivals {
		v := c.admit(a.Time, a.Cost)
		row := decision{number: i, admitted: v.admitted, leaves: v.leaves.lo}
		if b, ok := c.(interface{ tokens() uint64 }); ok {
			row.tokens = b.tokens()
		}
		rows = append(rows, row)
	}
	return rows
}
