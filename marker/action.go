package marker

import (
	"fmt"
	"strings"
)

// Verb is what is done to a packet, a set of bits; none is pass.
type Verb uint8

// What is done to a packet.
const (
	VerbDrop     Verb = 1 << iota
	VerbDSCP          // write Action.DSCP; with VerbCE, where the packet is not ECN-capable
	VerbCE            // write CE if the packet is ECN-capable
	VerbMark          // set the skb's mark to Action.Mark
	VerbPriority      // set the skb's priority to Action.Priority
)

// Action is what is done to packets of one colour.
type Action struct {
	Verbs    Verb
	DSCP     uint8
	Mark     uint32
	Priority uint32
}

// String returns the verbs as in a policy's flags: pass, drop, or several: ecn-ce,dscp=af12,mark=5.
func (a Action) String() string {
	if a.Verbs&VerbDrop != 0 {
		return "drop"
	}
	var words []string
	if a.Verbs&VerbCE != 0 {
		words = append(words, "ecn-ce")
	}
	if a.Verbs&VerbDSCP != 0 {
		words = append(words, "dscp="+DSCPName(a.DSCP))
	}
	if a.Verbs&VerbMark != 0 {
		words = append(words, fmt.Sprintf("mark=%d", a.Mark))
	}
	if a.Verbs&VerbPriority != 0 {
		words = append(words, fmt.Sprintf("priority=%d", a.Priority))
	}
	if len(words) == 0 {
		return "pass"
	}
	return strings.Join(words, ",")
}
