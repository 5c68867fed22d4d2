package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/marker"
)

type counts = [marker.Colors]uint64

// handmade is a screen of two hooks, one of them with 9 classes and 40 buckets, some with hostile names.
func handmade() *topModel {
	first := &topHook{
		device: "eth0", direction: "ingress", elapsed: marker.Nano, keysElapsed: marker.Nano, active: 40,
		event:  "12:00:05 the policy changed",
		stages: []stageUse{{Meter: 1, Slots: 1 << 20, Used: 500_000}},
		port:   marker.PortStats{Unmatched: 12_345, Malformed: 3},
	}
	for i := range uint64(9) {
		c := topClass{name: fmt.Sprintf("class-%d", i)}
		c.counted.Packets, c.counted.Bytes = counts{1000 * i, 10 * i, i}, counts{1_000_000 * i, 10_000 * i, 1000 * i}
		first.classes = append(first.classes, c)
	}
	first.classes[8].name = "\x1b]0;owned\a日本語日本語"
	first.classes[3].counted.Overflow = 7
	names := newBucketNames(&marker.Plan{})
	for i := range uint64(40) {
		k := topKey{
			bucketJSON: bucketJSON{
				name: fmt.Sprintf("customers/1 udp 192.168.100.%d:50000 > 10.200.100.100:443", i),
				Tc:   i * marker.Nano, CBS: 39 * marker.Nano, Te: (39 - i) * marker.Nano, EBS: 39 * marker.Nano,
			},
			packets: counts{100 * i, i % 3, i % 2}, bytes: counts{150_000 * i, 100 * (i % 3), 1_000_000 * (i % 2)}, names: names,
			key: (&marker.KeyFields{Src: [16]byte{192, 168, 100, byte(i)}, Proto: 17, Sport: [2]byte{0xc3, 0x50}}).Key(),
		}
		first.keys = append(first.keys, k)
	}
	first.keys[5].EBS, first.keys[5].Te = 0, 0
	second := &topHook{device: "eth0", direction: "egress", state: "not policed any longer"}
	return &topModel{
		frame: topFrame{hooks: []*topHook{first, second}}, choice: topChoice{order: "bytes", only: marker.Colors},
		glyphs: blockGlyphs, width: 80, height: 24, interval: time.Second,
	}
}

// press has the screen take keys.
func press(m *topModel, keys ...string) (quit bool) {
	for _, key := range keys {
		press := tea.KeyPressMsg{Code: []rune(key)[0], Text: key}
		if code, ok := map[string]tea.KeyPressMsg{
			"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "space": {Code: ' ', Text: " "},
			"shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift}, "backspace": {Code: tea.KeyBackspace}, "down": {Code: tea.KeyDown},
			"pgdown": {Code: tea.KeyPgDown}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl},
		}[key]; ok {
			press = code
		}
		_, cmd := m.Update(press)
		if cmd != nil {
			_, quit = cmd().(tea.QuitMsg)
		}
	}
	return quit
}

// shown is the screen as a person without colour sees it.
func shown(m *topModel) string { return ansi.Strip(m.View().Content) }

// The screen, as it was drawn when somebody looked at it last: go test -run TopGolden -update.
func TestTopGolden(t *testing.T) {
	for _, c := range []struct {
		name          string
		width, height int
		keys          []string
	}{
		{"plain", 80, 24, nil},
		{"red", 80, 24, []string{"s", "s", "s", "s", "c", "c", "c"}},
		{"packets", 80, 24, []string{"s", "u"}},
		{"filter", 80, 24, []string{"/", "1", "9", "2", ".", "1", "6", "8", ".", "1", "0", "0", ".", "7", " ", ":", "5", "0", "0", "0", "1", "backspace", "0", "enter"}},
		{"typing", 80, 24, []string{"/", "v", "o"}},
		{"paused", 80, 24, []string{"space", "pgdown", "pgdown", "down"}},
		{"end", 80, 24, []string{"pgdown", "pgdown", "pgdown", "pgdown", "pgdown"}},
		{"nobars", 80, 24, []string{"b"}},
		{"second", 80, 24, []string{"tab"}},
		{"help", 80, 24, []string{"?"}},
		{"narrow", 50, 14, nil},
		{"tiny", 20, 5, nil},
		{"wide", 132, 30, nil},
		{"ascii", 80, 24, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := handmade()
			if c.name == "ascii" {
				m.glyphs = asciiGlyphs
				m.frame.hooks[0].classes = m.frame.hooks[0].classes[:8]
			}
			m.Update(tea.WindowSizeMsg{Width: c.width, Height: c.height})
			m.View() // tells how far it scrolls
			press(m, c.keys...)
			got := shown(m) + "\n"
			file := filepath.Join("testdata", "top", c.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the screen is\n%s\nwant\n%s", got, want)
			}
			if c.name == "ascii" && strings.ContainsFunc(got, func(r rune) bool { return r > 127 }) {
				t.Error("a screen in ASCII is not")
			}
		})
	}
}

// Whatever the size and the keys, a screen is as high as the terminal, no line is wider, and nothing but colour
// escapes is sent.
func TestTopFits(t *testing.T) {
	r := rand.New(rand.NewPCG(testutils.Seed(t), 0))
	keys := []string{"s", "S", "u", "c", "tab", "shift+tab", "down", "pgdown", "/", "1", "enter", "esc", "space", "?", "x", "k", "j"}
	for range 100 {
		m := handmade()
		m.frame.fault = errors.New("a fault\nof several\x1b[2J lines")
		m.Update(tea.WindowSizeMsg{Width: 1 + r.IntN(200), Height: 1 + r.IntN(60)})
		for range r.IntN(20) {
			press(m, keys[r.IntN(len(keys))])
			m.View()
		}
		lines := strings.Split(m.View().Content, "\n")
		if len(lines) != m.height && !m.help || len(lines) > m.height {
			t.Fatalf("%d lines on a terminal of %d", len(lines), m.height)
		}
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > max(m.width, minWidth) {
				t.Fatalf("a line of %d cells on %d columns: %q", w, m.width, line)
			}
			if plain := ansi.Strip(line); strings.ContainsFunc(plain, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Fatalf("a terminal would obey %q", plain)
			}
		}
	}
}

