package marker

import (
	"errors"
	"fmt"
	"math"
)

// Bounds of a meter's parameters.
const (
	MaxRate  = 1 << 37               // bytes per second: over 1 Tbit/s
	Nano     = 1_000_000_000         // nanobytes a byte, nanoseconds a second
	MaxBurst = (1 << 63) / Nano      // bytes, also of CBS + EBS: 9.2 GB
	MaxCost  = math.MaxUint64 / Nano // bytes: what a meter takes at most; the packet path clamps to CostMax
)

// MeterType is one of the four meters.
type MeterType uint8

// The meters.
const (
	Token   MeterType = iota // single rate, two colours
	SRTCM                    // RFC 2697
	TRTCM                    // RFC 2698
	RFC4115                  // RFC 4115, with the coupling of MEF 10.3
)

var meterNames = []string{"token", "srtcm", "trtcm", "rfc4115"}

// String returns the meter's name as in a policy.
func (m MeterType) String() string {
	if int(m) < len(meterNames) {
		return meterNames[m]
	}
	return fmt.Sprintf("meter(%d)", uint8(m))
}

// ParseMeterType reads a meter's name.
func ParseMeterType(s string) (MeterType, error) {
	for m, name := range meterNames {
		if s == name {
			return MeterType(m), nil
		}
	}
	return 0, fmt.Errorf("%q is no meter: say token, srtcm (RFC 2697), trtcm (RFC 2698) or rfc4115", s)
}

// Params are a meter's parameters as a person means them. Rates in bytes per second, bursts in
// bytes (packets, where packets are counted). A meter that does not use one wants it 0.
type Params struct {
	Meter    MeterType
	Aware    bool // looks at the packet's arrival colour
	Coupling bool // rfc4115: E also gets what C cannot hold
	CIR, CBS uint64
	EBS      uint64 // srtcm, rfc4115
	PIR, PBS uint64 // trtcm
	EIR      uint64 // rfc4115
}

// Profile is a meter's parameters, compiled: what both the kernel and the mirror work with. X is the
// second bucket: E (srtcm, rfc4115) or P (trtcm).
type Profile struct {
	CIR, XIR     uint64 // bytes per second
	CBS, XBS     uint64 // nanobytes
	CFill, XFill uint64 // ns after which the bucket is full without multiplying
	Overflow     uint32 // reserved set of the overflow bucket
	Meter        MeterType
	Aware        bool
	Coupling     bool
	Gone         bool   // no packet will ask for its buckets again
	Moved        uint32 // where it is Gone: 1 + the profile that its buckets go on with; 0 none
	Name         string // of the policy's profile, for people
}

// ErrParams is what every refusal of Compile wraps.
var ErrParams = errors.New("meter parameters")

// Compile checks the parameters (SPEC of each meter: RFC 2697 section 2, RFC 2698 section 2, RFC 4115
// section 2) and compiles them. Its error wraps ErrParams and joins every fault found, each naming
// the parameter and the section.
func (m Params) Compile() (Profile, error) {
	if err := m.check(); err != nil {
		return Profile{}, err
	}
	p := Profile{Meter: m.Meter, Aware: m.Aware, Coupling: m.Coupling, CIR: m.CIR, CBS: m.CBS * Nano}
	switch m.Meter {
	case Token:
	case SRTCM:
		p.XBS = m.EBS * Nano
	case TRTCM:
		p.XIR, p.XBS = m.PIR, m.PBS*Nano
	case RFC4115:
		p.XIR, p.XBS = m.EIR, m.EBS*Nano
	}
	// Where what C cannot hold goes to E, the product of the spill has to fit too: it is taken
	// until both are full.
	c := m.CBS
	if m.Meter == SRTCM || m.Coupling {
		c += m.EBS
	}
	p.CFill = fillTime(c, p.CIR)
	p.XFill = fillTime(p.XBS/Nano, p.XIR)
	return p, nil
}

// fillTime is ceil(burst × 10^9 / rate) ns: a bucket at rate 0 never fills, one of burst 0 is full.
func fillTime(burst, rate uint64) uint64 {
	if burst == 0 {
		return 0
	}
	if rate == 0 {
		return math.MaxUint64
	}
	return (burst*Nano + rate - 1) / rate
}

