package main

import (
	"log/slog"
	"strings"
	"testing"
)

// What a library logs looks like any message, and a value begins no line of its own.
func TestMessages(t *testing.T) {
	var b strings.Builder
	log := slog.New(&messages{w: &b})
	log.Debug("not for a person")
	log.Info("waiting", "lock", "/a")
	log.With("pins", "/b").Warn("left", "error", "one\ntricolor: two\x1b[2J")
	const want = "tricolor: waiting (/a)\ntricolor: warning: left (/b; one\\ntricolor: two\\x1b[2J)\n"
	if b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}
