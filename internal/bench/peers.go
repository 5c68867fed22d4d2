package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"text/template"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// The peers are what else Linux has that polices each flow by itself, set up as their manuals do it.

// peerFlows is how many flows the peers' tables hold: as many as in the flood, and room.
func peerFlows(b bucketSize) uint64 { return max(1<<18, b.flows+b.flows/4) }

// nftRules police with nftables at the device's ingress hook, with one limit for each flow or one for all.
var nftRules = template.Must(template.New("nft").Parse(`
table netdev flood {
{{- if .PerFlow}}
	set flows {
		typeof ip saddr . udp sport
		flags dynamic,timeout
		timeout 10m
		size {{.Flows}}
	}
{{- end}}
	chain ingress {
		type filter hook ingress device "{{.Device}}" priority 0; policy accept;
		{{if .PerFlow}}update @flows { ip saddr . udp sport {{end -}}
		limit rate over {{.Rate}} bytes/second burst {{.Burst}} bytes {{- if .PerFlow}} }{{end}} drop
	}
}
`))

func nft(name string, perFlow bool) policer {
	return policer{name, func(h *netlab.Host, b bucketSize) (func() error, error) {
		var rules bytes.Buffer
		err := nftRules.Execute(&rules, map[string]any{
			"Device": h.Device, "PerFlow": perFlow, "Flows": peerFlows(b), "Rate": b.rate, "Burst": b.burst,
		})
		if err != nil {
			return nil, err
		}
		return nil, tool(h, rules.String(), "nft", "-f", "-")
	}}
}

// xtHashlimit polices with the match hashlimit in PREROUTING of the table raw, the first that takes a rule, set up
// by the given iptables: the kernel has two ways to walk its rules, and each has an iptables of its own.
func xtHashlimit(iptables string) policer {
	return policer{"hashlimit by " + iptables, func(h *netlab.Host, b bucketSize) (func() error, error) {
		return nil, tool(h, "", iptables, "--wait", "--table", "raw", "--append", "PREROUTING",
			"--in-interface", h.Device, "--protocol", "udp", "--match", "hashlimit", "--hashlimit-name", "flood",
			"--hashlimit-mode", "srcip,srcport",
			"--hashlimit-above", strconv.FormatUint(b.rate, 10)+"b/s",
			"--hashlimit-burst", strconv.FormatUint(b.burst, 10)+"b",
			"--hashlimit-htable-size", strconv.FormatUint(peerFlows(b)/4, 10),
			"--hashlimit-htable-max", strconv.FormatUint(peerFlows(b), 10),
			"--hashlimit-htable-expire", "600000", // ms
			"--jump", "DROP")
	}}
}

var (
	nftSet          = nft("nft, a set of flows", true)
	nftSingle       = nft("nft, one limit for all", false)
	hashlimit       = xtHashlimit("iptables") // Debian's is iptables-nft
	hashlimitLegacy = xtHashlimit("iptables-legacy")

	peers = []policer{nftSet, nftSingle, hashlimit, hashlimitLegacy}
)

// errNoPeer is wrapped where a peer is not on this machine, or its kernel lacks it.
var errNoPeer = errors.New("not there")

// tool runs a program in the host's namespace.
func tool(h *netlab.Host, input string, name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoPeer, err)
	}
	return h.Do(func() error {
		var said bytes.Buffer
		c := exec.Command(path, args...) // #nosec G204 -- the bench's own tools and arguments
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &said, &said
		if err := c.Run(); err != nil {
			return fmt.Errorf("%w: %s: %w: %s", errNoPeer, name, err, bytes.TrimSpace(said.Bytes()))
		}
		return nil
	})
}
