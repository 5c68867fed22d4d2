package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/plot"
)

// plotFlag is --plot: the file that a figure is drawn into.
type plotFlag struct{ path string }

// addPlot adds --plot; what is drawn completes its help.
func addPlot(cmd *cobra.Command, drawn string) *plotFlag {
	p := &plotFlag{}
	cmd.Flags().StringVar(&p.path, "plot", "", "draw "+drawn+" into this `FILE`: .png, .svg, or .html, which zooms and works offline")
	return p
}

// given reports whether a figure is asked for.
func (p *plotFlag) given() bool { return p.path != "" }

// check refuses, as usage, a file that no format is known for.
func (p *plotFlag) check() error {
	if !p.given() {
		return nil
	}
	if _, err := plot.FormatOf(p.path); err != nil {
		return usage("--plot %w", err)
	}
	return nil
}

// save draws the figure. The file appears whole or not at all, and is none of the inputs.
func (p *plotFlag) save(f *plot.Figure, inputs ...string) error {
	format, err := plot.FormatOf(p.path)
	if err != nil {
		return usage("--plot %w", err)
	}
	if info, err := os.Stat(p.path); err == nil {
		for _, input := range inputs {
			if in, err := os.Stat(input); err == nil && os.SameFile(in, info) {
				return usage("--plot %s: is a file that is read: name another", p.path)
			}
		}
	}
	out, err := createOut("plot", p.path, "")
	if err != nil {
		return err
	}
	if err := f.Write(out, format); err != nil {
		_ = out.discard()
		return fmt.Errorf("--plot %s: cannot be drawn: %w", p.path, err)
	}
	return out.commit()
}
