package capture

import (
	"bytes"
	"strings"
)

// Kind is what a file holds.
type Kind uint8

// What Sniff tells apart.
const (
	KindCapture Kind = iota + 1 // pcap or pcapng
	KindTrace                   // a CSV trace
)

// Sniff says by its first bytes, through gzip, whether a file is a capture or
// a CSV trace. It returns the errors of Open, ErrFormat where it is neither.
func Sniff(path string) (Kind, error) {
	in, err := openInput(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.close() }() // it was only read
	_, err = in.captureFormat()
	if err == nil {
		return KindCapture, nil
	}
	if in.isText() {
		return KindTrace, nil
	}
	return 0, err
}

type format uint8 // of a capture; 0: none that is read

const (
	formatPcap format = iota + 1
	formatPcapng
)

// magics are the first bytes of the files that are known.
var magics = []struct {
	magic  string
	format format
	name   string
}{
	{"\xd4\xc3\xb2\xa1", formatPcap, ""},
	{"\xa1\xb2\xc3\xd4", formatPcap, ""},
	{"\x4d\x3c\xb2\xa1", formatPcap, ""},
	{"\xa1\xb2\x3c\x4d", formatPcap, ""},
	{"\x0a\x0d\x0d\x0a", formatPcapng, ""},
	{"\x34\xcd\xb2\xa1", 0, "a modified pcap (Kuznetzov's)"},
	{"\xa1\xb2\xcd\x34", 0, "a modified pcap (Kuznetzov's)"},
	{"snoop\x00\x00\x00", 0, "a snoop capture"},
	{"\x1f\x8b", 0, "gzipped twice"},
	{"\x28\xb5\x2f\xfd", 0, "compressed with zstd"},
	{"\xfd7zXZ\x00", 0, "compressed with xz"},
	{"BZh", 0, "compressed with bzip2"},
}

// captureFormat says which capture format the input holds.
func (in *input) captureFormat() (format, error) {
	in.have(8)
	head := in.peek(min(8, in.buffered()))
	for _, m := range magics {
		if m.format != 0 && len(head) < len(m.magic) && strings.HasPrefix(m.magic, string(head)) {
			return 0, headerCut(in.end(int64(len(m.magic))))
		}
		if !bytes.HasPrefix(head, []byte(m.magic)) {
			continue
		}
		if m.format == 0 {
			return 0, fail(in.name, ErrFormat, "is %s, which is not read: convert it to pcap or pcapng", m.name)
		}
		return m.format, nil
	}
	return 0, fail(in.name, ErrFormat, "is no capture: it begins with % x, which is neither pcap nor pcapng", head)
}

// isText reports whether the input begins like a text: without control
// characters.
func (in *input) isText() bool {
	in.have(512)
	for _, c := range in.peek(min(512, in.buffered())) {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