// What is paused stays; what is read meanwhile is dropped; going on reads at once. Quitting quits.
func TestTopPause(t *testing.T) {
	m := handmade()
	reads := 0
	m.read = func(*topChoice) topFrame { reads++; return handmade().frame }
	m.Init()
	press(m, "space")
	if _, cmd := m.Update(topTick{}); cmd != nil || reads != 0 {
		t.Error("a paused screen reads")
	}
	before := shown(m)
	if _, cmd := m.Update(tea.KeyPressMsg{Code: 'p', Text: "p"}); cmd == nil {
		t.Error("going on does not read")
	} else if _, cmd = m.Update(cmd()); cmd == nil {
		t.Error("going on does not read")
	} else if _, cmd = m.Update(cmd()); cmd == nil || reads != 1 {
		t.Errorf("it read %d times, and goes not on", reads)
	}
	if !strings.Contains(before, "PAUSED") || strings.Contains(shown(m), "PAUSED") {
		t.Error("the screen does not say whether it is paused")
	}
	if !press(m, "q") || !press(m, "ctrl+c") || !press(m, "/", "ctrl+c") {
		t.Error("it does not quit")
	}
}

// A hook that went away leaves another chosen.
func TestTopFewer(t *testing.T) {
	m := handmade()
	press(m, "tab")
	frame := m.frame
	frame.hooks = frame.hooks[:1]
	m.Update(topRead{frame})
	if !strings.Contains(shown(m), "eth0 ingress") {
		t.Error(shown(m))
	}
	m.Update(topRead{topFrame{fault: errors.New("gone")}})
	if m.View(); press(m, "tab", "s", "down") {
		t.Error("it quits")
	}
}

func TestCompact(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 999: "999", 1000: "1.00k", 9_999: "9.99k", 12_345: "12.3k", 999_999: "999k", 1_000_000: "1.00M",
		400_000_000_000: "400G", ^uint64(0): "18.4E",
	} {
		if got := compact(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	if got := perSecond(3, 2*marker.Nano); got != 2 {
		t.Errorf("3 in 2 s are %d a second", got)
	}
	if got := perSecond(^uint64(0), 1); got != ^uint64(0) {
		t.Errorf("too many are %d", got)
	}
}

// Only what is full is drawn full, only what is empty empty; a class's bar has its letters.
func TestTopBars(t *testing.T) {
	m := handmade()
	for _, c := range []struct {
		tokens, burst uint64
		want          string
	}{{0, 9, "░░░░░░"}, {1, 1000, "█░░░░░"}, {999, 1000, "█████░"}, {9, 9, "██████"}, {5, 10, "███░░░"}, {0, 0, "      "}} {
		if got := m.bar(c.tokens, c.burst); got != c.want {
			t.Errorf("%d of %d is %s, want %s", c.tokens, c.burst, got, c.want)
		}
	}
	if got := ansi.Strip(shares(&counts{50, 25, 25})); got != "GGGGGGGYYYRRR" {
		t.Errorf("shares are %s", got)
	}
	if got := ansi.Strip(shares(&counts{1, 0, 1_000_000})); got != "GRRRRRRRRRRRR" {
		t.Errorf("shares are %s", got)
	}
}

func TestTopFilter(t *testing.T) {
	plan := &marker.Plan{
		Profiles: []marker.Profile{{Name: "gold"}},
		Classes: []marker.Class{{Name: "Voice", Meters: []marker.Meter{
			marker.NewMeter(0, 0, marker.PerFlow, [2]int{32, 64}), marker.NewMeter(0, 1, marker.PerDst, [2]int{32, 64}),
		}}},
	}
	plan.Classes[0].Meters[0].Family, plan.Classes[0].Meters[1].Family = 1, 2
	names := newBucketNames(plan)
	flow := marker.KeyFields{Src: [16]byte{10, 1, 2, 3}, Dst: [16]byte{192, 0, 2, 1}, Proto: 17, Sport: [2]byte{0, 53}, Dport: [2]byte{1, 0xbb}, Class: 1}
	dst := marker.KeyFields{Dst: [16]byte{0x20, 1, 0xd, 0xb8}, Kind: uint8(marker.PerDst) | 1<<4 | 0x80, Class: 2}
	for text, want := range map[string][2]bool{
		"": {true, true}, "10.1": {true, false}, "10.": {true, false}, "10.1.2.3": {true, false}, "10.2": {false, false},
		"192.0.2.0/24": {true, false}, "10.1 192.0": {true, false}, "10.1 11.1": {false, false}, "::/0": {false, true},
		"2001:db8::/32": {false, true}, ":443": {true, false}, ":53 :443": {true, false}, ":44": {false, false},
		"voice": {true, true}, "VOI gold": {true, true}, "udp": {true, false}, "dst": {false, true}, "tcp": {false, false},
		"voice :443": {true, false}, "1.2.3.4.5": {false, false},
	} {
		f := newTopFilter(text)
		for i, fields := range []marker.KeyFields{flow, dst} {
			key := fields.Key()
			if got := f.takes(names, &key); got != want[i] {
				t.Errorf("%q takes %v: %v, want %v", text, fields, got, want[i])
			}
		}
	}
}
