package marker_test

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/marker"
	"pgregory.net/rapid"
)

const (
	rfc2697 = "RFC 2697 section 2"
	rfc2698 = "RFC 2698 section 2"
	rfc4115 = "RFC 4115 section 2"
)

// legal parameters of each meter, which every case below changes in something.
var legal = map[marker.MeterType]marker.Params{
	marker.Token:   {Meter: marker.Token, CIR: 1000, CBS: 1500},
	marker.SRTCM:   {Meter: marker.SRTCM, CIR: 1000, CBS: 1500, EBS: 3000},
	marker.TRTCM:   {Meter: marker.TRTCM, CIR: 1000, CBS: 1500, PIR: 2000, PBS: 3000},
	marker.RFC4115: {Meter: marker.RFC4115, CIR: 1000, CBS: 1500, EIR: 500, EBS: 3000},
}

func TestCompileRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		meter  marker.MeterType
		change func(p *marker.Params)
		want   []string // each fault: parameter and section
	}{
		{"token without cir", marker.Token, func(p *marker.Params) { p.CIR = 0 }, []string{"cir", rfc2697}},
		{"token without cbs", marker.Token, func(p *marker.Params) { p.CBS = 0 }, []string{"cbs", rfc2697}},
		{"srtcm without cir", marker.SRTCM, func(p *marker.Params) { p.CIR = 0 }, []string{"cir", rfc2697}},
		{"srtcm without bursts", marker.SRTCM, func(p *marker.Params) { p.CBS, p.EBS = 0, 0 }, []string{"cbs, ebs", rfc2697}},
		{"trtcm without cir", marker.TRTCM, func(p *marker.Params) { p.CIR = 0 }, []string{"cir", rfc2698}},
		{"trtcm without pir", marker.TRTCM, func(p *marker.Params) { p.PIR = 0 }, []string{"pir", rfc2698}},
		{"trtcm without either", marker.TRTCM, func(p *marker.Params) { p.CIR, p.PIR = 0, 0 }, []string{"cir", rfc2698, "pir", rfc2698}},
		{"trtcm without cbs", marker.TRTCM, func(p *marker.Params) { p.CBS = 0 }, []string{"cbs", rfc2698}},
		{"trtcm without pbs", marker.TRTCM, func(p *marker.Params) { p.PBS = 0 }, []string{"pbs", rfc2698}},
		{"pir below cir", marker.TRTCM, func(p *marker.Params) { p.PIR = 999 }, []string{"pir", rfc2698}},
		{"rfc4115 without cbs", marker.RFC4115, func(p *marker.Params) { p.CBS = 0 }, []string{"cbs", rfc4115}},
		{"rfc4115 without ebs", marker.RFC4115, func(p *marker.Params) { p.EBS = 0 }, []string{"ebs", rfc4115}},
		{"coupled without ebs", marker.RFC4115, func(p *marker.Params) { p.EBS, p.Coupling = 0, true }, []string{"ebs", rfc4115}},
		{"rfc4115 without eir", marker.RFC4115, func(p *marker.Params) { p.EIR = 0 }, []string{"eir", rfc4115}},
		{"rfc4115 without rates", marker.RFC4115, func(p *marker.Params) { p.CIR, p.EIR, p.EBS = 0, 0, 0 }, []string{"cir, eir", rfc4115}},
		{"coupled without rates", marker.RFC4115, func(p *marker.Params) { p.CIR, p.EIR, p.Coupling = 0, 0, true }, []string{"cir, eir", rfc4115}},

		{"cir out of range", marker.Token, func(p *marker.Params) { p.CIR = marker.MaxRate + 1 }, []string{"cir", rfc2697}},
		{"pir out of range", marker.TRTCM, func(p *marker.Params) { p.PIR = math.MaxUint64 }, []string{"pir", rfc2698}},
		{"eir out of range", marker.RFC4115, func(p *marker.Params) { p.EIR = marker.MaxRate + 1 }, []string{"eir", rfc4115}},
		{"cbs out of range", marker.SRTCM, func(p *marker.Params) { p.CBS, p.EBS = marker.MaxBurst+1, 0 }, []string{"cbs", rfc2697}},
		{"ebs out of range", marker.SRTCM, func(p *marker.Params) { p.CBS, p.EBS = 0, math.MaxUint64 }, []string{"ebs", rfc2697}},
		{"pbs out of range", marker.TRTCM, func(p *marker.Params) { p.PBS = marker.MaxBurst + 1 }, []string{"pbs", rfc2698}},
		{"srtcm bursts together", marker.SRTCM, func(p *marker.Params) { p.EBS = marker.MaxBurst - p.CBS + 1 }, []string{"cbs + ebs", rfc2697}},
		{"rfc4115 bursts together", marker.RFC4115, func(p *marker.Params) { p.EBS = marker.MaxBurst }, []string{"cbs + ebs", rfc4115}},

		{"token with ebs", marker.Token, func(p *marker.Params) { p.EBS = 1 }, []string{"ebs", rfc2697}},
		{"token with pir and pbs", marker.Token, func(p *marker.Params) { p.PIR, p.PBS = 1, 1 }, []string{"pir", rfc2697, "pbs", rfc2697}},
		{"srtcm with pir", marker.SRTCM, func(p *marker.Params) { p.PIR = 1 }, []string{"pir", rfc2697}},
		{"srtcm with eir", marker.SRTCM, func(p *marker.Params) { p.EIR = 1 }, []string{"eir", rfc2697}},
		{"trtcm with ebs", marker.TRTCM, func(p *marker.Params) { p.EBS = 1 }, []string{"ebs", rfc2698}},
		{"rfc4115 with pbs", marker.RFC4115, func(p *marker.Params) { p.PBS = 1 }, []string{"pbs", rfc4115}},
		{"token coupled", marker.Token, func(p *marker.Params) { p.Coupling = true }, []string{"coupling", rfc2697}},
		{"srtcm coupled", marker.SRTCM, func(p *marker.Params) { p.Coupling = true }, []string{"coupling", rfc2697}},
		{"trtcm coupled", marker.TRTCM, func(p *marker.Params) { p.Coupling = true }, []string{"coupling", rfc2698}},

		{
			"everything at once", marker.TRTCM,
			func(p *marker.Params) {
				*p = marker.Params{Meter: p.Meter, CBS: marker.MaxBurst + 1, EBS: 1, Coupling: true}
			},
			[]string{"ebs", rfc2698, "cbs", rfc2698, "coupling", rfc2698, "cir", rfc2698, "pir", rfc2698, "pbs", rfc2698},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := legal[c.meter]
			c.change(&p)
			profile, err := p.Compile()
			if !errors.Is(err, marker.ErrParams) {
				t.Fatalf("%+v: error %v, want one that is %v", p, err, marker.ErrParams)
			}
			if profile != (marker.Profile{}) {
				t.Errorf("refused, and yet a profile: %+v", profile)
			}
			faults := strings.Split(strings.TrimPrefix(err.Error(), marker.ErrParams.Error()+": "), "\n")
			if len(faults) != len(c.want)/2 {
				t.Errorf("%d faults, want %d: %v", len(faults), len(c.want)/2, err)
			}
			for want := range slices.Chunk(c.want, 2) {
				if !slices.ContainsFunc(faults, func(fault string) bool {
					return strings.HasPrefix(fault, want[0]+": ") && strings.Contains(fault, want[1])
				}) {
					t.Errorf("no fault of %s by %s: %v", want[0], want[1], err)
				}
			}
		})
	}
}

