package marker

// Kind says what became of a packet before any meter saw it.
type Kind uint8

// What became of a packet before any meter saw it.
const (
	Metered   Kind = iota
	Unmatched      // IP, but of no class
	NotIP
	Malformed
)

var kindNames = []string{"metered", "unmatched", "not-ip", "malformed"}

// String returns the kind as in counters.
func (k Kind) String() string { return kindNames[k&3] }

// Outcome is what was decided of one packet. Class, colours, cost and slots are of metered packets.
type Outcome struct {
	Kind    Kind
	Dropped bool
	Arrival Color // by the DSCP it came with
	Color   Color
	Class   uint16           // NoClass: not metered
	Cost    uint64           // in the class's unit
	Slots   [MaxChain]uint32 // bucket of each meter: set × SetSlots + slot, or NoSet
}

// Unmetered is the outcome of a packet that no meter saw, before its verdict.
func Unmetered(kind Kind) Outcome {
	return Outcome{Kind: kind, Class: NoClass, Slots: [MaxChain]uint32{NoSet, NoSet, NoSet}}
}

// Mirror is the kernel program in user space: the same table, the same decisions. Not safe for
// concurrent use.
type Mirror struct {
	plan        *Plan // the last one applied
	generations generations
	table       table
	stats       Stats    // Classes by Class.Stats
	chain       chain    // of the packet at hand
	one         prepared // Packet's
	reach       reach
}

// NewMirror makes the mirror of a program with this plan and these seeds. Returns an error that wraps
// ErrPlan where the plan breaks its bounds.
func NewMirror(plan *Plan, seeds Seeds) (*Mirror, error) { return newMirror(plan, seeds, newSets) }

func newMirror(plan *Plan, seeds Seeds, sets func(n uint32) []Set) (*Mirror, error) {
	if err := plan.Check(); err != nil {
		return nil, err
	}
	m := &Mirror{
		plan:  plan,
		table: table{sets: sets(plan.Geometry.Sets), seeds: seeds},
		stats: Stats{Classes: make([]ClassStats, MaxStats)},
	}
	parity := plan.Generation & 1
	m.generations.active = parity
	m.generations.plans[parity], m.generations.prefixes[parity] = plan, newPrefixTables(plan.Sets)
	return m, nil
}

// Plan returns the plan that was applied last.
func (m *Mirror) Plan() *Plan { return m.plan }

// Sets returns the table's sets, in place.
func (m *Mirror) Sets() []Set { return m.table.sets }

// Stats returns the counters, those of the classes as in the plan that was applied last.
func (m *Mirror) Stats() *Stats {
	s := &Stats{Port: m.stats.Port, Classes: make([]ClassStats, len(m.plan.Classes))}
	for i := range m.plan.Classes {
		s.Classes[i] = m.stats.Classes[m.plan.Classes[i].Stats]
	}
	return s
}

// OnForget has f told of each bucket that is about to be forgotten, so that its counters can be kept.
func (m *Mirror) OnForget(f func(*Slot)) { m.table.forgetting = f }

// Seen is what the mirror reads of a frame, for people.
type Seen struct {
	IP   bool      // it is IP and not malformed: the rest holds
	Flow KeyFields // of its flow: addresses, protocol, ports
	DSCP uint8
}

// See reads a frame without policing it.
func See(f *Frame) Seen {
	var p packet
	if parseFrame(f, &p) != parsedIP {
		return Seen{}
	}
	s := Seen{IP: true, DSCP: p.dscp, Flow: p.key.Fields()}
	if p.family == FamilyIPv6 {
		s.Flow.Kind = kindIPv6
	}
	return s
}

// act does the action and reports whether the packet is dropped.
func act(f *Frame, h *header, a *Action) bool {
	if a.Verbs&VerbDrop != 0 {
		return true
	}
	if a.Verbs&VerbMark != 0 {
		f.Mark = a.Mark
	}
	if a.Verbs&VerbPriority != 0 {
		f.Priority = a.Priority
	}
	if a.Verbs&(VerbDSCP|VerbCE) != 0 && h.family != FamilyNone {
		remark(f, h, actionTOS(a, h.tos))
	}
	return false
}
