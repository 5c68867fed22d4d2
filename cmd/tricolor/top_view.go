package main

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/tricolor-policer/tricolor/marker"
)

// glyphs are what a screen is drawn with.
type glyphs struct{ full, empty, cut string }

var (
	blockGlyphs = glyphs{"█", "░", "…"}
	asciiGlyphs = glyphs{"#", ".", "~"}
)

var (
	colorStyles = [marker.Colors]lipgloss.Style{
		lipgloss.NewStyle().Foreground(lipgloss.Green),
		lipgloss.NewStyle().Foreground(lipgloss.Yellow),
		lipgloss.NewStyle().Foreground(lipgloss.Red),
	}
	headStyle = lipgloss.NewStyle().Reverse(true)
	boldStyle = lipgloss.NewStyle().Bold(true)
	letters   = [marker.Colors]string{"G", "Y", "R"}
)

const (
	barCells  = 6
	rateCells = 8
	wideFrom  = 110 // columns: both bit/s and packets/s have room
	minWidth  = 4
)

// lines draws the screen: height lines of at most width cells.
func (m *topModel) lines() []string {
	width, height := max(m.width, minWidth), max(m.height, 1)
	h := m.hook()
	var out []string
	add := func(line string) { out = append(out, m.cut(line, width)) }
	add(m.title(h))
	if h != nil {
		add(m.table(h))
		add(m.notes(h))
		m.addClasses(h, width, height, add)
		m.addKeys(h, width, height-len(out)-1, add)
	}
	for len(out) < height-1 {
		out = append(out, "")
	}
	out = out[:max(height-1, 0)]
	add(m.footer())
	return out
}

// cut shortens a line to a width, and says so.
func (m *topModel) cut(line string, width int) string {
	return ansi.Truncate(line, width, m.glyphs.cut)
}

func (m *topModel) title(h *topHook) string {
	var b strings.Builder
	b.WriteString("tricolor top  ")
	if h == nil {
		return b.String()
	}
	b.WriteString(boldStyle.Render(printable(h.device) + " " + h.direction))
	if n := len(m.frame.hooks); n > 1 {
		fmt.Fprintf(&b, " (%d of %d)", m.chosen+1, n)
	}
	if h.elapsed > 0 {
		fmt.Fprintf(&b, "  over %s", elapsedText(h.elapsed))
	}
	if m.paused {
		b.WriteString("  " + headStyle.Render("PAUSED"))
	}
	if m.choice.only < marker.Colors {
		fmt.Fprintf(&b, "  only with %v", m.choice.only)
	}
	if m.choice.filter.text != "" {
		fmt.Fprintf(&b, "  filter %s", printable(m.choice.filter.text))
	}
	return b.String()
}

// table says how full the table is, and what the counters of no class say.
func (m *topModel) table(h *topHook) string {
	var parts []string
	for _, s := range h.stages {
		part := s.String()
		if len(h.stages) > 1 {
			part = fmt.Sprintf("meter %d: %s", s.Meter, part)
		}
		parts = append(parts, part)
	}
	return strings.Join(append(parts, topExtras(h)...), "; ")
}

// topExtras says what was counted meanwhile besides colours, where that is not nothing.
func topExtras(h *topHook) (parts []string) {
	add := func(n uint64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s/s", compact(perSecond(n, h.elapsed)), what))
		}
	}
	var overflow, contended uint64
	for i := range h.classes {
		overflow += h.classes[i].counted.Overflow
		contended += h.classes[i].counted.Contended
	}
	add(overflow, "overflow")
	add(contended, "contended")
	add(h.port.Unmatched, "unmatched")
	add(h.port.NotIP, "not IP")
	add(h.port.Malformed, "malformed")
	add(h.port.Unread, "unread")
	return parts
}

// notes says what is wrong, or happened.
func (m *topModel) notes(h *topHook) string {
	var parts []string
	if m.frame.fault != nil {
		parts = append(parts, printable(strings.Join(strings.Fields(m.frame.fault.Error()), " ")))
	}
	if h.state != "" {
		parts = append(parts, h.state)
	}
	if h.pending > 0 {
		parts = append(parts, unconfirmedFor(h.pending))
	}
	if h.torn > 0 {
		parts = append(parts, plural(uint64(h.torn), "set", "sets")+" could not be read")
	}
	if h.event != "" {
		parts = append(parts, h.event)
	}
	if len(parts) == 0 {
		return ""
	}
	return boldStyle.Render(strings.Join(parts, "; "))
}

