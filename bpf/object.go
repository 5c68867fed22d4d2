package bpf

import "crypto/sha256"

// MinKernel is the oldest Linux whose verifier takes the program, major.minor.
const MinKernel = "6.1"

// ObjectSHA256 is the SHA-256 of the embedded object of this machine's byte order: the object that the
// loader loads, byte for byte.
func ObjectSHA256() [sha256.Size]byte { return sha256.Sum256(_PolicerBytes) }
