// Package exporter tells Prometheus what policers did. It reads them when it is asked, and keeps nothing: devices
// come and go between two scrapes. Its labels are devices, directions, classes and colours, never a flow.
package exporter

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

const namespace = "tricolor"

// The labels of every metric of a policer. netns is empty in the exporter's own network namespace: to Prometheus that
// is no label at all.
var identityLabels = []string{"device", "direction", "netns"}

// describe describes a metric of policers.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, append(identityLabels[:len(identityLabels):len(identityLabels)], labels...), nil)
}

var (
	packetsDesc = describe("packets_total", "Packets on the wire, by class and the colour they got.", "class", "color")
	bytesDesc   = describe("bytes_total", "Bytes that those packets cost, as their class counts them.", "class", "color")

	slotsDesc = describe("table_slots", "Bucket slots that a meter's keys share, by its position in the chain.", "meter")
	usedDesc  = describe("table_used_slots", "Those of them that hold a bucket.", "meter")

	infoDesc = describe("policer_info", "Always 1: the hook, the version of tricolor that attached or upgraded it, and the SHA-256 of the kernel program.",
		"hook", "version", "object_sha256")
	sinceDesc       = describe("attached_timestamp_seconds", "When the policer was attached, since 1970.")
	generationDesc  = describe("policy_generation", "Number of the policy in force: each change has a greater one.")
	classesDesc     = describe("policy_classes", "Classes of the policy in force.")
	unconfirmedDesc = describe("policy_unconfirmed_seconds", "How long the policy is in force unless it is confirmed; 0: for good.")

	errorDesc     = describe("scrape_error", "1 where the policer could not be read: then it has no other metrics.")
	policersDesc  = prometheus.NewDesc(namespace+"_policers", "Policers by state. Of stale ones, which no packet meets, there are no other metrics.", []string{"state"}, nil)
	listErrorDesc = prometheus.NewDesc(namespace+"_list_error", "1 where a policer has no metrics at all: it could not be opened, or its labels are those of another.", nil, nil)
)

// classCounters are the counters of a class beside its colours.
var classCounters = []struct {
	desc *prometheus.Desc
	of   func(*marker.ClassStats) uint64
}{
	{describe("overflow_packets_total", "Packets metered in the overflow bucket: the table was full.", "class"), func(c *marker.ClassStats) uint64 { return c.Overflow }},
	{describe("contended_packets_total", "Packets red since another CPU held their bucket too long.", "class"), func(c *marker.ClassStats) uint64 { return c.Contended }},
	{describe("clock_back_total", "Times that a bucket saw a time before its last, and earned nothing.", "class"), func(c *marker.ClassStats) uint64 { return c.ClockBack }},
}

// portCounters are the counters of packets that no class saw, and of those hard to read.
var portCounters = []struct {
	desc *prometheus.Desc
	of   func(*marker.PortStats) uint64
}{
	{describe("unmatched_packets_total", "IP packets of no class: let through."), func(p *marker.PortStats) uint64 { return p.Unmatched }},
	{describe("not_ip_packets_total", "Packets that are not IP: let through."), func(p *marker.PortStats) uint64 { return p.NotIP }},
	{describe("malformed_packets_total", "Packets whose lengths contradict each other, or whose headers are cut short."), func(p *marker.PortStats) uint64 { return p.Malformed }},
	{describe("long_chain_packets_total", "IPv6 packets with more extension headers than are walked: policed without ports."), func(p *marker.PortStats) uint64 { return p.LongChain }},
	{describe("unread_packets_total", "Packets dropped since their headers could not be read, for want of memory."), func(p *marker.PortStats) uint64 { return p.Unread }},
}

// collector reads all policers on every scrape.
type collector struct {
	read func() snapshot
	log  *slog.Logger

	mutex sync.Mutex
	said  string // the errors last logged: they are said once, not on every scrape
}

func newCollector(log *slog.Logger) *collector { return &collector{read: read, log: log} }

// Describe implements prometheus.Collector.
func (*collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		packetsDesc, bytesDesc, slotsDesc, usedDesc, infoDesc, sinceDesc, generationDesc, classesDesc, unconfirmedDesc,
		errorDesc, policersDesc, listErrorDesc,
	} {
		to <- d
	}
	for _, c := range classCounters {
		to <- c.desc
	}
	for _, c := range portCounters {
		to <- c.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.read()
	s.tellApart()
	s.collect(to)
	c.say(s.errors())
}

// say logs errors, where they are not those of the scrape before.
func (c *collector) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case text == c.said:
	case err != nil:
		c.log.Warn("policers cannot be read", "error", text)
	default:
		c.log.Info("all policers can be read again")
	}
	c.said = text
}

// errors joins all that could not be read.
func (s *snapshot) errors() error {
	err := s.err
	for i := range s.policers {
		if p := &s.policers[i]; p.err != nil {
			err = errors.Join(err, fmt.Errorf("%v: %w", p.identity, p.err))
		}
	}
	return err
}

func (s *snapshot) collect(to chan<- prometheus.Metric) {
	for _, state := range []loader.State{loader.Attached, loader.Stale, loader.Unseen, loader.Moved} {
		to <- gauge(policersDesc, float64(s.states[state]), state.String())
	}
	failed := 0.0
	if s.err != nil {
		failed = 1
	}
	to <- gauge(listErrorDesc, failed)
	for i := range s.policers {
		s.policers[i].collect(to)
	}
}

func (p *policer) collect(to chan<- prometheus.Metric) {
	labels := []string{p.device, p.direction, p.netns}
	of := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, more ...string) {
		to <- prometheus.MustNewConstMetric(desc, kind, value, append(labels[:len(labels):len(labels)], more...)...)
	}
	count := func(desc *prometheus.Desc, value uint64, more ...string) {
		of(desc, prometheus.CounterValue, float64(value), more...)
	}
	state := func(desc *prometheus.Desc, value float64, more ...string) {
		of(desc, prometheus.GaugeValue, value, more...)
	}
	if p.err != nil {
		state(errorDesc, 1)
		return
	}
	state(errorDesc, 0)
	state(infoDesc, 1, p.hook, p.version, p.object)
	state(sinceDesc, float64(p.since))
	state(generationDesc, float64(p.plan.Generation))
	state(classesDesc, float64(len(p.plan.Classes)))
	state(unconfirmedDesc, p.unconfirmed.Seconds())
	for i := range p.stats.Classes {
		class, stats := labelValue(p.plan.Classes[i].Name), &p.stats.Classes[i]
		for color := range marker.Colors {
			word := color.String()
			count(packetsDesc, stats.Packets[color], class, word)
			count(bytesDesc, stats.Bytes[color], class, word)
		}
		for _, c := range classCounters {
			count(c.desc, c.of(stats), class)
		}
	}
	for _, c := range portCounters {
		count(c.desc, c.of(&p.stats.Port))
	}
	for position := range keyed(p.plan) {
		meter := strconv.Itoa(position + 1)
		state(slotsDesc, float64((uint64(p.plan.Geometry.Stages[position].Mask)+1)*marker.SetSlots), meter)
		state(usedDesc, float64(p.used[position]), meter)
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}
