package maps

import (
	"testing"
	"unsafe"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/marker"
)

// The mirror's types lie in memory as the kernel's do, or a dump would read nonsense.
func TestLayout(t *testing.T) {
	var (
		kernel bpf.PolicerSlot
		mirror marker.Slot
		fields bpf.PolicerKeyFields
		key    marker.KeyFields
	)
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		{"size of a slot", unsafe.Sizeof(mirror), unsafe.Sizeof(kernel)},
		{"size of a set", unsafe.Sizeof(marker.Set{}), unsafe.Sizeof(bpf.PolicerSet{})},
		{"slot.key", unsafe.Offsetof(mirror.Key), unsafe.Offsetof(kernel.Key)},
		{"slot.lock", unsafe.Offsetof(mirror.Lock), unsafe.Offsetof(kernel.Lock)},
		{"slot.tags", unsafe.Offsetof(mirror.Tags), unsafe.Offsetof(kernel.Tags)},
		{"slot.bucket.last", unsafe.Offsetof(mirror.Bucket) + unsafe.Offsetof(mirror.Bucket.Last), unsafe.Offsetof(kernel.Bucket) + unsafe.Offsetof(kernel.Bucket.Last)},
		{"slot.bucket.tc", unsafe.Offsetof(mirror.Bucket) + unsafe.Offsetof(mirror.Bucket.Tc), unsafe.Offsetof(kernel.Bucket) + unsafe.Offsetof(kernel.Bucket.Tc)},
		{"slot.bucket.tx", unsafe.Offsetof(mirror.Bucket) + unsafe.Offsetof(mirror.Bucket.Tx), unsafe.Offsetof(kernel.Bucket) + unsafe.Offsetof(kernel.Bucket.Tx)},
		{"slot.packets", unsafe.Offsetof(mirror.Packets), unsafe.Offsetof(kernel.Packets)},
		{"slot.bytes", unsafe.Offsetof(mirror.Bytes), unsafe.Offsetof(kernel.Bytes)},
		{"slot.profile", unsafe.Offsetof(mirror.Profile), unsafe.Offsetof(kernel.Profile)},
		{"slot.generation", unsafe.Offsetof(mirror.Generation), unsafe.Offsetof(kernel.Generation)},
		{"size of a key", unsafe.Sizeof(key), unsafe.Sizeof(fields)},
		{"key.dst", unsafe.Offsetof(key.Dst), unsafe.Offsetof(fields.Dst)},
		{"key.sport", unsafe.Offsetof(key.Sport), unsafe.Offsetof(fields.Sport)},
		{"key.dport", unsafe.Offsetof(key.Dport), unsafe.Offsetof(fields.Dport)},
		{"key.proto", unsafe.Offsetof(key.Proto), unsafe.Offsetof(fields.Proto)},
		{"key.kind", unsafe.Offsetof(key.Kind), unsafe.Offsetof(fields.Kind)},
		{"key.class", unsafe.Offsetof(key.Class), unsafe.Offsetof(fields.Class)},
		{"seeds", marker.HashSeeds, uintptr(len(bpf.PolicerTable{}.Seeds))},
		{"classes", marker.MaxClasses, uintptr(len(bpf.PolicerPolicy{}.Class))},
		{"chain", marker.MaxChain, uintptr(len(bpf.PolicerPolicy{}.Class[0].Meters))},
		{"slots of a set", marker.SetSlots, uintptr(len(bpf.PolicerSet{}.Slots))},
		{"colours", uintptr(marker.Colors), uintptr(bpf.PolicerColorCOLORS)},
		{"name", marker.MaxName + 1, uintptr(len(bpf.PolicerPolicy{}.Class[0].Name))},
	} {
		if c.got != c.want {
			t.Errorf("%s: the mirror says %d, the kernel %d", c.what, c.got, c.want)
		}
	}
}

// The enums, whose names generation makes unlike.
func TestEnums(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want uint32
	}{
		{"green", uint32(marker.Green), uint32(bpf.PolicerColorGREEN)},
		{"yellow", uint32(marker.Yellow), uint32(bpf.PolicerColorYELLOW)},
		{"red", uint32(marker.Red), uint32(bpf.PolicerColorRED)},
		{"token", uint32(marker.Token), uint32(bpf.PolicerMeterTypeMETER_TOKEN)},
		{"srtcm", uint32(marker.SRTCM), uint32(bpf.PolicerMeterTypeMETER_SRTCM)},
		{"trtcm", uint32(marker.TRTCM), uint32(bpf.PolicerMeterTypeMETER_TRTCM)},
		{"rfc4115", uint32(marker.RFC4115), uint32(bpf.PolicerMeterTypeMETER_RFC4115)},
		{"per flow", uint32(marker.PerFlow), uint32(bpf.PolicerPerPER_FLOW)},
		{"per src", uint32(marker.PerSrc), uint32(bpf.PolicerPerPER_SRC)},
		{"per dst", uint32(marker.PerDst), uint32(bpf.PolicerPerPER_DST)},
		{"per vlan", uint32(marker.PerVLAN), uint32(bpf.PolicerPerPER_VLAN)},
		{"per dscp", uint32(marker.PerDSCP), uint32(bpf.PolicerPerPER_DSCP)},
		{"per class", uint32(marker.PerClass), uint32(bpf.PolicerPerPER_CLASS)},
		{"per interface", uint32(marker.PerInterface), uint32(bpf.PolicerPerPER_INTERFACE)},
		{"l3", uint32(marker.CountL3), uint32(bpf.PolicerCountCOUNT_L3)},
		{"l2", uint32(marker.CountL2), uint32(bpf.PolicerCountCOUNT_L2)},
		{"l1", uint32(marker.CountL1), uint32(bpf.PolicerCountCOUNT_L1)},
		{"packets", uint32(marker.CountPackets), uint32(bpf.PolicerCountCOUNT_PACKETS)},
		{"drop", uint32(marker.VerbDrop), uint32(bpf.PolicerVerbVERB_DROP)},
		{"dscp", uint32(marker.VerbDSCP), uint32(bpf.PolicerVerbVERB_DSCP)},
		{"metered", uint32(marker.Metered), uint32(bpf.PolicerKindKIND_METERED)},
		{"unmatched", uint32(marker.Unmatched), uint32(bpf.PolicerKindKIND_UNMATCHED)},
		{"not-ip", uint32(marker.NotIP), uint32(bpf.PolicerKindKIND_NOT_IP)},
		{"malformed", uint32(marker.Malformed), uint32(bpf.PolicerKindKIND_MALFORMED)},
		{"ethernet", uint32(marker.LinkEthernet), uint32(bpf.PolicerReplayLinkLINK_ETHERNET)},
		{"other", uint32(marker.LinkOther), uint32(bpf.PolicerReplayLinkLINK_L3OTHER)},
		{"ipv4", uint32(marker.LinkIPv4), uint32(bpf.PolicerReplayLinkLINK_L3IPV4)},
		{"ipv6", uint32(marker.LinkIPv6), uint32(bpf.PolicerReplayLinkLINK_L3IPV6)},
	} {
		if c.got != c.want {
			t.Errorf("%s: the mirror says %d, the kernel %d", c.what, c.got, c.want)
		}
	}
}
