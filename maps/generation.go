package maps

import (
	"github.com/tricolor-policer/tricolor/bpf"
)

// Generation reads the number of the policy in one of the two copies.
func (m *Maps) Generation(parity uint32) (uint32, error) {
	var policy bpf.PolicerPolicy
	err := get(m.Policies, parity&1, &policy)
	return policy.Generation, err
}

// NextFamily reads the first Meter.Family that the policy in a copy, and those before it, never used.
func (m *Maps) NextFamily(parity uint32) (uint16, error) {
	var policy bpf.PolicerPolicy
	err := get(m.Policies, parity&1, &policy)
	return policy.NextFamily, err
}

// Renumber gives the policy in a copy a newer number of the same parity, and the time (ns) at which it
// took over; the families that the other copy used stay used; all else stays as it is. It is for a copy that is in force again, past a deadline, once all
// buckets are settled: then packets ask neither for its number nor for its time.
func (m *Maps) Renumber(generation uint32, since uint64) error {
	var policy bpf.PolicerPolicy
	if err := get(m.Policies, generation&1, &policy); err != nil {
		return err
	}
	used, err := m.NextFamily(generation + 1)
	if err != nil {
		return err
	}
	policy.Generation, policy.Since, policy.NextFamily = generation, since, max(policy.NextFamily, used)
	return put(m.Policies, generation&1, &policy)
}
