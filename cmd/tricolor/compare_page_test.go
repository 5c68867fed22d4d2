package main

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/tricolor-policer/tricolor/internal/browsertest"
)

// The page of a comparison draws both its panels, offline.
func TestComparePage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "edge.html")
	root := newRoot()
	root.SetOut(io.Discard)
	root.SetArgs([]string{"compare", "--scenario", "edge", "--plot", file})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	browsertest.Open(t, file).Drew(t, 2)
}
