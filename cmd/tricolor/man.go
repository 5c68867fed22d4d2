//go:build man

package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The command that writes the manual is only in a binary built for that, by "make man".
func init() { commands = append(commands, newMan) }

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write a manual page for each command into a directory",
		Long:    "Man writes a manual page for each command. Their date is that of SOURCE_DATE_EPOCH, else today's.",
		Example: "  tricolor man dist/man",
		Hidden:  true,
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // no "generated on"
			return doc.GenManTree(root, &doc.GenManHeader{
				Section: "8",
				Source:  "tricolor " + versionText(),
				Manual:  "System Manager's Manual",
			}, args[0])
		},
	}
}
