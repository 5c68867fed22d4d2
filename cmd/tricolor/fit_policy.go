package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/marker"
	"github.com/tricolor-policer/tricolor/policy"
)

// fragment is a policy with what was found. It is one that check accepts.
func (f *fitter) fragment() (text string, err error) {
	if f.policy == "" {
		text = f.bare()
	} else if text, err = f.refitted(); err != nil {
		return "", fmt.Errorf("%s: %w", f.policy, err)
	}
	return text, nil
}

// profile is a target's profile in a policy, of which the name is free.
func (t *target) profile(taken []string) (name, value string) {
	name = t.class.Name
	if len(name)+4 <= marker.MaxName {
		name = "fit-" + name
	}
	for n := 2; slices.Contains(taken, name); n++ {
		name = fmt.Sprintf("fit-%d", n)
	}
	burst := units.FormatSize(t.cbs)
	if t.countsPackets() {
		burst = fmt.Sprintf("%d pkt", t.cbs)
	}
	compact := func(s string) string { return strings.ReplaceAll(s, " ", "") }
	return name, fmt.Sprintf("{ meter: token, cir: %s, cbs: %s }", compact(t.rate(t.chosen.Rate)), compact(burst))
}

// meters is the class's chain of the one profile.
func (t *target) meters(profile string) string {
	per := t.per
	if strings.Contains(per, ",") {
		per = strconv.Quote(per)
	}
	return fmt.Sprintf("[ { profile: %s, per: %s } ]", profile, per)
}

// bare is a policy of one class.
func (f *fitter) bare() string {
	t := f.study.targets[0]
	name, value := t.profile(nil)
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nprofiles:\n  %s: %s\nclasses:\n  - name: %s\n", name, value, policy.DefaultClass)
	if t.class.Count != marker.CountL3 {
		fmt.Fprintf(&b, "    count: %s\n", t.class.Count)
	}
	if t.class.Overhead != 0 {
		fmt.Fprintf(&b, "    overhead: %d\n", t.class.Overhead)
	}
	fmt.Fprintf(&b, "    meters: %s\n", t.meters(name))
	return b.String()
}

// refitted is the policy that was given, in which each class that was fitted has its new meter in place of its own.
func (f *fitter) refitted() (string, error) {
	text, err := os.ReadFile(f.policy)
	if err != nil {
		return "", err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return "", err
	}
	root := document.Content[0]
	profiles := valueOf(root, "profiles")
	var taken []string
	for i := 0; profiles != nil && i < len(profiles.Content); i += 2 {
		taken = append(taken, profiles.Content[i].Value)
	}
	for _, class := range valueOf(root, "classes").Content {
		t := f.study.target(valueOf(class, "name").Value)
		if t == nil || t.cbs == 0 {
			continue
		}
		name, value := t.profile(taken)
		taken = append(taken, name)
		if err := setValue(profiles, name, value); err != nil {
			return "", err
		}
		if err := setValue(class, "meters", t.meters(name)); err != nil {
			return "", err
		}
	}
	out, err := yaml.Dump(&document, yaml.WithIndent(2))
	return string(out), err
}

// target is the one of a class; nil where there is none.
func (s *study) target(class string) *target {
	for i, t := range s.targets {
		if t.class.Name == class && (s.only < 0 || s.only == i) {
			return t
		}
	}
	return nil
}

// valueOf is the value of a mapping's key; nil where there is none.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; mapping != nil && i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// setValue gives a mapping's key a value, as it is written.
func setValue(mapping *yaml.Node, key, value string) error {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(value), &document); err != nil {
		return err
	}
	fresh := document.Content[0]
	if old := valueOf(mapping, key); old != nil {
		*old = *fresh
		return nil
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, fresh)
	return nil
}
