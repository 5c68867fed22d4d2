package pcaptest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// policyFiles is a policy as a person writes it, and the files of prefixes beside it, by name.
type policyFiles struct {
	text string
	csv  map[string]string
}

func (p *policyFiles) parse() (*policy.Policy, error) {
	return policy.Parse("policy.yaml", []byte(p.text), func(name string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(p.csv[name])), nil
	})
}

// policyCase is policies, and what happens under them.
type policyCase struct {
	policies []policyFiles // the first is in force at the start
	steps    []policyStep
}

// policyStep is a packet, or a change of policy. A change while another waits to be confirmed confirms that.
type policyStep struct {
	now     uint64
	apply   int    // not 0: policies[apply] takes over
	confirm uint64 // ns for which the change waits to be confirmed; 0: it is for good
	frame   marker.Frame
}

// metered is a packet that a class of a case took.
type metered struct {
	policy *policy.Policy
	class  *policy.Class
	frame  *marker.Frame // as it came
	marker.Outcome
}

// caseRun is what a case is run with, and what it shows.
type caseRun struct {
	testing.TB
	loaded  *caseKernel    // nil before the first case
	metered func(*metered) // called for each packet that was metered, if not nil
	packets int
	forgot  int
	lapsed  int // packets of a policy that was in force again, since nobody confirmed the next
	stats   marker.Stats
}

// caseKernel is a loaded program that one case after another uses, each with an empty table.
type caseKernel struct {
	*Kernel
	generation uint32 // the first that was never used
	table      []byte
}

func newCaseRun(t testing.TB) *caseRun {
	r := &caseRun{TB: t}
	t.Cleanup(func() {
		if r.loaded == nil {
			return
		}
		if err := errors.Join(unix.Munmap(r.loaded.table), r.loaded.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// kernel returns a program with this plan and an empty table, as if it had just been loaded; but the plan's
// generation is one that it never had, since it remembers what prefix sets answered.
func (r *caseRun) kernel(plan *marker.Plan) *caseKernel {
	k := r.loaded
	if k == nil {
		loaded, err := NewKernel(plan, marker.SeedsFrom(1))
		if err != nil {
			r.Fatal(err)
		}
		k = &caseKernel{Kernel: loaded, generation: plan.Generation + 1}
		buckets := loaded.Program.Maps.Buckets
		k.table, err = unix.Mmap(buckets.FD(), 0, int(buckets.MaxEntries()*buckets.ValueSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			r.Fatal(err)
		}
		r.loaded = k
	}
	clear(k.table)
	maps := k.Program.Maps
	errs := []error{}
	if k.plan != plan { // it may be there from the case before
		plan.Generation = k.generation
		errs = append(errs, maps.WritePlan(plan), maps.Switch(plan.Generation, 0))
	}
	none := make([][]byte, ebpf.MustPossibleCPU())
	for cpu := range none {
		none[cpu] = make([]byte, maps.PortStats.ValueSize())
	}
	errs = append(errs, maps.ClearStats(plan, &marker.Plan{}), maps.PortStats.Put(uint32(0), none))
	if err := errors.Join(errs...); err != nil {
		r.Fatal(err)
	}
	k.plan = plan
	return k
}

// run runs a case on both sides. It returns the first difference, as an error.
func (r *caseRun) run(c *policyCase) error {
	var policies []*policy.Policy
	for i := range c.policies {
		p, err := c.policies[i].parse()
		if err != nil {
			return fmt.Errorf("%s\n%w", c.policies[i].text, err)
		}
		policies = append(policies, p)
	}
	plan, err := policies[0].Compile()
	if err != nil {
		return err
	}
	if r.loaded != nil && plan.Geometry != r.loaded.plan.Geometry {
		return errors.New("the table has another shape than that of the case before")
	}
	k := r.kernel(plan)
	mirrors := *plan
	m, err := NewMirror(&mirrors, marker.SeedsFrom(1))
	if err != nil {
		return err
	}
	m.OnForget(func(*marker.Slot) { r.forgot++ })
	v := newVerifier(&mirrors, m, k)
	inForce := [2]*policy.Policy{1: policies[0]} // the one before, and the last applied
	deadline := uint64(0)
	defer func() { k.generation = v.plan.Generation + 2 }()
	for i := range c.steps {
		s := &c.steps[i]
		lapsed := deadline != 0 && s.now >= deadline
		if s.apply != 0 {
			if deadline != 0 && !lapsed {
				m.Confirm(s.now)
				if err := k.changer.Confirm(s.now); err != nil {
					return err
				}
			}
			now := inForce[1]
			if lapsed {
				now = inForce[0]
			}
			if deadline = s.confirm; deadline != 0 {
				deadline += s.now
			}
			if err := r.apply(v, m, k, policies[s.apply], s.now, deadline); err != nil {
				return fmt.Errorf("step %d, change of policy: %w", i, err)
			}
			inForce = [2]*policy.Policy{now, policies[s.apply]}
			continue
		}
		seen := metered{frame: &s.frame, policy: inForce[1]}
		if lapsed {
			seen.policy = inForce[0]
			r.lapsed++
		}
		if err := r.packet(v, m, s, int64(i), &seen); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	d, _, err := v.end()
	if err == nil && d != nil {
		err = differenceError{d}
	}
	r.stats, _ = m.Stats()
	return err
}

// differenceError is that the sides differ.
type differenceError struct{ *Difference }

func (e differenceError) Error() string { return e.String() }

// apply changes the policy on both sides, compiled after what the kernel's maps say is in force.
func (r *caseRun) apply(v *verifier, m *Mirror, k *caseKernel, p *policy.Policy, now, deadline uint64) error {
	prev, _, err := loader.InForce(k.Program.Maps, now)
	if err != nil {
		return err
	}
	plan, err := p.CompileAfter(prev)
	if err != nil {
		return err
	}
	return v.apply(Change{At: now, Plan: plan}, deadline)
}

func (r *caseRun) packet(v *verifier, m *Mirror, s *policyStep, number int64, seen *metered) error {
	r.packets++
	var sees outcomeOf
	sees.Side = m
	v.mirror = &sees
	d, err := v.packet(s.frame, number, s.now)
	v.mirror = m
	if err != nil {
		return err
	}
	if d != nil {
		return differenceError{d}
	}
	if seen.Outcome = sees.outcome; seen.Kind == marker.Metered && r.metered != nil {
		seen.class = &seen.policy.Classes[seen.Class]
		r.metered(seen)
	}
	return nil
}

// outcomeOf keeps a side's last outcome, and the mark that the packet has then.
type outcomeOf struct {
	Side
	outcome marker.Outcome
	mark    uint32
}

func (o *outcomeOf) Packet(f *marker.Frame, now uint64) (out marker.Outcome, err error) {
	o.outcome, err = o.Side.Packet(f, now)
	o.mark = f.Mark
	return o.outcome, err
}
