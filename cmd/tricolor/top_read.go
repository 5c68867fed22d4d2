package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/maps"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// topFrame is what attachments did between two readings.
type topFrame struct {
	hooks []*topHook
	fault error // what could not be read
}

// topHook is what one attachment did.
type topHook struct {
	device, direction string
	state             string // what is wrong with it; empty: nothing
	event             string // what happened to it last, and when
	pending           time.Duration
	elapsed           uint64 // ns that classes and port are of; 0: nothing is known yet
	classes           []topClass
	port              marker.PortStats
	keysElapsed       uint64 // ns that the buckets are of; 0: nothing is known yet
	keys              []topKey
	active            int // buckets that counted a packet
	torn              int
	stages            []stageUse
}

// topClass is what a class counted meanwhile, and in all.
type topClass struct {
	name         string
	counted, all marker.ClassStats
}

// topKey is a bucket, and what it counted meanwhile.
type topKey struct {
	bucketJSON
	packets, bytes [marker.Colors]uint64

	key   marker.Key
	names *bucketNames // of the policy at the time
}

// topMost is how many of the busiest buckets are kept.
const topMost = 1000

// topShare bounds what reading buckets costs: a table is read again once it took at most this part (1/100) of the time since.
const topShare = 100

// topID says which attachment is which.
type topID struct {
	netns   uint64
	ifindex uint32
	egress  bool
}

// topReader reads attachments, and remembers what they had counted.
type topReader struct {
	args      []string // the device, if one is named
	direction string   // both, ingress or egress
	always    bool     // buckets are read every time, whatever that costs
	policers  map[topID]*topPolicer
	seen      []topID // in order
}

// topPolicer is what is remembered of an attachment.
type topPolicer struct {
	shown   topHook // as it was last
	maps    uint32  // id of its table
	buckets *maps.Buckets
	tally   *maps.Tally
	names   *bucketNames
	plan    *marker.Plan
	stats   marker.Stats
	lines   []string // the policy in words
	last    uint64   // ns: when stats were read
	due     uint64   // ns: when buckets are to be read again
}

// newTopReader reads the attachments for the first time: nothing is known to have been counted since.
func newTopReader(args []string, direction string, always bool) (*topReader, error) {
	r := &topReader{args: args, direction: direction, always: always, policers: map[topID]*topPolicer{}}
	frame := r.read(&topChoice{order: topOrders[0], only: marker.Colors})
	if len(frame.hooks) == 0 {
		return nil, errors.Join(frame.fault, r.close())
	}
	return r, nil
}

func (r *topReader) close() error {
	var errs []error
	for _, p := range r.policers {
		errs = append(errs, p.buckets.Close())
	}
	return errors.Join(errs...)
}

// read tells what was counted since it was called before.
func (r *topReader) read(choice *topChoice) (frame topFrame) {
	all, err := r.attachments()
	frame.fault = err
	here := map[topID]bool{}
	for _, a := range all {
		if r.direction == "both" || r.direction == a.Direction().String() {
			id := idOf(a)
			readErr := r.readOne(id, a, choice)
			if readErr != nil {
				frame.fault = errors.Join(frame.fault, fmt.Errorf("%s %v: %w", a.Device, a.Direction(), readErr))
			} else {
				here[id] = true
			}
		}
		frame.fault = errors.Join(frame.fault, a.Close())
	}
	for id, p := range r.policers {
		if !here[id] {
			p.shown = topHook{device: p.shown.device, direction: p.shown.direction, state: "not policed any longer", event: p.shown.event}
		}
	}
	frame.hooks = r.last()
	if len(frame.hooks) == 0 && frame.fault == nil {
		frame.fault = fmt.Errorf("%w: nothing is; tricolor attach polices a device", loader.ErrNotAttached)
		if len(all) > 0 {
			frame.fault = fmt.Errorf("%w: not the %s; leave out --direction", loader.ErrNotAttached, r.direction)
		}
	}
	return frame
}

