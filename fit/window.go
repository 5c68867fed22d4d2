package fit

// Arrival is a packet: its time (ns) and cost (bytes).
type Arrival struct{ Time, Cost uint64 }

// Most is the greatest sum of costs that lies within any window of a length (ns), both ends included. The arrivals
// are by ascending time.
func Most(arrivals []Arrival, window uint64) (most uint64) {
	var sum uint64
	from := 0
	for i := range arrivals {
		sum += arrivals[i].Cost
		for arrivals[i].Time-arrivals[from].Time > window {
			sum -= arrivals[from].Cost
			from++
		}
		most = max(most, sum)
	}
	return most
}
