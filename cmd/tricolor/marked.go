package main

import (
	"io"

	"github.com/tricolor-policer/tricolor/internal/capture"
	"github.com/tricolor-policer/tricolor/pcaptest"
)

// markedCapture writes what would come out: without what is dropped, and marked.
type markedCapture struct {
	w      io.Writer
	writer *capture.Writer // made at the first packet, whose link type is the file's
	data   []byte
}

func (m *markedCapture) write(s *pcaptest.Step) error {
	if err := m.begin(s.Packet.Link); err != nil {
		return err
	}
	if s.Outcome.Dropped {
		return nil
	}
	// The frame lacks what stands before the IP header where that is not Ethernet's.
	header := len(s.Packet.Data) - len(s.Frame.Data)
	m.data = append(append(m.data[:0], s.Packet.Data[:header]...), s.Frame.Data...)
	return m.writer.Write(s.Packet, m.data)
}

func (m *markedCapture) begin(link capture.LinkType) (err error) {
	if m.writer == nil {
		m.writer, err = capture.NewWriter(m.w, link)
	}
	return err
}

// flush makes the file whole. One without packets gets the link type of the capture's header.
func (m *markedCapture) flush(input string) error {
	if m.writer == nil {
		link := capture.LinkEthernet
		if r, err := capture.Open(input); err == nil {
			if links := r.Links(); len(links) > 0 {
				link = links[0]
			}
			r.Close()
		}
		if err := m.begin(link); err != nil {
			return err
		}
	}
	return m.writer.Flush()
}
