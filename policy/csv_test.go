package policy

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tricolor-policer/tricolor/marker"
)

func TestReadSet(t *testing.T) {
	text := "\ufeff# customers\r\n10.0.0.0/24,gold\r\n\r\n  10.0.1.7 , gold\r\n2001:db8::/56\r\n10.0.0.0/8"
	set, wrong := readSet("c.csv", "dir/c.csv", strings.NewReader(text))
	if len(wrong) > 0 {
		t.Fatal(wrong.err())
	}
	want := &Set{Name: "c.csv", Entries: []SetEntry{
		{netip.MustParsePrefix("10.0.0.0/24"), "gold", 2}, {netip.MustParsePrefix("10.0.1.7/32"), "gold", 4},
		{netip.MustParsePrefix("2001:db8::/56"), "", 5}, {netip.MustParsePrefix("10.0.0.0/8"), "", 6},
	}, Sources: map[string]Source{"gold": {Line: 2, Column: 13, Text: "10.0.0.0/24,gold"}}}
	if diff := cmp.Diff(want, set, prefixes); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
}

func TestReadSetRefused(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"empty":        {"", "c.csv:1:1: the file holds no prefix: write one prefix[,profile] a line"},
		"only remarks": {"# a\n\n#b\n", "c.csv:3:1: the file holds no prefix: …"},
		"no prefix":    {"10.0.0.0/8\n\n  customer,gold\n", "c.csv:3:3: \"customer\" is no prefix: …\n      customer,gold\n      ^"},
		"host bits":    {"10.0.0.1/8\n", "c.csv:1:1: \"10.0.0.1/8\" is unclear: write 10.0.0.0/8 (the prefix) or 10.0.0.1 (the address)\n…"},
		"twice":        {"10.0.0.0/8\n::/0\n10.0.0.0/8,x\n", "c.csv:3:1: 10.0.0.0/8 stands twice, first in line 1: keep one\n…"},
		"no profile":   {"10.0.0.0/8,\n", "c.csv:1:12: the profile: \"\" is no name: …\n    10.0.0.0/8,\n               ^"},
		"two commas":   {"10.0.0.0/8, a,b\n", "c.csv:1:13: the profile: \"a,b\" is no name: …"},
		"a long line":  {strings.Repeat("x", 300) + "\n", "c.csv:1:1: the line is too long: at most 256 bytes\n…"},
		"no lines":     {strings.Repeat("x", 1<<20), "c.csv:1:1: the line is too long: at most 256 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, wrong := readSet("c.csv", "c.csv", strings.NewReader(test.text))
			got := fmt.Sprint(wrong.err())
			at := 0
			for i, piece := range strings.Split(test.want, "…") {
				found := strings.Index(got[at:], piece)
				if found < 0 || i == 0 && found > 0 {
					t.Fatalf("got  %s\nwant %s", got, test.want)
				}
				at += found + len(piece)
			}
			if !strings.Contains(test.want, "…") && at < len(got) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// A file may have a million lines, and each is looked at once.
func TestReadSetLarge(t *testing.T) {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "10.%d.%d.%d/32,p%d\n", i>>16, i>>8&255, i&255, i%100)
	}
	set, wrong := readSet("c.csv", "c.csv", strings.NewReader(b.String()))
	if len(wrong) > 0 || len(set.Entries) != 100_000 {
		t.Fatalf("%d entries, %v", len(set.Entries), wrong.err())
	}
	if names := set.profiles(); len(names) != 100 {
		t.Errorf("%d profiles", len(names))
	}
	_, wrong = readSet("c.csv", "c.csv", strings.NewReader(strings.Repeat("#\n", MaxSetLines)+"::/0\n"))
	if len(wrong) != 1 || wrong[0].Error() != "c.csv:1000001:1: the file is too long: at most 1000000 lines" {
		t.Errorf("a line too many: %v", wrong.err())
	}
}

// customers is a policy of one class that takes the sources of a file.
func customers(per string) string {
	return head + "  - name: c\n    match: { src: \"@c.csv\" }\n    meters: [ { profile: p, per: \"" + per + "\" } ]\n"
}

