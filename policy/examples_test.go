package policy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// Every example is taken as it is, without a warning, and by the schema too.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(testutils.ModuleRoot(t), "examples", "*.yaml"))
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d examples (%v); want 5", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			p, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range p.Warn(Link{MTU: 1500}) {
				t.Errorf("warning: %v", w)
			}
			for i := range p.Classes {
				if lines := Contract(p, p.Classes[i].Name); len(lines) != 8 {
					t.Errorf("class %s: a contract of %d lines", p.Classes[i].Name, len(lines))
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			inSchema(t, string(text), true)
		})
	}
}
