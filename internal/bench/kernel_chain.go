package main

import "fmt"

// chainSlots are enough for one flow.
const chainSlots = 1 << 16

// chainOf is a policy of one class, with a chain of meters of whose buckets the packets are.
func chainOf(per ...string) string {
	text := fmt.Sprintf("version: 1\nflows: %d\nprofiles:\n", chainSlots)
	meters := ""
	for i, p := range per {
		text += fmt.Sprintf("  p%d: { %s }\n", i, profileGreen)
		meters += fmt.Sprintf("{ profile: p%d, per: %q }, ", i, p)
	}
	return text + "classes:\n  - { name: all, meters: [ " + meters + "] }\n"
}

// chainSection adds one thing after the other to a hot flow's one bucket, to see what a chain costs.
func chainSection(t *table) error {
	steps := []struct{ name, text string }{
		{"the empty program itself", ""},
		{"one bucket: flow", chainOf("flow")},
		{"one bucket: interface (reserved, no hash)", chainOf("interface")},
		{"two: flow, interface", chainOf("flow", "interface")},
		{"two: flow, src/24", chainOf("flow", "src/24,56")},
		{"three: flow, class, interface", chainOf("flow", "class", "interface")},
		{"three: flow, src/24, interface", chainOf("flow", "src/24,56", "interface")},
		{"three: flow, src/24, src/16", chainOf("flow", "src/24,56", "src/16,48")},
		{"the three, last of 10 classes", threeBuckets(chainSlots, profileGreen)},
	}
	var texts []string
	for _, s := range steps {
		texts = append(texts, s.text)
	}
	arms, closeAll, err := armsOf(udp4(1), texts...)
	if err != nil {
		return err
	}
	defer closeAll()
	if err := timeArms(arms, rounds, 300_000); err != nil {
		return err
	}
	for i, a := range arms {
		if i == 0 {
			t.row(steps[i].name, a.times, "ns", "")
			continue
		}
		t.row("  "+steps[i].name, a.over(arms[0]), "ns", "")
	}
	return nil
}
