package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/testutils"
)

// What docs/choosing.md has a reader type says what stands below it: each shell block but those of root or of captures
// that are not in the checkout, in one folder, in the page's order.
func TestChoosingPage(t *testing.T) {
	root := testutils.ModuleRoot(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "choosing.md"))
	if err != nil {
		t.Fatal(err)
	}
	exampleFolder(t)
	if err := os.Symlink(filepath.Join(root, "testdata"), "testdata"); err != nil {
		t.Fatal(err)
	}
	said, typed, compared := "", "", 0
	for _, block := range regexp.MustCompile("(?ms)^```(sh)?\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		switch shell, text := block[1] == "sh", block[2]; {
		case shell && (strings.Contains(text, "sudo ") || strings.Contains(text, " 01-")):
			typed = ""
		case shell:
			typed = text
			out, err := exec.Command("sh", "-e", "-c", text).CombinedOutput()
			if err != nil {
				t.Errorf("%s%v\n%s", text, err, out)
			}
			said = string(out)
		case typed != "":
			compared++
			for line := range strings.Lines(text) {
				if !strings.Contains(said, line) {
					t.Errorf("%sdoes not say %q, but\n%s", typed, line, said)
				}
			}
		}
	}
	if compared < 8 {
		t.Errorf("the page has %d outputs to compare", compared)
	}
	for _, picture := range regexp.MustCompile(`\]\((img/[^)]+|[a-z]+\.md)\)`).FindAllStringSubmatch(string(page), -1) {
		if _, err := os.Stat(filepath.Join(root, "docs", picture[1])); err != nil {
			t.Errorf("docs/choosing.md refers to %v", err)
		}
	}
}
