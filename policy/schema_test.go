package policy

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/tricolor-policer/tricolor/marker"
)

var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(Schema)))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", document); err != nil {
		return nil, err
	}
	return c.Compile("policy.json")
})

// inSchema holds the schema to an answer about a file: a policy that is taken is valid.
func inSchema(t *testing.T, text string, valid bool) {
	t.Helper()
	schema, err := compiledSchema()
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(valueOf(t, nodeOf(t, text))); (err == nil) != valid {
		t.Errorf("valid by the schema: %v, want %v (%v)", err == nil, valid, err)
	}
}

func nodeOf(t *testing.T, text string) *yaml.Node {
	t.Helper()
	var root yaml.Node
	if err := yaml.Load([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	return &root
}

// valueOf is a node as an editor sees it.
func valueOf(t *testing.T, n *yaml.Node) any {
	t.Helper()
	switch n.Kind {
	case yaml.DocumentNode:
		return valueOf(t, n.Content[0])
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			m[n.Content[i].Value] = valueOf(t, n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = valueOf(t, item)
		}
		return list
	}
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return n.Value == "true"
	case "!!int":
		value, err := strconv.ParseInt(n.Value, 0, 64)
		if err != nil {
			t.Fatal(err)
		}
		return value
	case "!!float":
		value, err := strconv.ParseFloat(n.Value, 64)
		if err != nil {
			t.Fatal(err)
		}
		return value
	default:
		return n.Value
	}
}

// The schema has the keys and the words that the decoder has.
func TestSchemaKeys(t *testing.T) {
	type object struct {
		Properties map[string]struct{ Enum []any }
		Pattern    string
		OneOf      []struct {
			Pattern    string
			Properties map[string]any
		}
		PropertyNames struct{ Pattern string }
	}
	var schema struct {
		Properties  map[string]any
		Definitions map[string]object
	}
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	same := func(what string, got, want []string) {
		t.Helper()
		slices.Sort(got)
		want = slices.Sorted(slices.Values(want))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-decoder +schema):\n%s", what, diff)
		}
	}
	keys := func(name string) (keys []string) {
		for key := range schema.Definitions[name].Properties {
			keys = append(keys, key)
		}
		return keys
	}
	var top, action []string
	for key := range schema.Properties {
		top = append(top, key)
	}
	for key := range schema.Definitions["action"].OneOf[1].Properties {
		action = append(action, key)
	}
	same("policy", top, policyKeys)
	same("profile", keys("profile"), profileKeys)
	same("class", keys("class"), classKeys)
	same("match", keys("match"), matchKeys)
	same("meter", keys("meter"), meterKeys)
	same("action", action, actionKeys)
	proto := schema.Definitions["proto"].OneOf[1].Pattern
	for _, name := range protoNames() {
		if !strings.Contains(proto, "|"+name+"|") {
			t.Errorf("the schema does not know the protocol %s", name)
		}
	}
	for dscp := range uint8(64) {
		inSchema(t, one("    match: { dscp: \""+marker.DSCPName(dscp)+"\" }\n"), true)
	}
	inSchema(t, one("    match: { dscp: cs8 }\n"), false)
}

// What a person may write for a rate, a size and a key of buckets.
func TestSchemaWords(t *testing.T) {
	for _, rate := range []string{
		"8bit", "10 Mbit/s", " 10Mbit ", "2.048mbit", "1tibit", "3B/s", "1.5MB/s", "64KiB/s", "1GB/s", "8KIBIT", "100.0kB/s",
		"1.5kpps", "3Mpps", "10", "10m", "10kbps", "10KB/s", "010mbit", "1e6bit", "-1mbit", "10kb", "10kib/s", "10ms",
	} {
		for _, size := range []string{"10ms", "1.5us", "96 KiB", "0.5KiB", "1500B", "32pkt", "10", "010B", "10kb", "10s", "10KB", "10mb"} {
			text := strings.NewReplacer("cir: 10mbit", "cir: \""+rate+"\"", "cbs: 10ms", "cbs: \""+size+"\"").Replace(one(""))
			u := unit{}
			_, err := u.rate(rate)
			_, err2 := u.size(size)
			inSchema(t, text, err == nil && err2 == nil)
		}
	}
	for _, per := range []string{
		"flow", "src", "dst", "vlan", "dscp", "class", "interface", "src/0,0", "dst/32,128", "src/24,56", "src/9,99", "dst/10,100",
		"", "src/24", "src/33,1", "src/1,129", "src/024,56", "flow/1,1", "host", "src/-1,2", "src/1,200",
	} {
		_, err := parsePer(per)
		inSchema(t, strings.Replace(one(""), "per: flow", "per: \""+per+"\"", 1), err == nil)
	}
}
