package exporter

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
)

const folder = "packaging/prometheus"

func expfmtParse(text string) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(strings.NewReader(text))
}

// metricNames are those of all metrics of policers.
func metricNames() (names []string) {
	to := make(chan *prometheus.Desc, 100)
	newCollector(slog.New(slog.DiscardHandler)).Describe(to)
	close(to)
	name := regexp.MustCompile(`fqName: "(\w+)"`)
	for d := range to {
		names = append(names, name.FindStringSubmatch(d.String())[1])
	}
	return append(names, "tricolor_exporter_build_info")
}

// promtool runs it in the folder of what is packaged, with an input; it must be pleased.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	_, tool := testutils.Prometheus(t)
	c := exec.CommandContext(t.Context(), tool, args...)
	c.Dir, c.Stdin = filepath.Join(testutils.ModuleRoot(t), folder), strings.NewReader(input)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func packaged(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testutils.ModuleRoot(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Prometheus's own linter finds nothing to say about names, types and help.
func TestMetricsLint(t *testing.T) {
	s := snapshot{policers: []policer{policerOf(t, identity{"eth0", "ingress", "4026532000"}, "web")}, states: map[loader.State]int{loader.Attached: 1}}
	promtool(t, scrape(t, s, slog.New(slog.DiscardHandler)), "check", "metrics")
}

func TestRules(t *testing.T) {
	promtool(t, "", "check", "rules", "tricolor.rules.yaml")
	promtool(t, "", "test", "rules", "testdata/tricolor.rules.test.yaml")
	promtool(t, "", "check", "config", "prometheus.yml")
}

// dashboard is what the test reads of Grafana's format.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
	Annotations struct{ List []struct{ Expr string } }
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal(packaged(t, folder+"/tricolor-dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The dashboard is one that Grafana can import: panels have ids and places of their own, and variables are known.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || len(d.Panels) < 5 {
		t.Errorf("title %q, uid %q, %d panels", d.Title, d.UID, len(d.Panels))
	}
	variables := []string{"__rate_interval", "__interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllSubmatch(packaged(t, folder+"/tricolor-dashboard.json"), -1) {
		if name := string(v[1]); !slices.Contains(variables, name) && name != "__all" {
			t.Errorf("no variable %s", name)
		}
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %q: id %d, %d targets", p.Title, p.ID, len(p.Targets))
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, taken := cells[[2]int{x, y}]; taken || x >= 24 {
					t.Fatalf("panel %q lies at %d,%d, where %q is, or the end of the row", p.Title, x, y, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
	}
}

// Prometheus understands each of its expressions, as if it were a rule.
func TestDashboardExpressions(t *testing.T) {
	d := readDashboard(t)
	var exprs []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			exprs = append(exprs, target.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		exprs = append(exprs, a.Expr)
	}
	variable := regexp.MustCompile(`"\$\w+"`)
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, e := range exprs {
		e = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m").Replace(e)
		e = variable.ReplaceAllString(e, `".*"`)
		if strings.Contains(e, "$") {
			t.Errorf("a variable is left: %s", e)
		}
		rules = append(rules, rule{"panel:tricolor", e})
		// promtool says that rules are the same where they differ in their expression alone.
		rules[len(rules)-1].Record += strings.Repeat(":", len(rules))
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "panels.yaml") // JSON is YAML
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", file)
}

// What is packaged asks for metrics that there are, and the documentation has them all.
func TestMetricNames(t *testing.T) {
	names := metricNames()
	used := regexp.MustCompile(`\btricolor_\w+`)
	docs := packaged(t, "docs/exporter.md")
	for _, file := range []string{folder + "/tricolor.rules.yaml", folder + "/tricolor-dashboard.json", "docs/exporter.md"} {
		found := used.FindAll(packaged(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s: no metrics", file)
		}
		for _, name := range found {
			if !slices.Contains(names, string(name)) {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
	for _, name := range names {
		if !bytes.Contains(docs, []byte("`"+name+"`")) {
			t.Errorf("docs/exporter.md: nothing about %s", name)
		}
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllSubmatch(packaged(t, folder+"/tricolor.rules.yaml"), -1) {
		if !bytes.Contains(docs, alert[1]) {
			t.Errorf("docs/exporter.md: nothing about the alert %s", alert[1])
		}
	}
}
