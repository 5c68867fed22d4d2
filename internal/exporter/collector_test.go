package exporter

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// policerOf is a policer of classes, each of which has a meter per flow.
func policerOf(t *testing.T, id identity, classes ...string) policer {
	t.Helper()
	g, err := marker.NewGeometry(1000, [marker.MaxChain]bool{true}, 8)
	if err != nil {
		t.Fatal(err)
	}
	plan := &marker.Plan{Generation: 3, Geometry: g}
	for _, name := range classes {
		plan.Classes = append(plan.Classes, marker.Class{Name: name, Meters: []marker.Meter{{Per: marker.PerFlow}}})
	}
	p := policer{identity: id, hook: "tcx", version: "1.2.3", object: "00ff", plan: plan}
	p.stats.Classes = make([]marker.ClassStats, len(classes))
	return p
}

// scrape gathers a snapshot as a scrape does, and returns the text.
func scrape(t *testing.T, s snapshot, log *slog.Logger) string {
	t.Helper()
	c := newCollector(log)
	c.read = func() snapshot { return s }
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("the scrape fails: %v", err)
	}
	var b strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func mustHave(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Logf("the scrape:\n%s", text)
	}
}

func TestCollect(t *testing.T) {
	p := policerOf(t, identity{"eth0", "ingress", ""}, "web", "rest")
	web := &p.stats.Classes[0]
	web.Packets = [marker.Colors]uint64{10, 20, 30}
	web.Bytes = [marker.Colors]uint64{1000, 2000, 1 << 53}
	web.Overflow, web.Contended, web.ClockBack = 4, 5, 6
	p.stats.Port = marker.PortStats{Unmatched: 11, NotIP: 12, Malformed: 13, LongChain: 14, Unread: 15}
	p.used = [marker.MaxChain]uint64{77, 99}
	p.since, p.unconfirmed = 1_700_000_000, 2500*1000*1000
	text := scrape(t, snapshot{policers: []policer{p}, states: map[loader.State]int{loader.Attached: 1, loader.Stale: 2}}, slog.New(slog.DiscardHandler))
	mustHave(t, text,
		`tricolor_packets_total{class="web",color="green",device="eth0",direction="ingress",netns=""} 10`,
		`tricolor_packets_total{class="web",color="red",device="eth0",direction="ingress",netns=""} 30`,
		`tricolor_packets_total{class="rest",color="red",device="eth0",direction="ingress",netns=""} 0`,
		`tricolor_bytes_total{class="web",color="yellow",device="eth0",direction="ingress",netns=""} 2000`,
		`tricolor_bytes_total{class="web",color="red",device="eth0",direction="ingress",netns=""} 9.007199254740992e+15`,
		`tricolor_overflow_packets_total{class="web",device="eth0",direction="ingress",netns=""} 4`,
		`tricolor_contended_packets_total{class="web",device="eth0",direction="ingress",netns=""} 5`,
		`tricolor_clock_back_total{class="web",device="eth0",direction="ingress",netns=""} 6`,
		`tricolor_unmatched_packets_total{device="eth0",direction="ingress",netns=""} 11`,
		`tricolor_not_ip_packets_total{device="eth0",direction="ingress",netns=""} 12`,
		`tricolor_malformed_packets_total{device="eth0",direction="ingress",netns=""} 13`,
		`tricolor_long_chain_packets_total{device="eth0",direction="ingress",netns=""} 14`,
		`tricolor_unread_packets_total{device="eth0",direction="ingress",netns=""} 15`,
		`tricolor_table_slots{device="eth0",direction="ingress",meter="1",netns=""} 1024`,
		`tricolor_table_used_slots{device="eth0",direction="ingress",meter="1",netns=""} 77`,
		`tricolor_policer_info{device="eth0",direction="ingress",hook="tcx",netns="",object_sha256="00ff",version="1.2.3"} 1`,
		`tricolor_attached_timestamp_seconds{device="eth0",direction="ingress",netns=""} 1.7e+09`,
		`tricolor_policy_generation{device="eth0",direction="ingress",netns=""} 3`,
		`tricolor_policy_classes{device="eth0",direction="ingress",netns=""} 2`,
		`tricolor_policy_unconfirmed_seconds{device="eth0",direction="ingress",netns=""} 2.5`,
		`tricolor_scrape_error{device="eth0",direction="ingress",netns=""} 0`,
		`tricolor_policers{state="attached"} 1`, `tricolor_policers{state="stale"} 2`, `tricolor_list_error 0`,
	)
	if strings.Contains(text, `meter="2"`) {
		t.Error("a chain position without keys has a table")
	}
}

