package main

import (
	"errors"
	"fmt"
	"os"
)

// hashlimitMost is how many buckets Linux lets hashlimit have (HASHLIMIT_MAX_SIZE, xt_hashlimit.c).
const hashlimitMost = 1 << 20

// floodAt are ours and the peers in a flood of so many flows, over a flood through nothing. A peer that
// is not here, or cannot hold as many, has no point.
func floodAt(flows uint32) (_ []point, err error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: a flood needs root", errLeftOut)
	}
	free, err := pin()
	if err != nil {
		return nil, err
	}
	defer free()
	b := plenty
	b.flows = uint64(flows)
	var targets []*target
	defer func() {
		for _, target := range targets {
			err = errors.Join(err, target.close())
		}
	}()
	for _, p := range []policer{nothing, oursToken, nftSet, hashlimit, hashlimitLegacy} {
		if flows > hashlimitMost && (p.name == hashlimit.name || p.name == hashlimitLegacy.name) {
			continue
		}
		target, err := newTarget(p, b, nowhere)
		if errors.Is(err, errNoPeer) {
			continue
		}
		if err != nil {
			return nil, err
		}
		targets = append(targets, target)
		if err := target.warm(b.flows); err != nil {
			return nil, err
		}
	}
	took := make([]figure, len(targets))
	for range rounds {
		for i, target := range targets {
			ns, err := target.burst()
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], ns)
		}
	}
	var points []point
	for i, target := range targets[1:] {
		over := took[i+1].less(took[0])
		points = append(points, point{"in a flood: " + target.name, over})
	}
	return points, nil
}
