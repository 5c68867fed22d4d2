package main

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tricolor-policer/tricolor/marker"
)

// DPDK's rte_meter is asked through a small C program, compiled here against the machine's own
// library. rte_meter earns a whole number of bytes every so many whole clock cycles, and drops what
// of the cycles is no whole number: that is its error.

//go:embed dpdk/meter.c
var dpdkSource []byte

// dpdkMeter is the C program, running.
type dpdkMeter struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	dir string
	hz  float64 // of its clock
}

// startDPDK compiles and starts it. Close ends it. Its error wraps errLeftOut where the machine has no
// compiler or no DPDK.
func startDPDK() (_ *dpdkMeter, err error) {
	flags, err := exec.Command("pkg-config", "--cflags", "--libs", "libdpdk").Output()
	if err != nil {
		return nil, fmt.Errorf("%w: pkg-config finds no libdpdk (Debian has it in libdpdk-dev): %w", errLeftOut, err)
	}
	dir, err := os.MkdirTemp("", "tricolor-bench-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	source, program := filepath.Join(dir, "meter.c"), filepath.Join(dir, "meter")
	if err := os.WriteFile(source, dpdkSource, 0o600); err != nil {
		return nil, err
	}
	cc := exec.Command("cc", append([]string{"-O3", "-o", program, source}, strings.Fields(string(flags))...)...)
	if out, err := cc.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("%w: no C compiler: %w", errLeftOut, err)
		}
		return nil, fmt.Errorf("compile the DPDK meter: %w\n%s", err, out)
	}
	d := &dpdkMeter{cmd: exec.Command(program), dir: dir}
	d.cmd.Stderr = os.Stderr
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewScanner(out)
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if err := d.answer(&d.hz); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Close ends the program.
func (d *dpdkMeter) Close() error {
	return errors.Join(d.in.Close(), d.cmd.Wait(), os.RemoveAll(d.dir))
}

// answer reads one line of numbers.
func (d *dpdkMeter) answer(values ...any) error {
	if !d.out.Scan() {
		return fmt.Errorf("DPDK's meter ended: %w", errors.Join(d.out.Err(), io.ErrUnexpectedEOF))
	}
	if _, err := fmt.Sscan(d.out.Text(), values...); err != nil {
		return fmt.Errorf("DPDK's meter says %q: %w", d.out.Text(), err)
	}
	return nil
}

// stored asks what is kept of a rate.
func (d *dpdkMeter) stored(rate uint64) (kept, error) {
	if _, err := fmt.Fprintln(d.in, "rate", rate); err != nil {
		return kept{}, err
	}
	var period, bytes float64
	if err := d.answer(&period, &bytes); err != nil {
		if d.out.Text() == "refused" {
			return kept{refused: true}, nil
		}
		return kept{}, err
	}
	return kept{rate: bytes * d.hz / period}, nil
}

func dpdkRates(rates []uint64) (_ []peerRates, err error) {
	d, err := startDPDK()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	p := peerRates{name: "DPDK rte_meter"}
	for _, rate := range rates {
		k, err := d.stored(rate)
		if err != nil {
			return nil, err
		}
		p.kept = append(p.kept, k)
	}
	return []peerRates{p}, nil
}

// arrivals gives it the packets that it times.
func (d *dpdkMeter) arrivals(list *[4096]arrival) error {
	w := bufio.NewWriter(d.in)
	for _, a := range list {
		fmt.Fprintln(w, "arrival", a.gap, a.cost/marker.Nano)
	}
	return w.Flush()
}

// time is one round: ns a packet, and how many were not green.
func (d *dpdkMeter) time(params marker.Params, packets int) (ns float64, notGreen uint64, err error) {
	_, err = fmt.Fprintln(d.in, "time", params.Meter, packets, params.CIR, params.CBS, params.PIR+params.EIR, params.PBS+params.EBS)
	if err != nil {
		return 0, 0, err
	}
	err = d.answer(&ns, &notGreen)
	return ns, notGreen, err
}

// dpdkSection times each meter beside DPDK's, round by round.
func dpdkSection(t *table) (err error) {
	d, err := startDPDK()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	const packets = 4_000_000
	for _, m := range meters {
		if m.params.Meter == marker.Token {
			continue // DPDK has none
		}
		for _, mixed := range []bool{false, true} {
			if err := d.arrivals(arrivals(mixed)); err != nil {
				return err
			}
			var ours, theirs, ratio figure
			for range rounds {
				f, err := meter(m.params, mixed, 1, packets)
				if err != nil {
					return err
				}
				ns, notGreen, err := d.time(m.params, packets)
				if err != nil {
					return err
				}
				if (notGreen > 0) != mixed {
					return fmt.Errorf("the bench's packets have the wrong colours for DPDK: %d", notGreen)
				}
				ours, theirs, ratio = append(ours, f[0]), append(theirs, ns), append(ratio, 100*f[0]/ns)
			}
			name := m.name + map[bool]string{false: " green", true: " mixed colours"}[mixed]
			t.row(name+", ours in Go", ours, "ns", "")
			t.row("  DPDK's in C", theirs, "ns", "")
			t.row("  ours in parts of DPDK's", ratio, "%", "< 100")
		}
	}
	return nil
}
