package marker

import "testing"

// Confirm after the deadline has passed confirms nothing: the old policy stays in force, whole.
func TestConfirmAfterTheDeadline(t *testing.T) {
	m := unconfirmed(t)                                  // 20 bytes/s until 10 s, then 10
	wantMarked(t, "lapsed", m, 28, 11*second, 1, 210-28) // by the old one
	if m.Confirm(11 * second) {
		t.Error("confirmed, 1 s too late")
	}
	f := from(1, 28)
	out := m.Packet(&f, 21*second)
	dscp, tokens := f.Data[15]>>2, bucketOf(m, out, 0).Bucket.Tc/Nano
	if dscp != 1 || tokens != 182+100-28 {
		t.Errorf("marked by policy %d, earned by the other: %d bytes left", dscp, tokens)
	}
}