// attachments opens those that are read. After the first time by listing all, once: to look for a device's two
// directions is to list them for each that it lacks.
func (r *topReader) attachments() (wanted []*loader.Attachment, err error) {
	if len(r.args) == 0 || len(r.seen) == 0 {
		return attachments(r.args)
	}
	all, err := loader.List()
	found := 0
	for _, a := range all {
		known := r.policers[idOf(a)] != nil
		if known {
			found++
		}
		if known || a.Here && a.Device == r.args[0] {
			wanted = append(wanted, a)
		} else if closeErr := a.Close(); closeErr != nil {
			err = errors.Join(err, closeErr)
		}
	}
	if found == len(r.seen) {
		err = nil // it is of others
	}
	return wanted, err
}

func idOf(a *loader.Attachment) topID { return topID{a.About.NetNS, a.About.Ifindex, a.About.Egress} }

// last is what the attachments did when they were read last, in the order in which they were found.
func (r *topReader) last() (hooks []*topHook) {
	for _, id := range r.seen {
		copied := r.policers[id].shown
		hooks = append(hooks, &copied)
	}
	return hooks
}

func (r *topReader) readOne(id topID, a *loader.Attachment, choice *topChoice) error {
	info, err := a.Maps.Buckets.Info()
	if err != nil {
		return err
	}
	number, _ := info.ID()
	p := r.policers[id]
	if p == nil || p.maps != uint32(number) {
		if p, err = r.begin(id, a, uint32(number)); err != nil {
			return err
		}
	}
	return p.read(a, choice, r.always)
}

// begin starts with an attachment, or anew with one that took its place.
func (r *topReader) begin(id topID, a *loader.Attachment, number uint32) (*topPolicer, error) {
	geometry, _, err := a.Maps.ReadTable()
	if err != nil {
		return nil, err
	}
	buckets, err := maps.OpenBuckets(a.Maps.Buckets)
	if err != nil {
		return nil, err
	}
	p := &topPolicer{maps: number, buckets: buckets, tally: maps.NewTally(buckets, geometry)}
	if old := r.policers[id]; old != nil {
		p.shown.event = happened("attached anew: counted from here")
		err = old.buckets.Close()
	} else {
		r.seen = append(r.seen, id)
	}
	r.policers[id] = p
	return p, err
}

// happened says what happened just now.
func happened(what string) string { return time.Now().Format(time.TimeOnly) + " " + what }

func (p *topPolicer) read(a *loader.Attachment, choice *topChoice, always bool) error {
	s := &p.shown
	s.device, s.direction, s.state = a.Device, a.Direction().String(), ""
	switch {
	case a.State == loader.Stale:
		s.state = "STALE: its device is gone, or it was taken off the hook; no packet meets it"
	case !a.Here:
		s.state = "in " + otherNetNS(a)
	}
	if err := p.readPlan(a); err != nil {
		return err
	}
	if err := p.readClasses(a); err != nil {
		return err
	}
	return p.readKeys(choice, always)
}

// readPlan reads the policy again where another is in force.
func (p *topPolicer) readPlan(a *loader.Attachment) error {
	now, err := loader.Now()
	if err != nil {
		return err
	}
	copied, deadline, err := a.Maps.InForce()
	if err != nil {
		return err
	}
	generation, err := a.Maps.Generation(copied)
	if err != nil {
		return err
	}
	p.shown.pending = 0
	if deadline > now {
		p.shown.pending = time.Duration(deadline - now)
	} else if deadline != 0 {
		generation++ // as loader.InForce numbers the one that is in force again
	}
	if p.plan != nil && p.plan.Generation == generation {
		return nil
	}
	plan, _, err := a.InForce()
	if err != nil {
		return err
	}
	lines := policy.Describe(plan)
	if p.plan != nil && !slices.Equal(lines, p.lines) {
		p.shown.event = happened("the policy changed")
		p.carry(plan)
	}
	p.plan, p.lines, p.names = plan, lines, newBucketNames(plan)
	return nil
}

// carry has the counters of classes that a changed policy still has stay those of the reading before.
func (p *topPolicer) carry(plan *marker.Plan) {
	if p.last == 0 {
		return
	}
	old := map[string]marker.ClassStats{}
	for i := range p.plan.Classes {
		old[p.plan.Classes[i].Name] = p.stats.Classes[i]
	}
	p.stats.Classes = nil
	for i := range plan.Classes {
		p.stats.Classes = append(p.stats.Classes, old[plan.Classes[i].Name]) // a new one began at 0
	}
}

