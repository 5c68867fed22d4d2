package policy

import (
	"fmt"
	"strings"
	"testing"
)

// seen marks refusals that an editor with the schema sees too.
const seen, unseen = true, false

// Every refusal of a file: where, and in what words.
func TestParseRefused(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		schema bool
		want   []string
	}{
		"empty":         {"", unseen, []string{"1:1: the file is empty: write version: 1, profiles and classes"}},
		"comments only": {"# nothing\n", unseen, []string{"1:1: the file is empty: …"}},
		"a list":        {"- 1\n", seen, []string{"1:1: the policy is a list: write keys with values (version, flows, malformed, profiles, classes)"}},
		"a word":        {"hello\n", seen, []string{`1:1: the policy is "hello": …`}},
		"no YAML":       {"version: [1\n", unseen, []string{"1:12: this is no YAML: did not find expected ',' or ']' (while parsing a flow sequence that begins in line 1)"}},
		"a tab":         {"version: 1\nprofiles:\n\tp: 1\n", unseen, []string{"3:1: this is no YAML: found character that cannot start any token …"}},
		"no UTF-8":      {"version: 1 # \xff\n", unseen, []string{"1:14: byte 0xff is no text: a policy is written in UTF-8"}},
		"an escape":     {"version: 1 # \x1b[2J\n", unseen, []string{"1:14: byte 0x1b is no text: …"}},
		"two documents": {one("") + "---\nversion: 1\n", unseen, []string{"8:1: a second document begins: a file holds one policy"}},
		"deep":          {"version: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), unseen, []string{"1:26: this nests too deep: a policy needs no more than 16 levels"}},
		"anchor":        {one("    green: &a pass\n    yellow: *a\n"), unseen, []string{"8:12: class c: anchors (&) and aliases (*) are not taken: write it out, or share a profile by its name", "9:13: class c: anchors (&) …"}},
		"tag":           {one("    count: !!str l2\n"), unseen, []string{"8:12: class c: tags (!) are not taken: leave it out"}},
		"merge":         {one("    <<: { count: l2 }\n"), seen, []string{`8:5: class c: "<<" is no key of a class: say one of name, match, …`}},
		"nothing but a version": {"version: 1\n", seen, []string{
			"1:1: profiles: none are given: define one, such as gold: { meter: token, cir: 10mbit, cbs: 10ms }",
			"1:1: classes: none are given: list one, such as - { name: all, meters: [ { profile: gold, per: flow } ] }",
		}},
		"no version":       {strings.TrimPrefix(one(""), "version: 1\n"), seen, []string{"1:1: version: none is given: write version: 1"}},
		"version 2":        {strings.Replace(one(""), "1", "2", 1), seen, []string{`1:10: version: "2" is no version that this program reads: write version: 1`}},
		"version 01":       {strings.Replace(one(""), "1", "01", 1), unseen, []string{`1:10: version: "01" is no version …`}},
		"version in words": {strings.Replace(one(""), "1", `"1"`, 1), seen, []string{`1:10: version: "1" is no version …`}},
		"unknown key":      {one("") + "flowz: 1\n", seen, []string{`8:1: "flowz" is no key of the policy: did you mean flows?`}},
		"unknown keys everywhere": {
			strings.Replace(one("    matches: { src: 10.0.0.0/8 }\n    match: { sorce: 1 }\n    red: { dcsp: 1 }\n"), "per: flow", "each: flow", 1), seen,
			[]string{
				`7:29: class c: "each" is no key of a meter: say one of profile, per`,
				`8:5: class c: "matches" is no key of a class: did you mean match?`,
				`9:14: class c: "sorce" is no key of match: did you mean src?`,
				`10:12: class c: "dcsp" is no key of red: did you mean dscp?`,
			},
		},
		"unknown parameter": {strings.Replace(one(""), "cir", "cri", 1), seen, []string{`3:22: profile p: "cri" is no key of a profile: did you mean cir?`}},
		"unknown keys for all that is needed": {strings.NewReplacer("version", "verson", "name", "nam", "profile: p", "profil: p", "meter: token", "metre: token").Replace(one("")), seen, []string{
			`1:1: "verson" is no key of the policy: did you mean version?`, `3:8: profile p: "metre" is no key of a profile: did you mean meter?`,
			`4:8: profile q: "metre" is no key of a profile: did you mean meter?`, `6:5: class 1: "nam" is no key of a class: did you mean name?`,
			`7:17: class 1: "profil" is no key of a meter: did you mean profile?`,
		}},
		"unknown key for meters": {strings.Replace(one(""), "    meters", "    meter", 1), seen, []string{`7:5: class c: "meter" is no key of a class: did you mean meters?`}},
		"a key twice":            {one("    count: l2\n    count: l1\n"), unseen, []string{`9:5: class c: "count" stands twice, first in line 8: keep one`}},
		"a profile twice":        {strings.Replace(one(""), "  q:", "  p:", 1), unseen, []string{`4:3: "p" stands twice, first in line 3: keep one`}},
		"a class twice":          {one("") + "  - name: c\n" + meters, unseen, []string{"8:5: class c: name: the name is taken: every class needs its own"}},
		"no name":                {head + "  - count: l3\n" + meters, seen, []string{"6:5: class 1: name: none is given: every class needs a name of its own"}},
		"a name of two words":    {head + "  - name: my class\n" + meters, seen, []string{`6:11: class 1: name: "my class" is no name: …`}},
		"a name of YAML's":       {head + "  - name: true\n" + meters, seen, []string{`6:11: class true: name: true is no text for YAML: put it in quotes`}},
		"a long name":            {head + "  - name: " + strings.Repeat("x", 64) + "\n" + meters, seen, []string{`6:11: class 1: name: "xxxxx…`}},
		"a profile's name":       {strings.Replace(one(""), "  q:", "  -q:", 1), seen, []string{`4:3: "-q" is no name: …`}},
		"undefined profile":      {strings.Replace(one(""), "profile: p", "profile: gold", 1), unseen, []string{`7:26: class c: profile: "gold" is not defined: say one of p, q`}},
		"nearly a profile": {
			"version: 1\nprofiles: { bronze: { meter: token, cir: 1mbit, cbs: 1ms } }\nclasses: [ { name: c, meters: [ { profile: brons } ] } ]\n", unseen,
			[]string{`3:44: class c: profile: "brons" is not defined: did you mean bronze?`},
		},
		"no profile":              {strings.Replace(one(""), "profile: p, ", "", 1), seen, []string{"7:15: class c: profile: none is given: name one of the profiles"}},
		"empty profiles":          {"version: 1\nprofiles: {}\nclasses: []\n", seen, []string{"2:11: profiles is empty: write keys with values, or leave it out", "3:10: classes is an empty list: leave it out, or list something"}},
		"classes of a mapping":    {strings.Replace(one(""), "  - name: c\n", "    name: c\n", 1), seen, []string{"6:5: classes is keys with values: write a list, a class each: - name: voice"}},
		"a class of a word":       {head + "  - c\n", seen, []string{`6:5: class 1: a class is "c": write keys with values (name, match, …`}},
		"no meters":               {head + "  - name: c\n", seen, []string{"6:5: class c: meters: a class needs a meter: …"}},
		"empty meters":            {head + "  - name: c\n    meters: []\n", seen, []string{"7:13: class c: meters is an empty list: …"}},
		"meters without a list":   {head + "  - name: c\n    meters: { profile: p }\n", seen, []string{"7:13: class c: meters is keys with values: write a list: …"}},
		"four meters":             {head + "  - name: c\n    meters: [" + strings.Repeat("{ profile: p, per: class }, ", 4) + "]\n", seen, []string{"7:5: class c: meters: too many: a chain has at most 3, narrow to wide"}},
		"a comma without quotes":  {strings.Replace(one(""), "per: flow", "per: src/24,56", 1), seen, []string{`7:34: class c: per: "src/24" needs two prefix lengths, of IPv4 and of IPv6: such as src/24,56`, `7:41: class c: "56" is no key of a meter: a value with a comma stands in quotes, such as per: "src/24,56"`}},
		"nothing for a value":     {one("    count:\n    match:\n"), seen, []string{"8:11: class c: count is nothing: write one value", "9:11: class c: match is nothing: write keys with values (src, dst, …"}},
		"empty match":             {one("    match: {}\n"), seen, []string{"8:12: class c: match is empty: write keys with values, or leave it out"}},
		"empty lists":             {one("    match: { src: [], dport: [] }\n"), seen, []string{"8:19: class c: src is an empty list: …", "8:30: class c: dport is an empty list: …"}},
		"lists of lists":          {one("    match: { dport: [[1]] }\n    count: [l2]\n"), seen, []string{"8:22: class c: dport is a list: write one value", "9:12: class c: count is a list: write one value"}},
		"a key that is a mapping": {one("    { a: b }: c\n"), unseen, []string{"8:5: class c: a key is one word, not keys with values"}},
		"numbers without a unit": {
			strings.NewReplacer("cir: 10mbit", "cir: 10", "cbs: 10ms", "cbs: 1500").Replace(one("")), seen,
			[]string{"3:27: profile p: cir: \"10\" is unclear: write 10bit (bits per second) or 10B/s (bytes per second)", "3:36: profile p: cbs: \"1500\" is unclear: write 1500B (bytes) or 1500pkt (packets)"},
		},
		"octal rate":  {strings.Replace(one(""), "10mbit", "010mbit", 1), seen, []string{`3:27: profile p: cir: "010mbit" is unclear: write 10mbit or 8mbit (octal)`}},
		"octal port":  {one("    match: { dport: 010 }\n"), unseen, []string{`8:21: class c: dport: "010" is unclear: write 10 or 8 (octal)`}},
		"octal flows": {one("") + "flows: 010\n", unseen, []string{`8:8: flows: "010" is unclear: write 10 or 8 (octal)`}},
		"flows with a unit": {one("") + "flows: 1MB\n", seen, []string{
			`8:8: flows: "1MB" has the unit "MB": a count is a plain number, or one with k (1000) or M (1000000)`,
		}},
		"too many flows": {one("") + "flows: 100M\n", unseen, []string{"8:8: flows: 100000000 bucket slots are too many: …"}},
		"malformed":      {one("") + "malformed: mark\n", seen, []string{`8:12: malformed: "mark" is no verb for malformed packets: say drop or pass`}},
		"SPEC's own refusals, at the parameters": {
			strings.NewReplacer("p: { meter: token, cir: 10mbit, cbs: 10ms }", "p: { meter: trtcm, cir: 2mbit, cbs: 0B, pir: 1mbit, pbs: 2kB, ebs: 1kB }").Replace(one("")), unseen,
			[]string{
				"3:39: profile p: cbs: must be larger than 0 (RFC 2698 section 2)",
				"3:48: profile p: pir: 125000 B/s is below cir (250000 B/s): …",
				"3:70: profile p: ebs: trtcm has no such parameter: leave it out (RFC 2698 section 2)",
			},
		},
		"a parameter left out":         {strings.Replace(one(""), ", cbs: 10ms", "", 1), seen, []string{"3:3: profile p: cbs: a burst is needed: with 0 every packet is red …"}},
		"no meter":                     {strings.Replace(one(""), "meter: token, ", "", 1), seen, []string{"3:3: profile p: meter: none is given: …"}},
		"a profile of a word":          {strings.Replace(one(""), "{ meter: token, cir: 10mbit, cbs: 10ms }", "gold", 1), seen, []string{`3:6: profile p: a profile is "gold": write keys with values (meter, …`}},
		"coupling in words":            {strings.Replace(one(""), "cbs: 10ms", `cbs: 10ms, coupling: "yes"`, 1), seen, []string{`3:56: profile p: coupling: "yes" is neither true nor false: say one of them, without quotes`}},
		"a time at no rate":            {strings.Replace(one(""), "meter: token, cir: 10mbit, cbs: 10ms", "meter: rfc4115, cir: 1mbit, cbs: 10ms, ebs: 10ms, coupling: true", 1), unseen, []string{`3:52: profile p: ebs: "10ms" is a time at eir, which is 0: …`}},
		"two units in a profile":       {strings.Replace(one(""), "cbs: 10ms", "cbs: 10pkt", 1), unseen, []string{`3:40: profile p: cbs: "10pkt" is a size in packets, while cir is in bytes: write it in B, kB, KiB, MiB or a time at the rate, such as 10ms, or give every rate in pps, kpps or mpps`}},
		"a profile of the other unit":  {strings.Replace(one(""), "profile: p", "profile: q", 1), unseen, []string{"7:15: class c: count: l3 does not fit profile q, which is written in packets"}},
		"a count of the other unit":    {one("    count: packets\n"), unseen, []string{"8:5: class c: count: packets does not fit profile p, which is written in bytes"}},
		"a unit that is not known yet": {strings.Replace(one("    count: packets\n"), "10mbit", "10", 1), seen, []string{`3:27: profile p: cir: "10" is unclear: …`}},
		"count":                        {one("    count: l4\n"), seen, []string{`8:12: class c: count: "l4" is no unit to count: …`}},
		"overhead":                     {one("    overhead: 65536\n"), seen, []string{"8:5: class c: overhead: +65536 is out of range: from -65535 to +65535"}},
		"overhead with a unit":         {one("    overhead: 4B\n"), seen, []string{`8:15: class c: overhead: "4B" is no overhead: …`}},
		"per":                          {strings.Replace(one(""), "per: flow", "per: host", 1), seen, []string{`7:34: class c: per: "host" shares no bucket: …`}},
		"host bits":                    {one("    match: { src: 10.0.0.1/8 }\n"), unseen, []string{`8:19: class c: src: "10.0.0.1/8" is unclear: write 10.0.0.0/8 (the prefix) or 10.0.0.1 (the address)`}},
		"no prefix":                    {one("    match: { src: [10.0.0.0/33, example.net] }\n"), unseen, []string{`8:20: class c: src: "10.0.0.0/33" is no prefix: …`, `8:33: class c: src: "example.net" is no prefix: …`}},
		"a file in a list":             {one("    match: { src: [\"@a.csv\"] }\n"), seen, []string{`8:20: class c: src: "@a.csv" names a file of prefixes: it stands alone, not in a list`}},
		"no such file":                 {one("    match: { src: \"@a.csv\" }\n"), unseen, []string{`8:19: class c: src: the file "a.csv" cannot be read: file does not exist`}},
		"ports":                        {one("    match: { sport: 65536, dport: [80-79, http] }\n"), seen, []string{"8:21: class c: sport: 65536 is out of range: a port is from 0 to 65535", `8:36: class c: dport: "80-79" ends before it begins: write 79-80`, `8:43: class c: dport: "http" is no port: write a whole number from 0 to 65535`}},
		"a value twice":                {one("    match: { dport: [80, 443, 80] }\n"), unseen, []string{"8:31: class c: dport: 80 stands twice in the list: keep one"}},
		"proto":                        {one("    match: { proto: [tpc, 256] }\n"), seen, []string{`8:22: class c: proto: "tpc" is no IP protocol: say a name (icmp, igmp, …`, "8:27: class c: proto: 256 is out of range: a IP protocol is from 0 to 255"}},
		"dscp":                         {one("    match: { dscp: [af14] }\n"), seen, []string{`8:21: class c: dscp: "af14" is no DSCP: …`}},
		"vlan":                         {one("    match: { vlan: 4096 }\n"), seen, []string{"8:20: class c: vlan: 4096 is out of range: a VLAN ID is from 0 to 4095"}},
		"ip":                           {one("    match: { ip: v4 }\n"), seen, []string{`8:18: class c: ip: "v4" is no IP version: say 4, 6 or none (all that is not IP)`}},
		"fragment":                     {one("    match: { fragment: first }\n"), seen, []string{`8:24: class c: fragment: "first" is neither true nor false: …`}},
		"mark":                         {one("    match: { mark: 0x10 }\n"), unseen, []string{`8:20: class c: mark: "0x10" is no mark: write a whole number from 0 to 4294967295`}},
		"two IP versions":              {one("    match: { src: 10.0.0.0/8, dst: \"2001:db8::/32\" }\n"), unseen, []string{"8:14: class c: src, dst, ip: no packet can match: …"}},
		"ports of fragments":           {one("    match: { dport: 80, fragment: true }\n"), unseen, []string{"8:25: class c: fragment: true never matches with sport or dport: …"}},
		"ports of ICMP":                {one("    match: { dport: 80, proto: [udp, icmp] }\n"), unseen, []string{"8:25: class c: proto: icmp has no ports, which sport or dport want: only tcp, udp, udplite, sctp, dccp have"}},
		"what is not IP": {
			one("    match: { ip: none, src: 10.0.0.0/8, dscp: ef }\n    yellow: { dscp: af12 }\n"), unseen,
			[]string{
				"7:34: class c: per: flow needs an address, and what ip: none matches has none: say vlan, class or interface",
				"8:14: class c: ip: none has no IP bytes, so count: l3 cannot be: count l2, l1 or packets",
				"8:24: class c: src: what is not IP has none: leave it out, or ip: none",
				"8:41: class c: dscp: what is not IP has none: …",
				"9:5: class c: yellow: what ip: none matches has no DSCP and no ECN to write: …",
			},
		},
		"verb":              {one("    yellow: remark\n"), seen, []string{`8:13: class c: yellow: "remark" is no verb: say pass, drop, or several in { }: { dscp: af12, ecn-ce: true, mark: 5, priority: 1 }`}},
		"a verb of a flag":  {one("    yellow: dscp=af12\n"), seen, []string{`8:13: class c: yellow: "dscp=af12" is no verb: say pass, drop, or several in { }: { dscp: af12 }`}},
		"verbs in a list":   {one("    yellow: [pass]\n"), seen, []string{"8:13: class c: yellow is a list: write one value"}},
		"verb's values":     {one("    yellow: { dscp: 64, mark: -1, ecn-ce: 1 }\n"), seen, []string{`8:21: class c: dscp: "64" is no DSCP: …`, `8:31: class c: mark: "-1" is no mark: …`, `8:43: class c: ecn-ce: "1" is neither true nor false: …`}},
		"a verb that isn't": {one("    yellow: { drop: false }\n"), seen, []string{"8:21: class c: drop: false says nothing: say true, or leave it out"}},
		"verbs that cannot be together": {
			one("    green: { pass: true, dscp: ef }\n    red: { drop: true, mark: 1 }\n"), unseen,
			[]string{"8:12: class c: green: pass leaves the DSCP as it is, dscp writes it: say one of them", "9:10: class c: red: a packet that is dropped cannot also be marked or passed: …"},
		},
		"arrival": {
			one("    arrival: { af14: green, af11: grey, 10: red, default: black }\n"), seen,
			[]string{
				`8:16: class c: arrival: "af14" is no DSCP: …`, `8:35: class c: af11: "grey" is no colour: say green, yellow or red`,
				"8:41: class c: arrival: 10 is the same DSCP as af11: keep one", `8:59: class c: default: "black" is no colour: …`,
			},
		},
		"the interface's bucket twice": {
			head + "  - name: c\n    meters: [ { profile: p, per: interface }, { profile: p, per: interface } ]\n", unseen,
			[]string{"7:66: class c, meter 2: per: the interface's bucket of profile p stands twice in the chain: …"},
		},
		"the interface's bucket in two units": {
			head + "  - { name: a, meters: [ { profile: p, per: interface } ] }\n  - { name: b, count: l2, meters: [ { profile: p, per: interface } ] }\n", unseen,
			[]string{"7:56: class b: per: class a shares the interface's bucket of profile p and counts l3, this one l2: …"},
		},
		"too many rules": {
			one("    match: { dport: " + numbers16(17) + ", sport: " + numbers16(16) + " }\n"), unseen,
			[]string{"8:5: class c: match: the policy takes more rules than there are: at most 256; this class takes 272 (16 sport × 17 dport). …"},
		},
		"wide characters": {one("    match: { \"größe\": 1, größe: 2 }\n"), seen, []string{`8:14: class c: "größe" is no key of match: say one of src, …`, `8:26: class c: "größe" is no key of match: …`}},
		"a long line":     {one("    match: {" + strings.Repeat(" ", 300) + "x: 1 }\n"), seen, []string{`8:313: class c: "x" is no key of match: say one of src, …`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseText(test.text, nil)
			checkFaults(t, test.text, err, test.want)
			if test.schema {
				inSchema(t, test.text, false)
			}
		})
	}
}

