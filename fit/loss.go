package fit

import "github.com/tricolor-policer/tricolor/marker"

// Loss is how much was red.
type Loss struct{ Packets, Bytes uint64 }

// Trials is the token meter itself at one rate with several bursts at once, and what each loses.
type Trials struct {
	profiles []marker.Profile
	lost     []Loss
}

// Trial is one bucket's state for each burst of Trials. The zero Trial is full.
type Trial struct{ buckets []marker.Bucket }

// NewTrials makes trials at a rate (bytes per second) with bursts (bytes). Returns an error that wraps
// marker.ErrParams where a meter takes no such rate or burst.
func NewTrials(rate uint64, bursts []uint64) (*Trials, error) {
	t := &Trials{lost: make([]Loss, len(bursts))}
	for _, burst := range bursts {
		p, err := marker.Params{Meter: marker.Token, CIR: rate, CBS: burst}.Compile()
		if err != nil {
			return nil, err
		}
		t.profiles = append(t.profiles, p)
	}
	return t, nil
}

// Add takes a packet of cost bytes at now (ns) into a bucket.
func (t *Trials) Add(b *Trial, now, cost uint64) {
	if b.buckets == nil {
		b.buckets = make([]marker.Bucket, len(t.profiles))
		for i := range b.buckets {
			t.profiles[i].Init(&b.buckets[i], now)
		}
	}
	for i := range t.profiles {
		if color, _ := t.profiles[i].Judge(&b.buckets[i], now, cost*marker.Nano, marker.Green); color == marker.Red {
			t.lost[i].Packets++
			t.lost[i].Bytes += cost
		}
	}
}

// Lost is what the i-th burst loses.
func (t *Trials) Lost(i int) Loss { return t.lost[i] }

// width is how many bursts are tried in one pass.
const width = 63

// LeastBurst looks for the least burst (bytes) from 1 to high that is good, where high is. Each call of try is one
// pass over the traffic with bursts by ascending size, and says which of them are good.
//
// A greater burst may let a large packet through for which several small ones are then red. So a burst far below may
// be good by chance; of what is tried, the least is taken, and it is certain that one byte less is not good.
func LeastBurst(high uint64, try func(bursts []uint64) (good []bool, err error)) (uint64, error) {
	low := uint64(0) // not good: no meter takes it
	for high-low > 1 {
		var bursts []uint64
		for i := uint64(1); i <= width; i++ {
			if b := low + (high-low)/(width+1)*i + (high-low)%(width+1)*i/(width+1); b > low && b < high && (len(bursts) == 0 || b > bursts[len(bursts)-1]) {
				bursts = append(bursts, b)
			}
		}
		good, err := try(bursts)
		if err != nil {
			return 0, err
		}
		next := high
		for i, b := range bursts {
			if good[i] {
				next = b
				break
			}
			low = b
		}
		high = next
	}
	return high, nil
}