func TestCompileRefusesUnknownMeter(t *testing.T) {
	p := marker.Params{Meter: 4, CIR: 1, CBS: 1}
	if _, err := p.Compile(); !errors.Is(err, marker.ErrParams) || !strings.Contains(err.Error(), "meter(4) is no meter") {
		t.Errorf("error %v, want one that names meter(4)", err)
	}
}

// TestCompileFillTimes: legal edge cases, and the times to fill worked out by hand.
func TestCompileFillTimes(t *testing.T) {
	const never = math.MaxUint64 // at rate 0, and srtcm's E, which has no rate of its own
	for _, c := range []struct {
		name         string
		params       marker.Params
		cFill, xFill uint64 // ns
	}{
		{"token", marker.Params{CIR: 1000, CBS: 1500}, 1_500_000_000, 0},
		{"token rounds up", marker.Params{CIR: 3, CBS: 1}, 333_333_334, 0},
		{"token does not round up what is whole", marker.Params{CIR: 4, CBS: 1}, 250_000_000, 0},
		{"token fills within a ns", marker.Params{CIR: marker.MaxRate, CBS: 1}, 1, 0},
		{"token slowest", marker.Params{CIR: 1, CBS: marker.MaxBurst}, 9_223_372_036_000_000_000, 0},
		{"token fastest", marker.Params{CIR: marker.MaxRate, CBS: marker.MaxBurst}, 67_108_864, 0},
		{"srtcm fills both", marker.Params{Meter: marker.SRTCM, CIR: 1000, CBS: 1500, EBS: 3000}, 4_500_000_000, never},
		{"srtcm without cbs", marker.Params{Meter: marker.SRTCM, CIR: 1000, EBS: 3000}, 3_000_000_000, never},
		{"srtcm without ebs", marker.Params{Meter: marker.SRTCM, CIR: 1000, CBS: 1500}, 1_500_000_000, 0},
		{"srtcm bursts at the end of the range", marker.Params{Meter: marker.SRTCM, CIR: 1, CBS: marker.MaxBurst - 1, EBS: 1}, 9_223_372_036_000_000_000, never},
		{"trtcm", legal[marker.TRTCM], 1_500_000_000, 1_500_000_000},
		{"trtcm pir = cir, pbs < cbs", marker.Params{Meter: marker.TRTCM, CIR: 7, CBS: 2, PIR: 7, PBS: 1}, 285_714_286, 142_857_143},
		{"rfc4115", legal[marker.RFC4115], 1_500_000_000, 6_000_000_000},
		{"rfc4115 eir above cir", marker.Params{Meter: marker.RFC4115, CIR: 1, CBS: 1, EIR: 10, EBS: 1}, 1_000_000_000, 100_000_000},
		{"rfc4115 without committed", marker.Params{Meter: marker.RFC4115, EIR: 500, EBS: 1500}, 0, 3_000_000_000},
		{"rfc4115 cir 0 never refills cbs", marker.Params{Meter: marker.RFC4115, CBS: 1500, EIR: 500, EBS: 1500}, never, 3_000_000_000},
		{"rfc4115 without excess", marker.Params{Meter: marker.RFC4115, CIR: 1000, CBS: 1500}, 1_500_000_000, 0},
		{"coupled", marker.Params{Meter: marker.RFC4115, Coupling: true, CIR: 1000, CBS: 1500, EIR: 500, EBS: 3000}, 4_500_000_000, 6_000_000_000},
		{"coupled without eir", marker.Params{Meter: marker.RFC4115, Coupling: true, CIR: 1000, CBS: 1500, EBS: 3000}, 4_500_000_000, never},
		{"coupled without committed", marker.Params{Meter: marker.RFC4115, Coupling: true, EIR: 500, EBS: 1500}, never, 3_000_000_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			profile, err := c.params.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if profile.CFill != c.cFill || profile.XFill != c.xFill {
				t.Errorf("fills in %d and %d ns, want %d and %d", profile.CFill, profile.XFill, c.cFill, c.xFill)
			}
			p := c.params
			want := marker.Profile{
				Meter: p.Meter, Aware: p.Aware, Coupling: p.Coupling, CFill: c.cFill, XFill: c.xFill,
				CIR: p.CIR, CBS: p.CBS * 1_000_000_000, XIR: p.PIR + p.EIR, XBS: (p.EBS + p.PBS) * 1_000_000_000,
			}
			if profile != want {
				t.Errorf("compiled %+v, want %+v", profile, want)
			}
		})
	}
}

