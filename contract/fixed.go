package contract

// fixed is the fixed window: a counter that begins anew with each window, windows aligned at time 0.
//
//	admit    count + cost <= r × T: count += cost
type fixed struct {
	*terms
	window uint64 // its number: now / T
	count  uint64 // units admitted in it
}

func (f *fixed) admit(now, cost uint64) verdict {
	if window := now / f.Window; window != f.window {
		f.window, f.count = window, 0
	}
	ok := f.count+cost <= f.quota
	if ok {
		f.count += cost
	}
	return f.admits(ok, now)
}

// state is the window and its count.
func (f *fixed) state() uint64 { return 16 }
