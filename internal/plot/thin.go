package plot

import "math"

// Thin keeps what can be seen of a stream of points: of each of a number of columns between two X, the first,
// the least, the greatest and the last. Spikes survive, and memory is bounded.
type Thin struct {
	from, width float64
	log         bool
	columns     int
	at          int // the column of what is held
	n           int // points in it
	first, last Point
	least, most Point
	leastAt     int // of the n
	mostAt      int
	band        bool // Low counts too
	out         []Point
}

// NewThin thins points between two X. Those that lie outside count with the first or last column.
func NewThin(from, to float64, columns int) *Thin { return newThin(from, to, columns, false) }

func newThin(from, to float64, columns int, log bool) *Thin {
	t := &Thin{from: from, log: log, columns: columns}
	if log {
		t.from, to = math.Log(from), math.Log(to)
	}
	t.width = (to - t.from) / float64(columns)
	return t
}

// Add takes the next point, by ascending X.
func (t *Thin) Add(p Point) {
	x := p.X
	if t.log {
		x = math.Log(x)
	}
	column := 0
	if t.width > 0 {
		column = int(min(max((x-t.from)/t.width, 0), float64(t.columns-1)))
	}
	if t.n > 0 && column == t.at {
		t.n++
		t.last = p
		if t.low(p) < t.low(t.least) {
			t.least, t.leastAt = p, t.n
		}
		if p.Y > t.most.Y {
			t.most, t.mostAt = p, t.n
		}
		return
	}
	t.flush()
	t.at, t.n, t.leastAt, t.mostAt = column, 1, 1, 1
	t.first, t.last, t.least, t.most = p, p, p, p
}

// low is the least that a point shows.
func (t *Thin) low(p Point) float64 {
	if t.band {
		return p.Low
	}
	return p.Y
}

// Points are those kept so far, by ascending X.
func (t *Thin) Points() []Point {
	t.flush()
	return t.out
}

func (t *Thin) flush() {
	if t.n == 0 {
		return
	}
	t.n = 0
	a, b := t.least, t.most
	if t.leastAt > t.mostAt {
		a, b = b, a
	}
	for _, p := range []Point{t.first, a, b, t.last} {
		if n := len(t.out); n == 0 || t.out[n-1] != p {
			t.out = append(t.out, p)
		}
	}
}
