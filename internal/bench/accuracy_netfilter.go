package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/tricolor-policer/tricolor/marker"
)

// What netfilter's policers keep of a rate is read back in a network namespace of the bench's own.
//
// nft stores the rate as it is, and charges a packet floor(10^9 × length / rate) whole nanoseconds
// (nft_limit.c, nft_limit_bytes_eval): the shorter that time, the more is cut off. xt_hashlimit stores
// what 16 bytes cost in credits, of which a second earns so many, and charges length/16 + 1 times that
// (xt_hashlimit.c): what iptables wrote in its rule is already rounded, and the cost is so again.

// chargedLengths are IP packets of which a peer's kept rate is worked out, in bytes.
var chargedLengths = []uint64{1500, 64}

// inNamespace runs f in a new network namespace with lo up, which is gone afterwards. Needs root.
func inNamespace(f func() error) (err error) {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: this needs root", errLeftOut)
	}
	runtime.LockOSThread() // stays locked on failure: the thread then ends with its goroutine
	before, err := netns.Get()
	if err != nil {
		return err
	}
	defer before.Close()
	inside, err := netns.New()
	if err != nil {
		return err
	}
	defer inside.Close()
	defer func() {
		if back := netns.Set(before); back != nil {
			err = errors.Join(err, back)
			return
		}
		runtime.UnlockOSThread()
	}()
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	return f()
}

// installed looks for a program.
func installed(name string) error {
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Errorf("%w: %w", errLeftOut, err)
	}
	return nil
}

// nftRule is as much of a rule in `nft -j` as the bench reads.
type nftRule struct {
	Rule struct {
		Expr []struct {
			Limit *struct {
				Rate uint64 `json:"rate"`
				Unit string `json:"rate_unit"`
				Per  string `json:"per"`
			} `json:"limit"`
		} `json:"expr"`
	} `json:"rule"`
}

// nftStored adds a rule for each rate and reads all back: each rate in bytes per second, 0 where nft
// refused it.
func nftStored(rates []uint64) ([]uint64, error) {
	if out, err := exec.Command("nft", "add table ip bench; add chain ip bench c").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("nft: %w: %s", err, out)
	}
	taken := make([]bool, len(rates))
	for i, rate := range rates {
		rule := fmt.Sprintf("add rule ip bench c limit rate %d bytes/second", rate)
		taken[i] = exec.Command("nft", rule).Run() == nil
	}
	out, err := exec.Command("nft", "-j", "list", "table", "ip", "bench").Output()
	if err != nil {
		return nil, fmt.Errorf("nft: %w", err)
	}
	read, err := nftListed(out)
	if err != nil {
		return nil, err
	}
	stored := make([]uint64, len(rates))
	for i := range rates {
		if !taken[i] {
			continue
		}
		if len(read) == 0 {
			return nil, errors.New("nft lists fewer rates than it took")
		}
		stored[i], read = read[0], read[1:]
	}
	if len(read) > 0 {
		return nil, errors.New("nft lists more rates than it took")
	}
	return stored, nil
}

// nftListed reads the rates out of `nft -j list`, in order.
func nftListed(listing []byte) (rates []uint64, err error) {
	var all struct {
		Nftables []nftRule `json:"nftables"`
	}
	if err := json.Unmarshal(listing, &all); err != nil {
		return nil, fmt.Errorf("nft's list: %w", err)
	}
	units := map[string]uint64{"bytes": 1, "kbytes": 1 << 10, "mbytes": 1 << 20}
	for _, r := range all.Nftables {
		for _, e := range r.Rule.Expr {
			if e.Limit == nil {
				continue
			}
			unit, known := units[e.Limit.Unit]
			if !known || e.Limit.Per != "second" {
				return nil, fmt.Errorf("nft's list has a rate of %d %s/%s", e.Limit.Rate, e.Limit.Unit, e.Limit.Per)
			}
			rates = append(rates, e.Limit.Rate*unit)
		}
	}
	return rates, nil
}

// nftKept is the rate at which packets of so many bytes go through.
func nftKept(stored, length uint64) kept {
	ns := length * marker.Nano / stored
	if ns == 0 {
		return kept{rate: math.Inf(1)}
	}
	return kept{rate: float64(length) * marker.Nano / float64(ns)}
}