// What cannot be read is told of, and hides nothing else.
func TestErrorsHideNothing(t *testing.T) {
	good := policerOf(t, identity{"eth0", "ingress", ""}, "web")
	broken := policer{identity: identity{"eth1", "egress", ""}, err: errors.New("torn to pieces")}
	s := snapshot{policers: []policer{broken, good}, err: errors.New("pins of somebody else")}
	var log bytes.Buffer
	text := scrape(t, s, slog.New(slog.NewTextHandler(&log, nil)))
	mustHave(t, text,
		`tricolor_scrape_error{device="eth1",direction="egress",netns=""} 1`,
		`tricolor_scrape_error{device="eth0",direction="ingress",netns=""} 0`,
		`tricolor_packets_total{class="web",color="green",device="eth0",direction="ingress",netns=""} 0`,
		`tricolor_list_error 1`,
	)
	if n := strings.Count(text, `device="eth1"`); n != 1 {
		t.Errorf("%d metrics of a policer that cannot be read, want the error alone", n)
	}
	for _, want := range []string{"pins of somebody else", "eth1 egress: torn to pieces"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, &log)
		}
	}
}

// The same errors on every scrape are said once, and their end.
func TestErrorsAreSaidOnce(t *testing.T) {
	var log bytes.Buffer
	c := newCollector(slog.New(slog.NewTextHandler(&log, nil)))
	for _, err := range []error{nil, errors.New("one"), errors.New("one"), errors.New("two"), nil, nil} {
		c.say(err)
	}
	if got := strings.Count(log.String(), "\n"); got != 3 || !strings.Contains(log.String(), "can be read again") {
		t.Errorf("%d lines, want 3:\n%s", got, &log)
	}
}

// In another network namespace two devices may have had the same name.
func TestTwins(t *testing.T) {
	twin := identity{"eth0", "ingress", "4026532000"}
	first, second := policerOf(t, twin, "web"), policerOf(t, twin, "web")
	first.stats.Port.NotIP = 1
	here := policerOf(t, identity{"eth0", "ingress", ""}, "web")
	s := snapshot{policers: []policer{first, second, here}}
	text := scrape(t, s, slog.New(slog.DiscardHandler))
	mustHave(t, text,
		`tricolor_not_ip_packets_total{device="eth0",direction="ingress",netns="4026532000"} 1`,
		`tricolor_not_ip_packets_total{device="eth0",direction="ingress",netns=""} 0`,
		`tricolor_list_error 1`,
	)
}

// Names of devices, classes and versions may hold anything.
func TestHostileNames(t *testing.T) {
	names := []string{"a\"b\\c\nd", "\xff\xfe", "ünïcödé", "\x00\x1b[2J", "} 1\nevil_metric 2", strings.Repeat("\xf0", 63)}
	p := policerOf(t, identity{labelValue("e\xffth{}"), "ingress", ""}, names...)
	p.version = labelValue("\xc3")
	text := scrape(t, snapshot{policers: []policer{p}}, slog.New(slog.DiscardHandler))
	if !utf8.ValidString(text) {
		t.Error("not UTF-8")
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "tricolor_") && !strings.HasPrefix(line, "# ") {
			t.Errorf("a line of its own: %q", line)
		}
	}
	decoded, err := expfmtParse(text)
	if err != nil {
		t.Fatal(err)
	}
	classes := map[string]bool{}
	for _, m := range decoded["tricolor_packets_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "class" {
				classes[l.GetValue()] = true
			}
		}
	}
	for _, name := range names {
		if !classes[labelValue(name)] {
			t.Errorf("no class %q among %v", labelValue(name), classes)
		}
	}
}

func TestLabelValue(t *testing.T) {
	for name, want := range map[string]string{"": "", "web": "web", "é\n": "é\n", "a\xffb\xc3": `a\xffb\xc3`, "\uFFFD": "\uFFFD", "\uFFFD\x80": "\uFFFD" + `\x80`} {
		if got := labelValue(name); got != want {
			t.Errorf("labelValue(%q) = %q, want %q", name, got, want)
		}
	}
}
