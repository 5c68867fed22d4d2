package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// choice is a flag of a few words; its first is the default.
type choice struct {
	word  string
	words []string
}

func newChoice(words ...string) *choice { return &choice{words[0], words} }

// String implements pflag.Value.
func (c *choice) String() string { return c.word }

// Type implements pflag.Value.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

// Set implements pflag.Value.
func (c *choice) Set(word string) error {
	for _, w := range c.words {
		if w == word {
			c.word = w
			return nil
		}
	}
	return usage("say %s", oneOf(c.words))
}

// oneOf joins words for a sentence: "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// period is a flag of a time that something takes.
type period time.Duration

// String implements pflag.Value.
func (p *period) String() string { return time.Duration(*p).String() }

// Type implements pflag.Value.
func (*period) Type() string { return "TIME" }

// Set implements pflag.Value.
func (p *period) Set(word string) error {
	d, err := time.ParseDuration(word)
	if err != nil {
		return usage("say a time with its unit, such as 6s or 300ms")
	}
	*p = period(d)
	return nil
}

// plain is a flag of a plain decimal number, without a unit.
type plain uint64

// String implements pflag.Value.
func (n *plain) String() string { return strconv.FormatUint(uint64(*n), 10) }

// Type implements pflag.Value.
func (*plain) Type() string { return "N" }

// Set implements pflag.Value.
func (n *plain) Set(word string) error {
	value, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return usage("say a whole number from 0 to 2^64-1")
	}
	if len(word) > 1 && word[0] == '0' {
		return usage("a leading 0 is unclear: say %d, or its octal value in decimal", value)
	}
	*n = plain(value)
	return nil
}

// addOutput adds -o with its formats, the first of which is the default.
func addOutput(cmd *cobra.Command, formats ...string) *choice {
	c := newChoice(formats...)
	cmd.Flags().VarP(c, "output", "o", "what to print: "+oneOf(formats))
	return c
}