// numbers16 is a list of n numbers.
func numbers16(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(i + 1)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// A policy has 64 classes at most.
func TestParseManyClasses(t *testing.T) {
	text := head
	for i := range 66 {
		text += fmt.Sprintf("  - { name: c%d, match: { vlan: %d }, meters: [ { profile: p } ] }\n", i, i)
	}
	_, err := parseText(text, nil)
	checkFaults(t, text, err, []string{"70:7: class c64: name: this is a class too many: a policy has at most 64"})
}

// Faults without end are not all told.
func TestParseManyFaults(t *testing.T) {
	text := one("    match: { dport: [" + strings.Repeat("x, ", 1000) + "] }\n")
	_, err := parseText(text, nil)
	all := Faults(err)
	if len(all) != maxFaults+1 || all[maxFaults].Error() != "and 800 more like these" {
		t.Errorf("%d faults, the last %v", len(all), all[len(all)-1])
	}
	if !strings.HasPrefix(all[maxFaults-1].Excerpt, "    …") || !strings.HasSuffix(all[maxFaults-1].Excerpt, "\n"+strings.Repeat(" ", 55)+"^") {
		t.Errorf("an excerpt of a long line:\n%s", all[maxFaults-1].Excerpt)
	}
	_, err = parseText(strings.Repeat("#", MaxFile+1), nil)
	if want := "p.yaml: the file is too long: at most 1048576 bytes; large lists of prefixes go into files of their own"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