func TestParseSet(t *testing.T) {
	_, err := parseText(customers("src"), files{"c.csv": "10.0.0.0/24,p2\n10.0.0.7,p\n"})
	if err == nil || !strings.HasPrefix(err.Error(), "c.csv:1:13: class c: profile: \"p2\" is not defined: say one of p, q\n    10.0.0.0/24,p2\n                ^") {
		t.Errorf("an undefined profile: %v", err)
	}
	p, err := parseText(customers("src"), files{"c.csv": "10.0.0.0/24,p\n10.0.0.7\n"})
	if err != nil {
		t.Fatal(err)
	}
	if set := p.Classes[0].Match.SrcSet; set == nil || len(set.Entries) != 2 || set.Name != "c.csv" {
		t.Errorf("set %+v", set)
	}
	inSchema(t, customers("src"), true)
}

func TestParseSetRefused(t *testing.T) {
	both := strings.Replace(customers("flow"), "{ src:", "{ dst: \"@d.csv\", src:", 1)
	for name, test := range map[string]struct {
		text  string
		files files
		want  []string
	}{
		"several lines": {customers("flow"), files{"c.csv": "x\n10.0.0.0/8\ny\n"}, []string{
			`c.csv:1:1: class c: "x" is no prefix: write such as 10.0.0.0/8 or "2001:db8::/32", or an address`,
			`c.csv:3:1: class c: "y" is no prefix: write such as 10.0.0.0/8 or "2001:db8::/32", or an address`,
		}},
		"the policy first": {strings.Replace(customers("flow"), "per: \"flow\"", "per: \"x\"", 1), files{"c.csv": "x\n"}, []string{
			`8:34: class c: per: "x" shares no bucket: …`,
			`c.csv:1:1: class c: "x" is no prefix: …`,
		}},
		"another unit": {customers("flow"), files{"c.csv": "10.0.0.0/8\n10.0.0.0/9,q\n"}, []string{
			"c.csv:2:12: class c: count: l3 does not fit profile q, which is written in packets",
		}},
		"lines that share a bucket": {customers("class"), files{"c.csv": "10.0.0.0/8,p\n"}, []string{
			"8:34: class c: per: class would let lines of c.csv with different profiles share a bucket: say flow or src, or give no profiles in the file",
		}},
		"buckets wider than lines": {customers("src/24,56"), files{"c.csv": "10.0.0.0/24,p\n10.0.1.0/25\n"}, []string{
			`c.csv:2:1: class c: 10.0.1.0/25 is narrower than a bucket, src/24, which lines with different profiles would share: let the bucket be as narrow (per: "src/25,56")`,
		}},
		"profiles at both ends": {both, files{"c.csv": "::/0,p\n", "d.csv": "::/0,p\n"}, []string{
			"7:29: class c: src, dst: both files give profiles, and a bucket has one: leave them out of one file",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseText(test.text, test.files)
			checkFaults(t, test.text, err, test.want)
		})
	}
	if _, err := parseText(customers("class"), files{"c.csv": "10.0.0.0/8\n"}); err != nil {
		t.Errorf("lines without profiles may share a bucket: %v", err)
	}
}

// A policy's files lie beside it or below: no name and no link leads elsewhere.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("secret.csv", "10.0.0.0/8\n")
	write("etc/lists/c.csv", "10.0.0.0/8\n")
	if err := os.Symlink("../secret.csv", filepath.Join(dir, "etc", "link.csv")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"lists/c.csv":    "",
		"../secret.csv":  "it must lie beside the policy file or below: no path with .. and none that begins with /",
		dir + "/x.csv":   "it must lie beside the policy file or below: …",
		"link.csv":       "path escapes from parent",
		"lists":          "it is no regular file",
		"lists/none.csv": "no such file or directory",
	} {
		path := write("etc/p.yaml", strings.Replace(customers("src"), "@c.csv", "@"+name, 1))
		_, err := Load(path)
		switch want, _, _ := strings.Cut(want, "…"); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), path+":7:19: class c: src: the file ") || !strings.Contains(err.Error(), "cannot be read: "+want)):
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none.yaml")); err == nil || err.Error() != filepath.Join(dir, "none.yaml")+": the policy cannot be read: no such file or directory" {
		t.Errorf("no such policy: %v", err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a folder: %v", err)
	}
	path := write("p.yaml", strings.Replace(one(""), "cir", "cri", 1))
	_, err := Load(path)
	if err == nil || !strings.HasPrefix(err.Error(), path+":3:22: ") {
		t.Errorf("the path as given: %v", err)
	}
}

