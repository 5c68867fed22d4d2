package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/tricolor-policer/tricolor/marker"
)

// topModel is the live screen.
type topModel struct {
	read     func(*topChoice) topFrame
	interval time.Duration

	frame  topFrame
	chosen int // which of the frame's hooks is shown
	choice topChoice
	scroll int // buckets above the first one shown
	most   int // what scroll is at most
	paused bool
	typing bool   // a filter is being typed
	text   string // as typed so far
	help   bool
	noBars bool

	reading bool // a reading, or the wait before it, is under way
	glyphs  glyphs
	width   int
	height  int
}

// What the screen is told.
type (
	topTick struct{}
	topRead struct{ frame topFrame }
)

// Init implements tea.Model.
func (m *topModel) Init() tea.Cmd { return m.wait() }

// wait has the next reading begin after an interval.
func (m *topModel) wait() tea.Cmd {
	m.reading = true
	return tea.Tick(m.interval, func(time.Time) tea.Msg { return topTick{} })
}

// Update implements tea.Model.
func (m *topModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case topTick:
		if m.paused {
			m.reading = false
			return m, nil
		}
		choice, read := m.choice, m.read
		return m, func() tea.Msg { return topRead{read(&choice)} }
	case topRead:
		if !m.paused { // else what is shown stays, and the next rates are over all of the pause but this
			m.frame = msg.frame
			m.chosen = max(min(m.chosen, len(m.frame.hooks)-1), 0)
		}
		return m, m.wait()
	case tea.KeyPressMsg:
		if m.typing {
			return m, m.typed(msg)
		}
		return m, m.pressed(msg.String())
	}
	return m, nil
}

// typed takes a key into the filter.
func (m *topModel) typed(key tea.KeyPressMsg) tea.Cmd {
	switch key.String() {
	case "ctrl+c":
		return tea.Quit
	case "enter":
		m.choice.filter, m.typing, m.scroll = newTopFilter(strings.TrimSpace(m.text)), false, 0
	case "esc":
		m.typing = false
	case "backspace":
		runes := []rune(m.text)
		m.text = string(runes[:max(len(runes)-1, 0)])
	case "ctrl+u":
		m.text = ""
	default:
		if len(m.text)+len(key.Text) <= 200 {
			m.text += key.Text
		}
	}
	return nil
}

// pressed does what a key says.
func (m *topModel) pressed(key string) tea.Cmd {
	if m.help && key != "q" && key != "ctrl+c" {
		m.help = false
		return nil
	}
	switch key {
	case "q", "ctrl+c":
		return tea.Quit
	case "ctrl+z":
		return tea.Suspend
	case "s", "right":
		m.sort(1)
	case "S", "left":
		m.sort(len(topOrders) - 1)
	case "u":
		m.choice.packets = !m.choice.packets
	case "b":
		m.noBars = !m.noBars
	case "c":
		m.choice.only, m.scroll = (m.choice.only+1)%(marker.Colors+1), 0
	case "/":
		m.typing, m.text = true, m.choice.filter.text
	case "esc":
		m.choice.filter, m.choice.only, m.scroll = topFilter{}, marker.Colors, 0
	case "space", "p":
		m.paused = !m.paused
		if !m.paused && !m.reading {
			m.reading = true
			return func() tea.Msg { return topTick{} }
		}
	case "tab", "shift+tab":
		step := 1
		if key == "shift+tab" {
			step = len(m.frame.hooks) - 1
		}
		if n := len(m.frame.hooks); n > 0 {
			m.chosen, m.scroll = (m.chosen+step)%n, 0
		}
	case "up", "k":
		m.scroll = max(m.scroll-1, 0)
	case "down", "j":
		m.scroll = min(m.scroll+1, m.most)
	case "pgup":
		m.scroll = max(m.scroll-10, 0)
	case "pgdown":
		m.scroll = min(m.scroll+10, m.most)
	case "home":
		m.scroll = 0
	case "?", "h":
		m.help = true
	}
	return nil
}

// sort sorts by the order that stands so many further.
func (m *topModel) sort(step int) {
	at := slices.Index(topOrders, m.choice.order)
	m.choice.order, m.scroll = topOrders[(at+step)%len(topOrders)], 0
}

// hook is the attachment that is shown; nil where there is none.
func (m *topModel) hook() *topHook {
	if m.chosen >= len(m.frame.hooks) {
		return nil
	}
	return m.frame.hooks[m.chosen]
}

// sortedClasses are the classes in the order that was chosen. No filter hides one.
func (m *topModel) sortedClasses(h *topHook) []topClass {
	all := slices.Clone(h.classes)
	order := m.choice
	order.only = marker.Colors
	slices.SortStableFunc(all, func(a, b topClass) int {
		return cmp.Compare(order.rank(&b.counted.Packets, &b.counted.Bytes), order.rank(&a.counted.Packets, &a.counted.Bytes))
	})
	return all
}

// sortedKeys are the buckets that were read and are wanted, in the order that was chosen. They are those of the
// choice at the time of the reading: another filter shows what it takes of them until the next one.
func (m *topModel) sortedKeys(h *topHook) []*topKey {
	var wanted []*topKey
	for i := range h.keys {
		k := &h.keys[i]
		if m.choice.rank(&k.packets, &k.bytes) > 0 && m.choice.filter.takes(k.names, &k.key) {
			wanted = append(wanted, k)
		}
	}
	slices.SortStableFunc(wanted, func(a, b *topKey) int {
		return cmp.Compare(m.choice.rank(&b.packets, &b.bytes), m.choice.rank(&a.packets, &a.bytes))
	})
	return wanted
}

// View implements tea.Model.
func (m *topModel) View() tea.View {
	lines := m.lines()
	if m.help {
		lines = m.helpLines()
	}
	view := tea.NewView(strings.Join(lines, "\n"))
	view.AltScreen = true
	return view
}

func (m *topModel) helpLines() []string {
	lines := slices.Clone(topHelp)
	lines = lines[:min(len(lines), max(m.height, 1))]
	for i := range lines {
		lines[i] = m.cut(lines[i], max(m.width, minWidth))
	}
	return lines
}