// TestFillTimeIsExact: a ns before it, the product is below what must be earned and fits into 64
// bits; at it, all is earned.
func TestFillTimeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := fromRapid(t)
		p := genParams(d, meterTypes[d(3)])
		profile, err := p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		c := p.CBS
		if p.Meter == marker.SRTCM || p.Coupling {
			c += p.EBS
		}
		for _, f := range []struct {
			name              string
			burst, rate, fill uint64
		}{{"C", c, p.CIR, profile.CFill}, {"E or P", p.EBS + p.PBS, p.EIR + p.PIR, profile.XFill}} {
			if f.rate == 0 || f.burst == 0 {
				continue
			}
			rate, fill := new(big.Int).SetUint64(f.rate), new(big.Int).SetUint64(f.fill)
			need := new(big.Int).Mul(new(big.Int).SetUint64(f.burst), big.NewInt(1e9))
			at := new(big.Int).Mul(fill, rate)
			before := new(big.Int).Sub(at, rate)
			if at.Cmp(need) < 0 || before.Cmp(need) >= 0 || !before.IsUint64() {
				t.Errorf("%s of %+v fills in %d ns: %v earned by then and %v a ns before, of %v", f.name, p, f.fill, at, before, need)
			}
		}
	})
}

func TestNames(t *testing.T) {
	for _, meter := range meterTypes {
		if back, err := marker.ParseMeterType(meter.String()); err != nil || back != meter {
			t.Errorf("%v reads back as %v, %v", meter, back, err)
		}
	}
	for _, color := range []marker.Color{marker.Green, marker.Yellow, marker.Red} {
		if back, err := marker.ParseColor(color.String()); err != nil || back != color {
			t.Errorf("%v reads back as %v, %v", color, back, err)
		}
	}
	for _, name := range []string{"", "Green", "srTCM", "colors(3)", "color(3)"} {
		if _, err := marker.ParseMeterType(name); err == nil {
			t.Errorf("%q is a meter", name)
		}
		if _, err := marker.ParseColor(name); err == nil {
			t.Errorf("%q is a colour", name)
		}
	}
}

func TestInitIsFull(t *testing.T) {
	for _, p := range legal {
		profile, err := p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		b := marker.Bucket{Last: 1, Tc: 2, Tx: 3}
		if profile.Full(&b) {
			t.Errorf("%v: %+v is full", p.Meter, b)
		}
		profile.Init(&b, 42)
		if want := (marker.Bucket{Last: 42, Tc: profile.CBS, Tx: profile.XBS}); b != want || !profile.Full(&b) {
			t.Errorf("%v: a new bucket is %+v, want %+v, full", p.Meter, b, want)
		}
		if b.Tc--; profile.Full(&b) {
			t.Errorf("%v: full with a nanobyte short in C", p.Meter)
		}
		if b.Tc++; p.Meter != marker.Token {
			if b.Tx--; profile.Full(&b) {
				t.Errorf("%v: full with a nanobyte short in the second bucket", p.Meter)
			}
		}
	}
}
