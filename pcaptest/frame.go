// Package pcaptest runs captures and traces through the mirror, the kernel program, or both: it
// replays, and it proves that both give the same answer.
package pcaptest

import (
	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/marker"
)

// frameOf is a captured packet as a hook would see it. Ethernet keeps its link header; every other link
// type is read from its IP header on, as on a device without one. The frame's bytes are p's, at most
// bound of them.
func frameOf(p *capture.Packet, bound int) (f marker.Frame) {
	setFrame(&f, p, bound)
	return f
}

// setFrame is frameOf, in place.
func setFrame(f *marker.Frame, p *capture.Packet, bound int) {
	*f = marker.Frame{Data: p.Data, Length: uint32(p.Length), Link: marker.LinkEthernet}
	if p.Link != capture.LinkEthernet {
		family, ip, length := p.Network()
		f.Data, f.Length = ip, uint32(length)
		switch family {
		case 4:
			f.Link = marker.LinkIPv4
		case 6:
			f.Link = marker.LinkIPv6
		default:
			f.Link = marker.LinkOther
		}
	}
	f.Data = f.Data[:min(len(f.Data), bound)]
}

// FrameOf is a captured packet as a hook would see it, to the bytes that a test run of the kernel
// program takes.
func FrameOf(p *capture.Packet) marker.Frame { return frameOf(p, loader.RunMax) }