// head is the heads of the rates' columns.
func (m *topModel) head(width int) string {
	unit, other := "bit/s", "pkt/s"
	if m.choice.packets {
		unit, other = other, unit
	}
	var b strings.Builder
	for color := range marker.Colors {
		fmt.Fprintf(&b, "%*s", rateCells, letters[color]+" "+unit)
	}
	if width < wideFrom {
		fmt.Fprintf(&b, "%*s", rateCells, other)
		return b.String()
	}
	for color := range marker.Colors {
		fmt.Fprintf(&b, "%*s", rateCells, letters[color]+" "+other)
	}
	return b.String()
}

// rates are the cells of head.
func (m *topModel) rates(packets, bytes *[marker.Colors]uint64, elapsed uint64, width int) string {
	var bit [marker.Colors]uint64
	for color := range bit {
		bit[color] = bitRate(bytes[color], elapsed)
	}
	var packet [marker.Colors]uint64
	for color := range packet {
		packet[color] = perSecond(packets[color], elapsed)
	}
	first, other := &bit, &packet
	rest := perSecond(total(*packets), elapsed)
	if m.choice.packets {
		first, other, rest = other, first, bitRate(total(*bytes), elapsed)
	}
	var b strings.Builder
	cell := func(rate uint64, style *lipgloss.Style) {
		text := "?"
		if elapsed > 0 {
			text = compact(rate)
		}
		padded := fmt.Sprintf("%*s", rateCells, text)
		if style != nil && rate > 0 {
			padded = style.Render(padded)
		}
		b.WriteString(padded)
	}
	for color := range marker.Colors {
		cell(first[color], &colorStyles[color])
	}
	if width < wideFrom {
		cell(rest, nil)
		return b.String()
	}
	for color := range marker.Colors {
		cell(other[color], &colorStyles[color])
	}
	return b.String()
}

// barsFrom is the narrowest screen with bars.
const barsFrom = 60

func (m *topModel) bars(width int) bool { return width >= barsFrom && !m.noBars }

func (m *topModel) addClasses(h *topHook, width, height int, add func(string)) {
	head := m.head(width)
	if m.bars(width) {
		head += fmt.Sprintf("  %-*s", 2*barCells, "share")
	}
	add(headStyle.Render(pad(head+"  class", width)))
	classes := m.sortedClasses(h)
	room := max((height-6)/3, 1)
	if len(classes) > room {
		room = max(room-1, 1)
	}
	for i := range classes[:min(room, len(classes))] {
		c := &classes[i]
		line := m.rates(&c.counted.Packets, &c.counted.Bytes, h.elapsed, width)
		if m.bars(width) {
			line += "  " + shares(&c.counted.Bytes)
		}
		add(line + "  " + printable(c.name))
	}
	if more := len(classes) - room; more > 0 {
		add(fmt.Sprintf("%*s", rateCells, m.glyphs.cut) + " " + plural(uint64(more), "more class", "more classes"))
	}
}

// shares is a bar of letters: the parts of a class's bytes by colour.
func shares(bytes *[marker.Colors]uint64) string {
	const cells = 2*barCells + 1
	whole := total(*bytes)
	if whole == 0 {
		return strings.Repeat(" ", cells)
	}
	var parts [marker.Colors]int
	left, most := cells, marker.Green
	for color := range marker.Colors {
		if bytes[color] > 0 { // however little
			parts[color] = max(int(permille(bytes[color], whole))*cells/1000, 1)
		}
		left -= parts[color]
		if bytes[color] > bytes[most] {
			most = color
		}
	}
	parts[most] += left
	var b strings.Builder
	for color := range marker.Colors {
		b.WriteString(colorStyles[color].Render(strings.Repeat(letters[color], parts[color])))
	}
	return b.String()
}

