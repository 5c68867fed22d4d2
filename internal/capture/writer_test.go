package capture

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket/pcapgo"
)

func TestWriterRoundTrip(t *testing.T) {
	want := []Packet{
		{1, 0, []byte("one"), 3, LinkSLL2},
		{2, math.MaxUint32*1e9 + 999_999_999, []byte{}, 1500, LinkSLL2},
		{3, 123_456_789_012, make([]byte, maxCaptured), math.MaxUint32, LinkSLL2},
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, LinkSLL2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if err := w.Write(&want[i], want[i].Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, mustRead(t, out.Bytes())); diff != "" {
		t.Error(diff)
	}
	header := []byte("\x4d\x3c\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x14\x01\x00\x00")
	if got := out.Bytes()[:24]; !bytes.Equal(got, header) {
		t.Errorf("file header % x, want % x", got, header)
	}
}

// What is written, another reader takes.
func TestWriterForPcapgo(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, LinkEthernet)
	if err != nil {
		t.Fatal(err)
	}
	p := Packet{Number: 1, Time: 1_500_000_000_000_000_007, Data: []byte("old"), Length: 60, Link: LinkEthernet}
	if err := w.Write(&p, []byte("new!")); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := pcapgo.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	data, ci, err := r.ReadPacketData()
	if err != nil || string(data) != "new!" || ci.Length != 60 || ci.Timestamp.UnixNano() != int64(p.Time) || r.Snaplen() != maxCaptured {
		t.Errorf("%q, %+v, %v", data, ci, err)
	}
	if _, _, err := r.ReadPacketData(); err != io.EOF {
		t.Errorf("after the only packet: %v", err)
	}
}

func TestWriterRefuses(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, LinkEthernet)
	if err != nil {
		t.Fatal(err)
	}
	for words, p := range map[string]Packet{
		"packet 7|4294967296 s": {Number: 7, Time: 1 << 32 * 1e9, Link: LinkEthernet},
		"LINUX_SLL|EN10MB":      {Link: LinkSLL},
		"262145":                {Data: make([]byte, maxCaptured+1), Length: maxCaptured + 1, Link: LinkEthernet},
		"length of 4294967296":  {Length: 1 << 32, Link: LinkEthernet},
		"length of -1":          {Length: -1, Link: LinkEthernet},
	} {
		err := w.Write(&p, p.Data)
		if !errors.Is(err, ErrWrite) {
			t.Errorf("%s: %v", words, err)
			continue
		}
		for _, word := range strings.Split(words, "|") {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
	if err := w.Flush(); err != nil || out.Len() != pcapHeader {
		t.Errorf("%d bytes written with nothing but refused packets, %v", out.Len(), err)
	}
}
