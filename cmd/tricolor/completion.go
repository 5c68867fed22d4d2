package main

import (
	"net"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// complete tells the shells what may follow: devices where a command takes DEV, the words of flags that take one of
// a few, files where FILE is meant, and nothing where only a person knows.
func complete(cmd *cobra.Command) {
	use := strings.TrimPrefix(cmd.Use, cmd.Name())
	switch {
	case cmd.ValidArgsFunction != nil || cmd.HasSubCommands():
	case strings.Contains(use, "DEV"):
		cmd.ValidArgsFunction = completeDevice
	case strings.HasPrefix(use, " OLD.yaml"):
		cmd.ValidArgsFunction = completePolicies
	case strings.HasPrefix(use, " DIRECTORY"):
		cmd.ValidArgsFunction = completeWith(cobra.ShellCompDirectiveFilterDirs)
	case !strings.HasPrefix(use, " FILE"):
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.NoOptDefVal != "" { // it stands alone
			return
		}
		if _, ok := cmd.GetFlagCompletionFunc(flag.Name); ok {
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(flag.Name, completionOf(flag)); err != nil {
			panic(err) // the flag is the command's own
		}
	})
	for _, sub := range cmd.Commands() {
		complete(sub)
	}
}

// flagWords are the words of flags that are plain text to cobra.
var flagWords = map[string][]string{
	"meter": {"token", "srtcm", "trtcm", "rfc4115"},
	"per":   {"flow", "src", "dst", "vlan", "dscp", "class"},
	"count": {"l3", "l2", "l1", "packets"},
}

// completionOf is what may follow a flag.
func completionOf(flag *pflag.Flag) cobra.CompletionFunc {
	if c, ok := flag.Value.(*choice); ok {
		return cobra.FixedCompletions(c.words, cobra.ShellCompDirectiveNoFileComp)
	}
	if words, ok := flagWords[flag.Name]; ok && flag.Value.Type() == "string" {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	what, _ := pflag.UnquoteUsage(flag)
	switch {
	case strings.HasSuffix(what, "FILE"):
		return completeWith(cobra.ShellCompDirectiveDefault)
	case what == "FOLDER":
		return completeWith(cobra.ShellCompDirectiveFilterDirs)
	}
	return cobra.NoFileCompletions
}

func completeWith(d cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return nil, d }
}

// completeDevice offers this network namespace's devices, for one argument.
func completeDevice(_ *cobra.Command, args []string, start string) (names []string, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	devices, err := net.Interfaces()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for _, d := range devices {
		if strings.HasPrefix(d.Name, start) && printable(d.Name) == d.Name {
			names = append(names, d.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completePolicies offers policy files for two arguments, then any files.
func completePolicies(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) < 2 {
		return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
	}
	return nil, cobra.ShellCompDirectiveDefault
}
