package contract

// slidingLog remembers every admission of the last window.
//
//	forget   what was admitted at now - T or before
//	admit    sum + cost <= r × T: remember now and cost
type slidingLog struct {
	*terms
	log queue[Arrival]
	sum uint64 // units in it
}

func (l *slidingLog) admit(now, cost uint64) verdict {
	for first := l.log.first(); first != nil && now-first.Time >= l.Window; first = l.log.first() {
		l.sum -= first.Cost
		l.log.pop()
	}
	ok := l.sum+cost <= l.quota
	if ok && cost > 0 {
		l.sum += cost
		l.log.push(Arrival{now, cost})
	}
	return l.admits(ok, now)
}

// state is a time and a cost each.
func (l *slidingLog) state() uint64 { return 16 * uint64(l.log.len()) }