func (m *topModel) addKeys(h *topHook, width, height int, add func(string)) {
	head := m.head(width)
	if m.bars(width) {
		head += fmt.Sprintf("  %-*s %-*s", barCells, "C", barCells, "E|P")
	}
	over := ""
	if h.keysElapsed > h.elapsed*3/2 {
		over = ", over " + elapsedText(h.keysElapsed)
	}
	order := m.choice.order
	if order != "bytes" && order != "packets" {
		order += map[bool]string{false: " bytes", true: " packets"}[m.choice.packets]
	}
	add(headStyle.Render(pad(fmt.Sprintf("%s  bucket: %d active, most %s%s", head, h.active, order, over), width)))
	height = max(height, 1)
	keys := m.sortedKeys(h)
	m.most = max(len(keys)-(height-1), 0)
	m.scroll = min(m.scroll, m.most)
	keys = keys[m.scroll:]
	switch {
	case len(keys) > 0:
	case h.state != "" && h.keysElapsed == 0:
	case h.keysElapsed == 0:
		add("  the first rates come after one interval")
	case h.active > 0:
		add("  no bucket that counted a packet is wanted by the filter")
	default:
		add("  no bucket counted a packet")
	}
	for i := range keys[:min(height-1, len(keys))] {
		k := keys[i]
		line := m.rates(&k.packets, &k.bytes, h.keysElapsed, width)
		if m.bars(width) {
			line += "  " + m.bar(k.Tc, k.CBS) + " " + m.bar(k.Te, k.EBS)
		}
		add(line + "  " + k.name)
	}
}

// bar draws how full a bucket is; nothing where there is none. Only what is full is drawn full, and only what is
// empty is drawn empty.
func (m *topModel) bar(tokens, burst uint64) string {
	if burst == 0 {
		return strings.Repeat(" ", barCells)
	}
	cells := int(permille(tokens, burst)) * barCells / 1000
	switch {
	case cells == 0 && tokens > 0:
		cells = 1
	case cells == barCells && tokens < burst:
		cells = barCells - 1
	}
	return strings.Repeat(m.glyphs.full, cells) + strings.Repeat(m.glyphs.empty, barCells-cells)
}

func (m *topModel) footer() string {
	if m.typing {
		return "filter (address, prefix, :port, class): " + printable(m.text) + "_"
	}
	return "q quit  s sort  u unit  / filter  c colour  space pause  tab device  ? help"
}

// topHelp is the screen's help.
var topHelp = []string{
	"tricolor top: what is policed, and what it does to traffic",
	"",
	"  q, ctrl-c      quit",
	"  s, S           sort by the next column: bytes, packets, green, yellow, red",
	"  u              colours in bit/s or in packets/s",
	"  b              bars, or more room for names",
	"  /              filter: 10.1.2.3  10.1  2001:db8::/32  :443  voice  udp",
	"                 (words must all hold; an empty filter takes all)",
	"  c              only buckets that had green, yellow, red packets; all",
	"  space, p       pause: nothing is read; the next rates are over all of the pause",
	"  tab, shift-tab the next device or direction",
	"  up, down, pgup, pgdn   scroll the buckets",
	"",
	"G Y R: green, yellow, red. C and E|P: how full a bucket's tokens are now.",
	"After another sort or filter the order is exact from the next reading on.",
}

// pad fills a line with spaces.
func pad(line string, width int) string {
	return line + strings.Repeat(" ", max(width-ansi.StringWidth(line), 0))
}

// perSecond is a count in elapsed ns as a rate, rounded half up.
func perSecond(n, elapsed uint64) uint64 {
	if elapsed == 0 {
		return 0
	}
	hi, lo := bits.Mul64(n, marker.Nano)
	lo, carry := bits.Add64(lo, elapsed/2, 0)
	if hi+carry >= elapsed {
		return ^uint64(0)
	}
	q, _ := bits.Div64(hi+carry, lo, elapsed)
	return q
}

// bitRate is a count of bytes in elapsed ns in bit/s.
func bitRate(bytes, elapsed uint64) uint64 {
	if bytes > ^uint64(0)/8 {
		return ^uint64(0)
	}
	return perSecond(8*bytes, elapsed)
}

// compact prints a number in at most five cells, with three figures, rounded down: "12.3M".
func compact(n uint64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	steps, suffix := "kMGTPE", 0
	unit := uint64(1000)
	for n/unit >= 1000 && suffix < len(steps)-1 {
		unit *= 1000
		suffix++
	}
	whole := n / unit
	switch {
	case whole >= 100:
		return fmt.Sprintf("%d%c", whole, steps[suffix])
	case whole >= 10:
		return fmt.Sprintf("%d.%d%c", whole, n%unit/(unit/10), steps[suffix])
	}
	return fmt.Sprintf("%d.%02d%c", whole, n%unit/(unit/100), steps[suffix])
}

// elapsedText prints ns for a person: "1.00 s".
func elapsedText(ns uint64) string {
	if ns >= 60*marker.Nano {
		return duration(ns)
	}
	return fmt.Sprintf("%.2f s", time.Duration(ns).Seconds())
}