// A file that two classes name is one set, where its lines do not depend on the class.
func TestCompileSharedSet(t *testing.T) {
	text := strings.Replace(customers("src"), "{ src:", "{ vlan: 1, dst: \"@c.csv\", src:", 1) + strings.Replace(strings.SplitAfter(customers("src"), "classes:\n")[1], "name: c", "name: d", 1)
	plan := planOf(t, text, files{"c.csv": "10.0.0.0/24\n"}, nil)
	got := []uint32{plan.Rules[0].SrcSet, plan.Rules[0].DstSet, plan.Rules[1].SrcSet}
	if diff := cmp.Diff([]uint32{1, 1, 1}, got); diff != "" || len(plan.Sets) != 1 {
		t.Errorf("%d sets (-want +got):\n%s", len(plan.Sets), diff)
	}
	own := strings.Replace(text, "dst: \"@c.csv\", ", "", 1)
	plan = planOf(t, own, files{"c.csv": "10.0.0.0/24,p\n"}, nil)
	if len(plan.Sets) != 2 || plan.Sets[0].Entries[0].Profile == plan.Sets[1].Entries[0].Profile {
		t.Errorf("two classes share the profile of a line: %+v", plan.Sets)
	}
	if _, err := Parse("p.yaml", []byte(customers("src")), nil); err == nil || !strings.Contains(err.Error(), "no files are read here: list the prefixes") {
		t.Errorf("no files: %v", err)
	}
}

// FuzzReadSet: no file of prefixes makes the reader panic, and what it takes it takes once.
func FuzzReadSet(f *testing.F) {
	for _, seed := range []string{"10.0.0.0/8,gold\n# x\n\n::/0\n", "\ufeff1.2.3.4\r\n", "1.2.3.4/33", ",", " , ,", "::ffff:1.2.3.4/96,a", "fe80::1%eth0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, wrong := readSet("c.csv", "c.csv", strings.NewReader(text))
		if len(wrong) == 0 && len(set.Entries) == 0 {
			t.Error("an empty file is taken")
		}
		seen := map[netip.Prefix]bool{}
		for _, e := range set.Entries {
			if seen[e.Prefix] || !e.Prefix.IsValid() || e.Prefix != e.Prefix.Masked() || e.Line < 1 {
				t.Errorf("entry %+v", e)
			}
			seen[e.Prefix] = true
		}
		for _, f := range wrong {
			if f.Place.Line < 1 || f.Place.Column < 1 || f.Text == "" {
				t.Errorf("a fault without a place: %+v", f)
			}
		}
	})
}

// A file's own profiles are compiled once each, and its lines name them.
func TestCompileSet(t *testing.T) {
	text := strings.Replace(customers("src"), "  q:", "  gold: { meter: token, cir: 1gbit, cbs: 10ms }\n  q:", 1)
	p, err := parseText(text, files{"c.csv": "10.0.0.0/24,gold\n10.0.1.0/24\n10.0.2.0/24,p\n10.0.3.0/24,gold\n"})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	want := []marker.PrefixSet{{Name: "c.csv", Entries: []marker.PrefixEntry{
		{Prefix: netip.MustParsePrefix("10.0.0.0/24"), Profile: 1},
		{Prefix: netip.MustParsePrefix("10.0.1.0/24"), Profile: marker.NoProfile},
		{Prefix: netip.MustParsePrefix("10.0.2.0/24"), Profile: 2},
		{Prefix: netip.MustParsePrefix("10.0.3.0/24"), Profile: 1},
	}}}
	if diff := cmp.Diff(want, plan.Sets, prefixes); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	rule := marker.AnyRule(0)
	rule.SrcSet = 1
	if diff := cmp.Diff([]marker.Rule{rule}, plan.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	var names []string
	for _, profile := range plan.Profiles {
		names = append(names, profile.Name)
	}
	if diff := cmp.Diff([]string{"p", "gold", "p"}, names); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
}
