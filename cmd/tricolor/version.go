package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/maps"
)

// version and commit are set by the linker.
var version, commit string

// build is what this binary is.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // "unknown" where neither the linker nor the module's build says
	Go      string `json:"go"`
	Arch    string `json:"arch"`
	Object  object `json:"object"`
}

// object is the kernel program in it.
type object struct {
	SHA256    string `json:"sha256"`     // of the embedded ELF file
	Layout    int    `json:"layout"`     // of its maps: programs of one layout can follow each other on the same pins
	MinKernel string `json:"min_kernel"` // the oldest Linux that takes it
}

// versionText is the version as it was built: the linker's, else the module's.
func versionText() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(version, info.Main.Version, "unknown")
	}
	return cmp.Or(version, "unknown")
}

// commitText is the commit as it was built: the linker's, else what Go noted of the module.
func commitText() string {
	text := commit
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				text = cmp.Or(text, s.Value)
			}
		}
	}
	return cmp.Or(text, "unknown")
}

func thisBuild() build {
	sum := bpf.ObjectSHA256()
	return build{
		Version: versionText(),
		Commit:  commitText(),
		Go:      runtime.Version(),
		Arch:    runtime.GOARCH,
		Object: object{
			SHA256:    hex.EncodeToString(sum[:]),
			Layout:    maps.LayoutVersion,
			MinKernel: bpf.MinKernel,
		},
	}
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary is: its version, and its kernel program",
		Long: `Version prints the version and commit that this binary was built from, and of the kernel program in it:
the SHA-256 of the object, the layout of its maps (a program can follow another of the same layout on the
same pins), and the oldest Linux that takes it.`,
		Example: "  tricolor version -o json",
		Args:    needNothing,
	}
	output := addOutput(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := thisBuild()
		if output.word == "json" {
			return printJSON(cmd.OutOrStdout(), b)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), `tricolor %s
commit         %s
built with     %s, for %s
kernel program sha256 %s
map layout     %d
needs          Linux %s or newer
`, b.Version, b.Commit, b.Go, b.Arch, b.Object.SHA256, b.Object.Layout, b.Object.MinKernel)
		return err
	}
	return cmd
}
