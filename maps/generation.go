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

// Renumber gives the policy in a copy a newer number of the same parity, and the time (ns) at which it
// took over; all else stays as it is. It is for a copy that is in force again, past a deadline, once all
// buckets are settled: then packets ask neither for its number nor for its time.
func (m *Maps) Renumber(generation uint32, since uint64) error {
	var policy bpf.PolicerPolicy
	if err := get(m.Policies, generation&1, &policy); err != nil {
		return err
	}
	policy.Generation, policy.Since = generation, since
	return put(m.Policies, generation&1, &policy)
}