// readClasses tells what the classes counted since the reading before.
func (p *topPolicer) readClasses(a *loader.Attachment) error {
	stats, err := a.Maps.Stats(p.plan)
	if err != nil {
		return err
	}
	now, err := loader.Now()
	if err != nil {
		return err
	}
	s := &p.shown
	s.elapsed = 0
	if p.last != 0 {
		s.elapsed = now - p.last
	}
	s.classes = nil
	anew := p.stats.Port.Unmatched > stats.Port.Unmatched || p.stats.Port.NotIP > stats.Port.NotIP || p.stats.Port.Malformed > stats.Port.Malformed
	for i := range stats.Classes {
		c := topClass{name: p.plan.Classes[i].Name, all: stats.Classes[i]}
		if p.last != 0 {
			var began bool
			c.counted, began = since(&p.stats.Classes[i], &c.all)
			anew = anew || began
		}
		s.classes = append(s.classes, c)
	}
	s.port = marker.PortStats{}
	switch {
	case p.last == 0:
	case anew:
		s.event = happened("counters began anew")
	default:
		before := &p.stats.Port
		s.port = marker.PortStats{
			Unmatched: stats.Port.Unmatched - before.Unmatched, NotIP: stats.Port.NotIP - before.NotIP,
			Malformed: stats.Port.Malformed - before.Malformed,
			LongChain: stats.Port.LongChain - min(before.LongChain, stats.Port.LongChain),
			Unread:    stats.Port.Unread - min(before.Unread, stats.Port.Unread),
		}
	}
	p.stats, p.last = stats, now
	return nil
}

// since is what a class counted; began: its counters began anew meanwhile.
func since(before, now *marker.ClassStats) (counted marker.ClassStats, began bool) {
	for color := range marker.Colors {
		began = began || now.Packets[color] < before.Packets[color] || now.Bytes[color] < before.Bytes[color]
	}
	if began {
		return *now, true
	}
	for color := range marker.Colors {
		counted.Packets[color] = now.Packets[color] - before.Packets[color]
		counted.Bytes[color] = now.Bytes[color] - before.Bytes[color]
	}
	counted.Overflow = now.Overflow - min(before.Overflow, now.Overflow)
	counted.Contended = now.Contended - min(before.Contended, now.Contended)
	counted.ClockBack = now.ClockBack - min(before.ClockBack, now.ClockBack)
	return counted, false
}

// readKeys tells what the buckets counted since they were read before. They are not read yet where that would cost
// too much.
func (p *topPolicer) readKeys(choice *topChoice, always bool) error {
	now, err := loader.Now()
	if err != nil {
		return err
	}
	if !always && now < p.due {
		return nil
	}
	began, err := processTime()
	if err != nil {
		return err
	}
	reading := p.tally.Read(now, topMost, choice.ranker(p.names))
	ended, err := processTime()
	if err != nil {
		return err
	}
	p.due = now + (ended-began)*topShare
	s := &p.shown
	s.keysElapsed = reading.Elapsed
	if reading.First {
		s.keysElapsed = 0
	}
	s.active, s.torn = reading.Active, reading.Torn
	var stages [marker.MaxChain]stageUse
	for i, stage := range p.plan.Geometry.Stages {
		stages[i] = stageUse{Meter: i + 1, Slots: (uint64(stage.Mask) + 1) * marker.SetSlots, Used: reading.Used[i]}
	}
	s.stages = keyedStages(p.plan, stages)
	s.keys = make([]topKey, len(reading.Busiest))
	for i := range reading.Busiest {
		b := &reading.Busiest[i]
		s.keys[i] = topKey{
			bucketJSON: bucketOf(p.plan, p.names, b.At, &b.Slot, now), packets: b.Packets, bytes: b.Bytes, key: b.Key, names: p.names,
		}
	}
	return nil
}

// processTime is what the process has had of CPUs, in ns.
func processTime() (uint64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("read the process's clock: %w", err)
	}
	return uint64(t.Nano()), nil
}
