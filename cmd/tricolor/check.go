package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// etherMTU is the MTU of an Ethernet where nobody changed it.
const etherMTU = 1500

func newCheck() *cobra.Command {
	c := checker{mtu: etherMTU}
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Check a policy file and say what it promises (no root)",
		Long: `Check reads a policy file, and the files of prefixes that it names, and prints ok and each class's contract
in eight lines that a customer could sign; or everything that is wrong, each with file:line:column, the
line, and what would be right (exit code 2). What is legal and yet hardly meant is warned of.`,
		Example: "  tricolor check -f policy.yaml --speed 1gbit\n  tricolor check --schema > policy.schema.json",
		Args:    needNothing,
	}
	cmd.Flags().StringVarP(&c.file, "file", "f", "", "policy `FILE` to check")
	cmd.Flags().StringVar(&c.speed, "speed", "", "warn of rates over this `RATE` of the link, such as 1gbit")
	cmd.Flags().Var(&c.mtu, "mtu", "warn of bursts below a packet of `N` bytes of IP; 0: do not")
	cmd.Flags().BoolVar(&c.schema, "schema", false, "print the JSON Schema of policy files, for editors, and check nothing")
	output := addOutput(cmd, "text", "json")
	cmd.Flags().SortFlags = false
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c.json, c.stdout, c.stderr = output.word == "json", cmd.OutOrStdout(), cmd.ErrOrStderr()
		return c.run()
	}
	return cmd
}

// checker is the check command.
type checker struct {
	file, speed    string
	mtu            plain
	schema, json   bool
	stdout, stderr io.Writer
}

func (c *checker) run() error {
	if c.schema {
		_, err := c.stdout.Write(policy.Schema)
		return err
	}
	if c.file == "" {
		return usage("name a policy with -f FILE; \"tricolor check --help\" says more")
	}
	link := policy.Link{MTU: int(min(c.mtu, 1<<31-1))}
	if c.speed != "" {
		speed, err := units.ParseRate(c.speed)
		if err != nil {
			return usage("--speed: %w", err)
		}
		if speed.Packets {
			return usage("--speed: %q is a rate in packets: write it in bits, such as 1gbit", c.speed)
		}
		link.Speed = speed.PerSecond
	}
	p, plan, err := compileFile(c.file)
	switch {
	case err != nil && c.json:
		if failed := printJSON(c.stdout, refusedOf(c.file, err)); failed != nil {
			return failed
		}
		return &usageError{errReported}
	case err != nil:
		return err
	case c.json:
		return printJSON(c.stdout, checkedOf(c.file, p, plan, link))
	}
	for _, w := range p.Warn(link) {
		warn(c.stderr, "%s", printable(w.String()))
	}
	return c.print(p, plan)
}

// compileFile reads a policy file and compiles it. Its error wraps policy.ErrPolicy.
func compileFile(path string) (*policy.Policy, *marker.Plan, error) {
	p, err := policy.Load(path)
	if err != nil {
		return nil, nil, err
	}
	plan, err := p.Compile()
	return p, plan, err
}

func (c *checker) print(p *policy.Policy, plan *marker.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ok: %s, %s, %s; %s bucket slots, %s\n", printable(c.file), plural(uint64(len(p.Classes)), "class", "classes"),
		plural(uint64(len(p.Profiles)), "profile", "profiles"), plural(uint64(len(plan.Rules)), "rule", "rules"),
		units.FormatCount(plan.Geometry.Flows()), units.FormatBytes(plan.Geometry.Bytes()))
	for i := range p.Classes {
		fmt.Fprintf(&b, "\nclass %s\n", printable(p.Classes[i].Name))
		for _, line := range policy.Contract(p, p.Classes[i].Name) {
			fmt.Fprintf(&b, "  %s\n", printable(line))
		}
	}
	_, err := io.WriteString(c.stdout, b.String())
	return err
}

// checkedJSON is a policy that is taken.
type checkedJSON struct {
	File     string         `json:"file"`
	OK       bool           `json:"ok"`
	Rules    int            `json:"rules"`
	Slots    uint64         `json:"slots"`
	Memory   uint64         `json:"memory_bytes"`
	Classes  []contractJSON `json:"classes"`
	Warnings []placedJSON   `json:"warnings"`
}

type contractJSON struct {
	Name     string   `json:"name"`
	Contract []string `json:"contract"`
}

// refusedJSON is one that is not.
type refusedJSON struct {
	File   string       `json:"file"`
	OK     bool         `json:"ok"`
	Errors []placedJSON `json:"errors"`
}

// placedJSON is something said of a place in a file.
type placedJSON struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Part   string `json:"part,omitempty"`
	Field  string `json:"field,omitempty"`
	Text   string `json:"text"`
}

func placedOf(place policy.Place, part, field, text string) placedJSON {
	return placedJSON{place.File, place.Line, place.Column, part, field, text}
}

func checkedOf(file string, p *policy.Policy, plan *marker.Plan, link policy.Link) *checkedJSON {
	out := &checkedJSON{
		File: file, OK: true, Rules: len(plan.Rules), Slots: plan.Geometry.Flows(), Memory: plan.Geometry.Bytes(),
		Classes: []contractJSON{}, Warnings: []placedJSON{},
	}
	for i := range p.Classes {
		name := p.Classes[i].Name
		out.Classes = append(out.Classes, contractJSON{name, policy.Contract(p, name)})
	}
	for _, w := range p.Warn(link) {
		out.Warnings = append(out.Warnings, placedOf(w.Place, w.Part, "", w.Text))
	}
	return out
}

func refusedOf(file string, err error) *refusedJSON {
	out := &refusedJSON{File: file, Errors: []placedJSON{}}
	for _, f := range policy.Faults(err) {
		out.Errors = append(out.Errors, placedOf(f.Place, f.Part, f.Field, f.Text))
	}
	return out
}
