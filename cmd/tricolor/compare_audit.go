package main

import (
	"fmt"
	"io"

	"github.com/tricolor-policer/tricolor/contract"
	"github.com/tricolor-policer/tricolor/internal/units"
)

// runAudit checks the algorithms. Its arrivals and contracts are its own.
func (c *comparer) runAudit(files []string) error {
	if len(files) > 0 {
		return usage("--audit makes its own arrivals: leave out %s", files[0])
	}
	for _, flag := range []string{"scenario", "rate", "burst", "window", "queue", "per", "flows", "plot"} {
		if c.changed(flag) {
			return usage("--audit has its own cases: leave out --%s", flag)
		}
	}
	a, err := contract.RunAudit()
	if err != nil {
		return err
	}
	if c.output.word == "json" {
		err = printJSON(c.stdout, auditOf(a))
	} else {
		err = printAudit(c.stdout, a)
	}
	return verdictOf(a, err)
}

// verdictOf is the error of an audit in which something failed, of which all was said.
func verdictOf(a *contract.Audit, err error) error {
	if err == nil && !a.OK() {
		return errReported
	}
	return err
}

// printAudit prints how many cases passed each check, the first fault of each, and the sum.
func printAudit(w io.Writer, a *contract.Audit) error {
	t := newNumbers(w)
	t.named("check", "passed")
	for check := range contract.Checks {
		t.named(check.String(), fmt.Sprintf("%d/%d", a.Passed[check], a.Cases))
	}
	if err := t.flush(); err != nil {
		return err
	}
	var said [contract.Checks]bool
	for _, f := range a.Faults {
		if !said[f.Check] {
			said[f.Check] = true
			fmt.Fprintf(w, "  failed: %s (%v): %s\n", f.Check, f.Case, f.What)
		}
	}
	_, err := fmt.Fprintf(w, "cases %s/%s, checks %s/%s\n", units.FormatCount(uint64(a.CasesPassed)), units.FormatCount(uint64(a.Cases)),
		units.FormatCount(uint64(a.ChecksPassed())), units.FormatCount(uint64(a.ChecksRun())))
	return err
}

// auditJSON is what --audit prints with -o json.
type auditJSON struct {
	Cases        int              `json:"cases"`
	CasesPassed  int              `json:"cases_passed"`
	Checks       int              `json:"checks"`
	ChecksPassed int              `json:"checks_passed"`
	ByCheck      []auditCheckJSON `json:"by_check"`
	Faults       []auditFaultJSON `json:"faults"`
}

type auditCheckJSON struct {
	Check  string `json:"check"`
	Passed int    `json:"passed_cases"`
}

type auditFaultJSON struct {
	Check string `json:"check"`
	Case  string `json:"case"`
	What  string `json:"what"`
}

func auditOf(a *contract.Audit) auditJSON {
	out := auditJSON{
		Cases: a.Cases, CasesPassed: a.CasesPassed, Checks: a.ChecksRun(), ChecksPassed: a.ChecksPassed(), Faults: []auditFaultJSON{},
	}
	for check := range contract.Checks {
		out.ByCheck = append(out.ByCheck, auditCheckJSON{check.String(), a.Passed[check]})
	}
	for _, f := range a.Faults {
		out.Faults = append(out.Faults, auditFaultJSON{f.Check.String(), f.Case.String(), f.What})
	}
	return out
}
