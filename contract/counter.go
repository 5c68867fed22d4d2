package contract

// counter is the sliding window counter: it takes what was admitted in the previous window as spread
// evenly over it, and counts the part that the sliding window still overlaps. Windows are aligned at time 0.
//
//	estimate  previous × (T - e) / T + current, e into the current window
//	admit     estimate + cost <= r × T: current += cost
//
// Both sides are multiplied by T.
type counter struct {
	*terms
	window            uint64 // number of the current one: now / T
	previous, current uint64 // units admitted
}

func (c *counter) admit(now, cost uint64) verdict {
	estimate := c.estimate(now)
	ok := !product(c.quota, c.Window).less(estimate.plus(product(cost, c.Window)))
	if ok {
		c.current += cost
	}
	return c.admits(ok, now)
}

// estimate is the estimate at now, times T.
func (c *counter) estimate(now uint64) wide {
	if window := now / c.Window; window == c.window+1 {
		c.window, c.previous, c.current = window, c.current, 0
	} else if window != c.window {
		c.window, c.previous, c.current = window, 0, 0
	}
	return product(c.previous, c.Window-now%c.Window).plus(product(c.current, c.Window))
}

// state is the window and two counts.
func (c *counter) state() uint64 { return 24 }
