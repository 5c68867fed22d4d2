package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// messages prints what libraries log as the command's other messages are printed: for a person, without time or
// keys, the values in brackets.
type messages struct {
	w      io.Writer
	values []string
}

func (m *messages) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (m *messages) Handle(_ context.Context, r slog.Record) error {
	text, values := r.Message, m.values[:len(m.values):len(m.values)]
	r.Attrs(func(a slog.Attr) bool {
		values = append(values, a.Value.String())
		return true
	})
	if len(values) > 0 {
		text += " (" + printable(strings.Join(values, "; ")) + ")"
	}
	if r.Level >= slog.LevelWarn {
		text = "warning: " + text
	}
	_, err := fmt.Fprintf(m.w, "tricolor: %s\n", text)
	return err
}

func (m *messages) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := &messages{m.w, m.values[:len(m.values):len(m.values)]}
	for _, a := range attrs {
		with.values = append(with.values, a.Value.String())
	}
	return with
}

func (m *messages) WithGroup(string) slog.Handler { return m }
