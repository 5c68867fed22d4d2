package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/tricolor-policer/tricolor/marker"
)

// Accuracy: by how much the rate that a policer keeps differs from the rate it was told, in parts per
// million, at 200 rates. Ours is put to the test: whatever packets come, what it let through and what
// it still holds must be what it began with and its rate × the time, to the nanobyte. The others' is
// worked out from what each stored of the rate, as read back from it.

const (
	fastest       = 125_000_000_000 // bytes per second: 1 Tbit/s
	accuracyRates = 200
	simulated     = 1_000_000_000 // packets, through all rates and meters together
)

// rates are the rates asked for, in bytes per second: from 1 to fastest, at equal ratios as far as
// whole bytes allow, each larger than the one before.
func rates() []uint64 {
	list := make([]uint64, accuracyRates)
	for i := range list {
		list[i] = uint64(math.Round(math.Pow(fastest, float64(i)/(accuracyRates-1))))
		if i > 0 {
			list[i] = max(list[i], list[i-1]+1)
		}
	}
	return list
}

// account is what one bucket did from its first packet to its last, in nanobytes.
type account struct {
	began, earned uint64 // what it held at first, what the rate × the time gave it
	spent, left   uint64
}

// off is what was let through beyond what was promised, in nanobytes: 0 where every one is accounted
// for.
func (a account) off() int64 { return int64(a.spent + a.left - a.began - a.earned) }

// error is off in parts of the promise, in millionths.
func (a account) error() float64 { return 1e6 * math.Abs(float64(a.off())) / float64(a.earned) }

// overloads are a meter of each type that keeps a rate in all, with bursts of 1 MB, which never fill
// again under what is offered.
func overloads(rate uint64) []marker.Params {
	const burst = 1_000_000
	half := (rate + 1) / 2
	return []marker.Params{
		{Meter: marker.Token, CIR: rate, CBS: burst},
		{Meter: marker.SRTCM, CIR: rate, CBS: burst, EBS: burst},
		{Meter: marker.TRTCM, CIR: half, CBS: burst, PIR: rate, PBS: burst},
		{Meter: marker.RFC4115, CIR: half, CBS: burst, EIR: half, EBS: burst},
	}
}

// offered are packets of 770 bytes on average at three times a rate: every other one within a
// microsecond of the one before, so that buckets are looked at far more often than they earn a byte.
func offered(rate uint64, r *rand.Rand) *[4096]arrival {
	mean := 770 * marker.Nano / 3 / rate // ns
	near := min(2*mean, 1_000)
	list := new([4096]arrival)
	for i := range list {
		most := near
		if i%2 == 0 {
			most = 4*mean - near
		}
		list[i] = arrival{gap: r.Uint64N(most + 1), cost: (40 + r.Uint64N(1461)) * marker.Nano}
	}
	return list
}

// judge puts packets arrivals through a meter, and gives an account of each of its buckets. They begin
// half full, so that none is full at any time, where what it earns is lost.
func judge(params marker.Params, list *[4096]arrival, packets int) ([]account, error) {
	p, err := params.Compile()
	if err != nil {
		return nil, err
	}
	var spent [marker.Colors]uint64
	began := marker.Bucket{Tc: p.CBS / 2, Tx: p.XBS / 2}
	b := began
	now := uint64(0)
	for i := range uint(packets) {
		a := &list[i%uint(len(list))]
		now += a.gap
		color, _ := p.Judge(&b, now, a.cost, a.in)
		spent[color] += a.cost
	}
	return accounts(&p, began, b, spent), nil
}

// accounts are those of a meter's buckets that share no tokens, by its state before and after, and
// the nanobytes of the packets between by their colour.
func accounts(p *marker.Profile, before, after marker.Bucket, spent [marker.Colors]uint64) []account {
	elapsed := after.Last - before.Last
	green, yellow := spent[marker.Green], spent[marker.Yellow]
	c := account{began: before.Tc, earned: p.CIR * elapsed, spent: green, left: after.Tc}
	x := account{began: before.Tx, earned: p.XIR * elapsed, spent: yellow, left: after.Tx}
	switch p.Meter {
	case marker.Token:
		return []account{c}
	case marker.SRTCM: // one rate fills both
		return []account{{began: c.began + x.began, earned: c.earned, spent: green + yellow, left: c.left + x.left}}
	case marker.TRTCM: // green spends of both
		x.spent += green
	}
	return []account{c, x}
}

// metersErrors is the error of our meters at each rate, in ppm: the worst of the four meters'. It uses all CPUs.
func metersErrors(rates []uint64, packets int) (figure, error) {
	f := make(figure, len(rates))
	errs := make([]error, len(rates))
	var wait sync.WaitGroup
	turns := make(chan int)
	for range runtime.NumCPU() {
		wait.Go(func() {
			for i := range turns {
				f[i], errs[i] = metersErrorAt(rates[i], packets/len(rates))
			}
		})
	}
	for i := range rates {
		turns <- i
	}
	close(turns)
	wait.Wait()
	return f, errors.Join(errs...)
}

func metersErrorAt(rate uint64, packets int) (worst float64, err error) {
	list := offered(rate, rand.New(rand.NewPCG(rate, 1)))
	all := overloads(rate)
	for _, params := range all {
		accounts, err := judge(params, list, packets/len(all))
		if err != nil {
			return 0, err
		}
		for _, a := range accounts {
			worst = max(worst, a.error())
		}
	}
	return worst, nil
}

// kept is the rate that a policer really keeps where it was told another, in bytes per second. One
// that refused it has none, and one that lets everything through keeps +Inf.
type kept struct {
	refused bool
	rate    float64
}

// keptErrors are the errors at rates, in ppm, without those that were refused; and how many those are
// and how many are exact.
func keptErrors(rates []uint64, k []kept) (f figure, refused, exact int) {
	for i, rate := range rates {
		if k[i].refused {
			refused++
			continue
		}
		e := 1e6 * math.Abs(k[i].rate/float64(rate)-1)
		if e == 0 {
			exact++
		}
		f = append(f, e)
	}
	return f, refused, exact
}

// accuracyPeers are the other policers, each under the name of what it needs.
var accuracyPeers = []struct {
	needs string
	rates func(rates []uint64) ([]peerRates, error)
}{
	{"DPDK", dpdkRates},
	{"nft", nftRates},
	{"hashlimit", hashlimitRates},
}

// peerRates is what one peer keeps of each rate.
type peerRates struct {
	name string
	kept []kept
}

func accuracySection(t *table) error {
	rates := rates()
	f, err := metersErrors(rates, simulated)
	if err != nil {
		return err
	}
	t.row(fmt.Sprintf("ours, %d rates, 10^9 packets", len(rates)), f, "ppm", "0")
	var notes []string
	for _, peer := range accuracyPeers {
		all, err := peer.rates(rates)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s: %v", peer.needs, err))
			continue
		}
		for _, p := range all {
			f, refused, exact := keptErrors(rates, p.kept)
			t.row(p.name, f, "ppm", "")
			notes = append(notes, fmt.Sprintf("%s: %d of %d rates exact, %d refused", p.name, exact, len(rates), refused))
		}
	}
	for _, n := range notes {
		t.note("%s", n)
	}
	return nil
}
