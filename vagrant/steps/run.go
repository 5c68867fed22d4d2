package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// A Place is where the steps run.
type Place struct {
	Bin  string        // folder of the commands, and of each package's tests, PACKAGE.test
	Root string        // the module's root, for the tests' data
	Each time.Duration // bound of a step
	Env  []string      // KEY=value
	Out  io.Writer     // takes all that the steps print, and lines that begin with Mark about them
}

// Mark begins the lines that are about the steps, not of them.
const Mark = "vm: "

// A Result is what became of a step.
type Result struct {
	Step         Step
	Run, Skipped int // tests that hold no others; a command that ran is 1
	Took         time.Duration
	Err          error
}

// Run runs all steps, whatever becomes of each, and prints a table of them. It returns an error that names
// those that failed.
func (l *List) Run(p Place) (tests int, err error) {
	var results []Result
	var failed []string
	for _, step := range l.Steps {
		fmt.Fprintf(p.Out, "%s%s: started\n", Mark, step.Name)
		r := p.run(step, l.Allowed)
		results = append(results, r)
		tests += r.Run
		verdict := "ok"
		if r.Err != nil {
			failed = append(failed, step.Name)
			verdict = "FAILED: " + r.Err.Error()
		}
		fmt.Fprintf(p.Out, "%s%s: %d run, %d skipped, %.1f s: %s\n", Mark, step.Name, r.Run, r.Skipped, r.Took.Seconds(), verdict)
	}
	table(p.Out, results)
	if len(failed) > 0 {
		return tests, fmt.Errorf("%d of %d steps failed: %s", len(failed), len(l.Steps), strings.Join(failed, ", "))
	}
	return tests, nil
}

// run runs one step.
func (p Place) run(step Step, allowed []*regexp.Regexp) Result {
	ctx, cancel := context.WithTimeout(context.Background(), p.Each)
	defer cancel()
	c, err := p.command(ctx, step)
	if err != nil {
		return Result{Step: step, Err: err}
	}
	count := newTally()
	both := io.MultiWriter(p.Out, count)
	c.Stdout, c.Stderr = both, both
	start := time.Now()
	err = c.Run()
	r := Result{Step: step, Took: time.Since(start), Err: err}
	if ctx.Err() != nil {
		r.Err = fmt.Errorf("it did not end within %s", p.Each)
	}
	if step.Package == "" {
		if r.Err == nil && count.lines == 0 {
			r.Err = errors.New("it printed nothing")
		}
		if count.lines > 0 {
			r.Run = 1
		}
		return r
	}
	r.Run = len(count.leaves("PASS")) + len(count.leaves("FAIL"))
	r.Skipped = len(count.leaves("SKIP"))
	r.Err = errors.Join(r.Err, p.judge(step, count, allowed))
	return r
}

// judge says what is wrong with a step whose tests did end, and prints what they found and why some were skipped.
func (p Place) judge(step Step, count *tally, allowed []*regexp.Regexp) error {
	var wrong []string
	for _, figures := range count.figures {
		fmt.Fprintf(p.Out, "%s%s: %s\n", Mark, step.Name, figures)
	}
	if failed := count.leaves("FAIL"); len(failed) > 0 {
		wrong = append(wrong, fmt.Sprintf("%d tests failed: %s", len(failed), few(failed)))
	}
	reasons := count.skipped()
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		tests := reasons[reason]
		fmt.Fprintf(p.Out, "%s%s: skipped %d (%s): %s\n", Mark, step.Name, len(tests), few(tests), reason)
		if !slices.ContainsFunc(allowed, func(r *regexp.Regexp) bool { return r.MatchString(reason) }) {
			wrong = append(wrong, fmt.Sprintf("skipped, which is not allowed: %s: %s", few(tests), reason))
		}
	}
	if none := count.missing(step.Tests); len(none) > 0 {
		wrong = append(wrong, "ran no test of "+strings.Join(none, ", "))
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

// command returns what runs a step; at its bound it is ended, with all that it started.
func (p Place) command(ctx context.Context, step Step) (*exec.Cmd, error) {
	words := p.goTest
	if step.Package == "" {
		words = p.plain
	}
	name, args, err := words(step)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, filepath.Join(p.Bin, name), args...)
	c.Dir, c.Env = filepath.Join(p.Root, step.Package), p.Env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c, nil
}

// plain returns a command's program and arguments.
func (p Place) plain(step Step) (name string, args []string, err error) {
	args, err = expand(step.Args[1:], p.Root)
	return step.Args[0], args, err
}

// goTest returns a test binary and its arguments.
func (p Place) goTest(step Step) (name string, args []string, err error) {
	var patterns []string
	for _, text := range step.Tests {
		pattern, err := newPattern(text)
		if err != nil {
			return "", nil, err
		}
		patterns = append(patterns, pattern.String())
	}
	// It ends itself before its bound, to say where it was.
	args = []string{"-test.v", "-test.run=" + strings.Join(patterns, "|"), "-test.timeout=" + (p.Each * 9 / 10).String()}
	for _, flag := range step.Args {
		args = append(args, "-test."+flag)
	}
	return step.Package + ".test", args, nil
}

// expand replaces the arguments that are patterns by the files in dir that they match, and returns an error
// where there is none.
func expand(args []string, dir string) (all []string, err error) {
	for _, arg := range args {
		if !strings.ContainsAny(arg, "*?[") {
			all = append(all, arg)
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, arg))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arg, err)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("no file matches %s in %s", arg, dir)
		}
		all = append(all, files...)
	}
	return all, nil
}

// table prints the results, each line with its mark.
func table(out io.Writer, results []Result) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "step\trun\tskipped\tseconds\tresult\t")
	for _, r := range results {
		verdict := "ok"
		if r.Err != nil {
			verdict = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%s\t\n", r.Step.Name, r.Run, r.Skipped, r.Took.Seconds(), verdict)
	}
	w.Flush()
	for line := range strings.Lines(text.String()) {
		fmt.Fprint(out, Mark, line)
	}
}