// A fault of one parameter.
func (m Params) fault(parameter, section, format string, args ...any) error {
	return fmt.Errorf("%s: %s (%s)", parameter, fmt.Sprintf(format, args...), section)
}

func (m Params) check() error {
	var faults []error
	add := func(parameter, section, format string, args ...any) {
		faults = append(faults, m.fault(parameter, section, format, args...))
	}
	used := m.used()
	for _, q := range []struct {
		name  string
		value uint64
		limit uint64
		unit  string
	}{
		{"cir", m.CIR, MaxRate, "B/s"}, {"pir", m.PIR, MaxRate, "B/s"}, {"eir", m.EIR, MaxRate, "B/s"},
		{"cbs", m.CBS, MaxBurst, "B"}, {"ebs", m.EBS, MaxBurst, "B"}, {"pbs", m.PBS, MaxBurst, "B"},
	} {
		switch {
		case q.value > 0 && !used[q.name]:
			add(q.name, m.section(), "%v has no such parameter: leave it out", m.Meter)
		case q.value > q.limit:
			add(q.name, m.section(), "%d %s is out of range: at most %d", q.value, q.unit, q.limit)
		}
	}
	if used["ebs"] && m.CBS <= MaxBurst && m.EBS <= MaxBurst && m.CBS+m.EBS > MaxBurst {
		add("cbs + ebs", m.section(), "%d B is out of range: at most %d", m.CBS+m.EBS, uint64(MaxBurst))
	}
	if m.Coupling && m.Meter != RFC4115 {
		add("coupling", m.section(), "%v has no such parameter: only rfc4115 couples its buckets", m.Meter)
	}
	switch m.Meter {
	case Token:
		if m.CIR == 0 {
			add("cir", m.section(), "a rate is needed: with 0 nothing is ever earned")
		}
		if m.CBS == 0 {
			add("cbs", m.section(), "a burst is needed: with 0 every packet is red")
		}
	case SRTCM:
		if m.CIR == 0 {
			add("cir", m.section(), "a rate is needed: with 0 nothing is ever earned")
		}
		if m.CBS == 0 && m.EBS == 0 {
			add("cbs, ebs", m.section(), "at least one must be larger than 0: else every packet is red")
		}
	case TRTCM:
		if m.CIR == 0 {
			add("cir", m.section(), "a rate is needed: with 0 nothing is ever earned")
		}
		if m.PIR == 0 {
			add("pir", m.section(), "a rate is needed: with 0 nothing is ever earned")
		} else if m.PIR < m.CIR {
			add("pir", m.section(), "%d B/s is below cir (%d B/s): it must be equal or larger", m.PIR, m.CIR)
		}
		if m.CBS == 0 {
			add("cbs", m.section(), "must be larger than 0")
		}
		if m.PBS == 0 {
			add("pbs", m.section(), "must be larger than 0")
		}
	case RFC4115:
		if m.CIR == 0 && m.EIR == 0 {
			add("cir, eir", m.section(), "both rates are 0: nothing is ever earned")
		}
		if m.CIR > 0 && m.CBS == 0 {
			add("cbs", m.section(), "must be larger than 0 where cir is")
		}
		if m.EIR > 0 && m.EBS == 0 {
			add("ebs", m.section(), "must be larger than 0 where eir is")
		}
		if m.EIR == 0 && m.EBS > 0 && !m.Coupling {
			add("eir", m.section(), "0 never refills ebs: give a rate, set ebs to 0, or couple the buckets")
		}
	default:
		add("meter", "no RFC", "%v is no meter", m.Meter)
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrParams, errors.Join(faults...))
}

func (m Params) used() map[string]bool {
	used := map[string]bool{"cir": true, "cbs": true}
	switch m.Meter {
	case SRTCM:
		used["ebs"] = true
	case TRTCM:
		used["pir"], used["pbs"] = true, true
	case RFC4115:
		used["eir"], used["ebs"] = true, true
	}
	return used
}

// section is where the meter's parameters are defined.
func (m Params) section() string {
	switch m.Meter {
	case SRTCM:
		return "RFC 2697 section 2"
	case TRTCM:
		return "RFC 2698 section 2"
	case RFC4115:
		return "RFC 4115 section 2"
	default:
		return "token bucket: RFC 2697 section 2 without EBS"
	}
}
