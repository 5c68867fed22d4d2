package main

import (
	"encoding/hex"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// unhex writes the bytes that files name in hexadecimal, one file after the other, to the last: unhex header
// packet out.pcap. What follows a # is a comment.
func unhex(ts *testscript.TestScript, _ bool, args []string) {
	var out []byte
	for _, file := range args[:len(args)-1] {
		for line := range strings.Lines(ts.ReadFile(file)) {
			line, _, _ = strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
			ts.Check(err)
			out = append(out, b...)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[len(args)-1]), out, 0o600))
}
