package marker

// classify returns the class a packet is of: the first that matches, or NoClass.
//
// A class has no match keys yet: the first takes every IP packet.
func classify(plan *Plan, _ *packet) uint32 {
	if len(plan.Classes) == 0 {
		return NoClass
	}
	return 0
}

// arrivalColor is the packet's arrival colour: its DSCP in the class's table.
func arrivalColor(c *Class, dscp uint8) Color {
	if c.Arrival[1]>>dscp&1 != 0 {
		return Red
	}
	return Color(c.Arrival[0] >> dscp & 1)
}
