package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The flood times policers as packets meet them: at a veth's ingress, out of a generator that makes and sends
// them in the same CPU's time. What a policer takes is what a packet takes all told, less what it takes with no
// policer there. Each policer has a laboratory of its own, and all of them are there at once, so that they can
// take turns; of the others' hooks no more is felt than that the kernel looks for hooks of its own at all.

// burstPackets is how many packets a round sends through each policer: some 60 ms, in which 50,000 flows come round
// three times.
const burstPackets = 150_000

// What policers are told to let through. hashlimit takes no burst under a second at its rate.
var (
	plenty = bucketSize{rate: 1_000_000_000, burst: 1_100_000_000} // more than the whole flood
	scarce = bucketSize{rate: 16, burst: 64}                       // a packet of each flow every four seconds
)

// contest is one comparison: the same flood through each policer.
type contest struct {
	what   string
	flows  uint64
	bucket bucketSize
	floor  policer
	rows   []policer
	// What oursToken ought to take of the time of nftSet and of hashlimit, in %; "" where nothing was asked.
	ofNFT, ofHashlimit string
}

// conforming are floods of which every packet is let through.
var conforming = func() []contest {
	rows := []policer{emptyTCX, oursToken, oursSRTCM, nftSet, nftSingle, hashlimit, hashlimitLegacy}
	return []contest{
		{"conforming", 1, plenty, nothing, rows, "<= 33", "<= 100"},
		{"conforming", 10_000, plenty, nothing, rows, "", ""},
		{"conforming", 50_000, plenty, nothing, rows, "<= 50", "<= 100"},
	}
}()

// red are floods of which next to no packet is let through. The floor drops them first of all; ours and nft do so at
// the same hook or the next, hashlimit only where conforming ones end.
var red = func() []contest {
	rows := []policer{oursToken, oursSRTCM, nftSet, nftSingle, hashlimit, hashlimitLegacy}
	return []contest{
		{"red", 1, scarce, dropTCX, rows, "", ""},
		{"red", 50_000, scarce, dropTCX, rows, "", ""},
	}
}()

func floodSection(t *table) error    { return compare(t, conforming) }
func floodRedSection(t *table) error { return compare(t, red) }

// compare writes the rows of contests.
func compare(t *table, contests []contest) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: a flood needs root", errLeftOut)
	}
	left, err := leftOut(t)
	if err != nil {
		return err
	}
	free, err := pin()
	if err != nil {
		return err
	}
	defer free()
	for _, c := range contests {
		if err := c.run(t, left); err != nil {
			return err
		}
	}
	return nil
}

// pin keeps the calling goroutine to the machine's last CPU, until free is called.
func pin() (free func(), err error) {
	runtime.LockOSThread()
	var before, last unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("read this thread's CPUs: %w", err)
	}
	for cpu := range 8 * int(unsafe.Sizeof(before)) {
		if before.IsSet(cpu) {
			last.Zero()
			last.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(0, &last); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("keep this thread to one CPU: %w", err)
	}
	return func() {
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread() // else the thread ends with its goroutine
		}
	}, nil
}

// run writes the contest's rows.
func (c contest) run(t *table, left map[string]bool) (err error) {
	b := c.bucket
	b.flows = max(c.flows, 1<<16)
	var targets []*target
	defer func() {
		for _, target := range targets {
			err = errors.Join(err, target.close())
		}
	}()
	for _, p := range append([]policer{c.floor}, c.rows...) {
		if left[p.name] {
			continue
		}
		target, err := newTarget(p, b, nowhere)
		if errors.Is(err, errNoPeer) {
			t.note("%s is left out: %v", p.name, err)
			if p.name == c.floor.name {
				return nil // and all that was to be compared with it
			}
			continue
		}
		if err != nil {
			return err
		}
		targets = append(targets, target)
		if err := target.warm(c.flows); err != nil {
			return err
		}
	}
	took := map[string]figure{}
	for round := range rounds {
		for i := range targets {
			target := targets[(i+round)%len(targets)] // so that none always follows the same other
			ns, err := target.burst()
			if err != nil {
				return err
			}
			took[target.name] = append(took[target.name], ns)
		}
	}
	c.print(t, took)
	return nil
}

// print writes what each policer took, and how ours compares.
func (c contest) print(t *table, took map[string]figure) {
	heading := fmt.Sprintf("%s, 1 flow", c.what)
	if c.flows > 1 {
		heading = fmt.Sprintf("%s, %dk flows at random", c.what, c.flows/1000)
	}
	floor := took[c.floor.name]
	t.row(heading+": "+c.floor.name+", all told", floor, "ns", "")
	over := map[string]figure{}
	for _, p := range c.rows {
		if f, there := took[p.name]; there {
			over[p.name] = f.less(floor)
			t.row("  "+p.name+", over that", over[p.name], "ns", "")
		}
	}
	for _, against := range []struct {
		policer
		target string
	}{{nftSet, c.ofNFT}, {hashlimit, c.ofHashlimit}, {hashlimitLegacy, c.ofHashlimit}} {
		a, b := over[oursToken.name], over[against.name]
		if a != nil && b != nil {
			t.row("  "+oursToken.name+": of "+against.name, a.percentOf(b), "%", against.target)
		}
	}
}

// warm has every flow known to the policer, and the flood go on at random.
func (t *target) warm(flows uint64) error {
	if err := t.flood.follow(inTurn(flows)); err != nil {
		return err
	}
	if _, err := t.flood.send(uint32(2*flows + 10_000)); err != nil {
		return err
	}
	return t.flood.follow(atRandom(flows))
}

// burst sends a round's packets, and returns what each took, in ns. That all were received is made sure of.
func (t *target) burst() (ns float64, err error) {
	before, err := t.received()
	if err != nil {
		return 0, err
	}
	if ns, err = t.flood.send(burstPackets); err != nil {
		return 0, err
	}
	after, err := t.received()
	if err != nil {
		return 0, err
	}
	if n := after - before; n < burstPackets {
		return 0, fmt.Errorf("%s: only %d of %d packets were received", t.name, n, burstPackets)
	}
	return ns, nil
}
