package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// The shells are told devices, the words of flags, and where files are meant; 0, 4, 8 and 16 are cobra's words for
// files, no files, files of these endings, and folders.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ line, want, directive string }{
		{"attach ", "lo", "4"},
		{"attach l", "lo", "4"},
		{"attach lo ", "", "4"},
		{"show ", "lo", "4"},
		{"dump flows ", "lo", "4"},
		{"du", "dump", "4"},
		{"dump ", "flows maps", "4"},
		{"detach lo --direction ", "ingress egress", "4"},
		{"replay --meter ", "token srtcm trtcm rfc4115", "4"},
		{"replay --per s", "src", "4"},
		{"replay --cir ", "", "4"},
		{"replay -f ", "", "0"},
		{"replay ", "", "0"},
		{"replay -o ", "table json", "4"},
		{"fit --plot ", "", "0"},
		{"record lo -w ", "", "0"},
		{"whatif ", "yaml yml", "8"},
		{"whatif a b ", "", "0"},
		{"compare --scenario ", "edge burst steady herd", "4"},
		{"run --config ", "", "16"},
		{"version ", "", "4"},
	} {
		words := strings.Split(c.line, " ")
		said := strings.Split(strings.TrimSpace(must(t, append([]string{"__complete"}, words...)...)), "\n")
		last := len(said) - 1
		got := []string{}
		for _, line := range said[:last] {
			word, _, _ := strings.Cut(line, "\t")
			got = append(got, word)
		}
		if said[last] != ":"+c.directive {
			t.Errorf("%q: directive %s, want :%s", c.line, said[last], c.directive)
		}
		for _, want := range strings.Fields(c.want) {
			if !slices.Contains(got, want) {
				t.Errorf("%q: offers %q, not %q", c.line, got, want)
			}
		}
		if c.want == "" && len(got) > 0 {
			t.Errorf("%q: offers %q", c.line, got)
		}
	}
}

// No flag that takes a value is left to the shell's guess.
func TestFlagsComplete(t *testing.T) {
	walked(newRoot(), func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			_, ok := cmd.GetFlagCompletionFunc(flag.Name)
			if !ok && flag.NoOptDefVal == "" {
				t.Errorf("%s --%s has no completion", cmd.CommandPath(), flag.Name)
			}
		})
	})
}

// The scripts for shells are scripts: where the shell is there, it reads its own.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text := must(t, "completion", shell)
		if !strings.Contains(text, "__complete") {
			t.Errorf("%s: a script that asks nothing:\n%s", shell, text)
		}
		if _, err := exec.LookPath(shell); err != nil {
			t.Logf("%s is not installed: its script is not read", shell)
			continue
		}
		c := exec.Command(shell, "-n")
		c.Stdin = strings.NewReader(text)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s does not take its script: %v: %s", shell, err, out)
		}
	}
}

// Every command has a manual page, with its examples, flags and what it says of itself.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	if err := doc.GenManTree(newRoot(), &doc.GenManHeader{Section: "8"}, dir); err != nil {
		t.Fatal(err)
	}
	walked(newRoot(), func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".8"))
		if err != nil {
			t.Error(err)
			return
		}
		for _, part := range []string{".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH EXAMPLE", ".SH OPTIONS"} {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s: its page has no %s", cmd.CommandPath(), part)
			}
		}
	})
}
