package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/policy"
)

// What a command line exits with.
const (
	exitDone     = 0
	exitFailed   = 1 // anything but the following
	exitUsage    = 2 // usage or policy
	exitLacking  = 3 // a privilege, a kernel feature or the bpffs
	exitNotFound = 4 // no such device, or nothing attached to it

	exitIncomplete = 5 // a record that is not whole: it proves nothing
)

// usageError is a command line that says nothing that can be done.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

func isUsage(err error) bool {
	var wrong *usageError
	return errors.As(err, &wrong)
}

// arguments makes what check refuses a usage error.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage("%w; %q says more", err, cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// needNothing is the check of commands that take flags only.
func needNothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no %q; %q says more", cmd.Name(), args[0], cmd.CommandPath()+" --help")
	}
	return nil
}

// needFiles is the check of commands that take capture files.
func needFiles(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usage("name a FILE; %q says more", cmd.CommandPath()+" --help")
	}
	return nil
}

// needDevice is the check of commands that take one device.
func needDevice(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage("name one DEV; %q says more", cmd.CommandPath()+" --help")
	}
	return nil
}

// needDeviceOrAll is the check of commands that take one device, or, with --all, those of this network namespace.
func needDeviceOrAll(all *bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case !*all:
			return needDevice(cmd, args)
		case len(args) > 0:
			return usage("name a DEV, or say --all")
		case cmd.Flags().Changed("direction"):
			return usage("--all is both directions: leave out --direction")
		}
		return nil
	}
}

// errReported is an error of which everything was already said.
var errReported = errors.New("reported")

// exitCode is the one place that gives errors their exit codes.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case isUsage(err), errors.Is(err, policy.ErrPolicy), errors.Is(err, loader.ErrPlace):
		return exitUsage
	case errors.Is(err, loader.ErrPrivilege), errors.Is(err, loader.ErrKernel), errors.Is(err, loader.ErrBPFFS):
		return exitLacking
	case errors.Is(err, loader.ErrNoDevice), errors.Is(err, loader.ErrNotAttached):
		return exitNotFound
	case errors.Is(err, errIncomplete):
		return exitIncomplete
	default:
		return exitFailed
	}
}

// report prints an error of a command line, a line for each thing that is wrong.
func report(w io.Writer, err error, args []string) {
	switch {
	case err == nil, errors.Is(err, errReported):
	case errors.Is(err, context.Canceled):
		say(w, "interrupted")
	default:
		say(w, oneLined(err.Error(), args))
	}
}

// say prints a message for a person, each line under the program's name.
func say(w io.Writer, message string) {
	for line := range strings.Lines(message) {
		fmt.Fprintf(w, "tricolor: %s\n", printable(strings.TrimSuffix(line, "\n")))
	}
}

// warn prints what a person should know though the command goes on.
func warn(w io.Writer, format string, args ...any) {
	say(w, "warning: "+fmt.Sprintf(format, args...))
}