func nftRates(rates []uint64) (peers []peerRates, err error) {
	if err := installed("nft"); err != nil {
		return nil, err
	}
	err = inNamespace(func() error {
		stored, err := nftStored(rates)
		if err != nil {
			return err
		}
		asStored := peerRates{name: "nft limit, as stored"}
		for _, s := range stored {
			asStored.kept = append(asStored.kept, kept{refused: s == 0, rate: float64(s)})
		}
		peers = append(peers, asStored)
		for _, length := range chargedLengths {
			p := peerRates{name: fmt.Sprintf("  as charged, %d bytes", length)}
			for _, s := range stored {
				k := kept{refused: true}
				if s > 0 {
					k = nftKept(s, length)
				}
				p.kept = append(p.kept, k)
			}
			peers = append(peers, p)
		}
		return nil
	})
	return peers, err
}

// hashlimitChunk is what xt_hashlimit counts in, in bytes.
const hashlimitChunk = 16

// hashlimitEntry is a bucket of xt_hashlimit: its credit now, and what a chunk costs.
type hashlimitEntry struct{ credit, cost uint64 }

// hashlimitStored makes a bucket for each rate, by a packet, and reads all back; cost 0 where iptables
// or the kernel refused.
func hashlimitStored(rates []uint64) ([]hashlimitEntry, error) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0") // it sends to itself, so that nothing is refused
	if err != nil {
		return nil, err
	}
	defer c.Close()
	entries := make([]hashlimitEntry, len(rates))
	for i, rate := range rates {
		name := fmt.Sprintf("bench%d", i)
		add := exec.Command("iptables", "-A", "OUTPUT", "-m", "hashlimit", "--hashlimit-above", fmt.Sprintf("%db/s", rate),
			"--hashlimit-mode", "dstip", "--hashlimit-htable-size", "16", "--hashlimit-name", name)
		if add.Run() != nil {
			continue
		}
		if _, err := c.WriteTo(make([]byte, 8), c.LocalAddr()); err != nil {
			return nil, err
		}
		text, err := os.ReadFile("/proc/thread-self/net/ipt_hashlimit/" + name)
		if err != nil {
			return nil, err
		}
		if entries[i], err = readHashlimit(string(text)); err != nil {
			return nil, err
		}
		if out, err := exec.Command("iptables", "-F", "OUTPUT").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("iptables: %w: %s", err, out)
		}
	}
	return entries, nil
}

// readHashlimit reads the one line of a /proc/net/ipt_hashlimit file: seconds left, addresses, credit,
// how often it may be refilled, cost of a chunk.
func readHashlimit(text string) (e hashlimitEntry, err error) {
	line := strings.TrimSpace(text)
	var left, refills uint64
	var addresses string
	if _, err := fmt.Sscan(line, &left, &addresses, &e.credit, &refills, &e.cost); err != nil {
		return e, fmt.Errorf("the list of hashlimit's buckets says %q: %w", line, err)
	}
	return e, nil
}

// hashlimitKept is the rate at which packets of so many bytes go through; length 0: as stored.
func hashlimitKept(e hashlimitEntry, second, length uint64) kept {
	if e.cost == 0 {
		return kept{refused: true}
	}
	k := kept{rate: hashlimitChunk * float64(second) / float64(e.cost)}
	if length > 0 {
		k.rate *= float64(length) / float64((length/hashlimitChunk+1)*hashlimitChunk)
	}
	return k
}

func hashlimitRates(rates []uint64) (peers []peerRates, err error) {
	if err := installed("iptables"); err != nil {
		return nil, err
	}
	err = inNamespace(func() error {
		entries, err := hashlimitStored(rates)
		if err != nil {
			return err
		}
		second := uint64(0) // credits that a second earns: as many as a bucket holds at most
		for _, e := range entries {
			second = max(second, e.credit)
		}
		for i, length := range append([]uint64{0}, chargedLengths...) {
			p := peerRates{name: fmt.Sprintf("  as charged, %d bytes", length)}
			if i == 0 {
				p.name = "iptables hashlimit, as stored"
			}
			for _, e := range entries {
				p.kept = append(p.kept, hashlimitKept(e, second, length))
			}
			peers = append(peers, p)
		}
		return nil
	})
	return peers, err
}
