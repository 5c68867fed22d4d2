package bpf_test

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"testing"

	"github.com/tricolor-policer/tricolor/bpf"
)

// The hash is that of the committed object of this machine's byte order.
func TestObjectSHA256(t *testing.T) {
	file := "policer_bpfel.o"
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		file = "policer_bpfeb.o"
	}
	object, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := bpf.ObjectSHA256(), sha256.Sum256(object); got != want {
		t.Errorf("SHA-256 %x; %s has %x", got, file, want)
	}
}
