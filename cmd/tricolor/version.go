package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/maps"
)

// version is set by the linker.
var version string

// versionText is the version as it was built: the linker's, else the module's.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of tricolor, of Go and of the kernel maps' layout",
		Example: "  tricolor version -o json",
		Args:    arguments(cobra.NoArgs),
	}
	output := addOutput(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := struct {
			Version string `json:"version"`
			Go      string `json:"go"`
			Layout  int    `json:"layout"`
		}{versionText(), runtime.Version(), maps.LayoutVersion}
		if output.word == "json" {
			return printJSON(cmd.OutOrStdout(), v)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "tricolor %s\n%s\nmap layout %d\n", v.Version, v.Go, v.Layout)
		return err
	}
	return cmd
}
