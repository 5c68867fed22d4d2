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
		{"rules", marker.MaxRules, uintptr(len(bpf.PolicerPolicy{}.Rule))},
		{"lock order", marker.MaxChain, uintptr(len(bpf.PolicerPolicy{}.Class[0].Order))},
		{"stages", uintptr(len(marker.Geometry{}.Stages)), uintptr(len(bpf.PolicerTable{}.Stages))},
		{"protocols of a rule", unsafe.Sizeof(marker.Rule{}.Proto), unsafe.Sizeof(bpf.PolicerRule{}.Proto)},
		{"address match", unsafe.Sizeof(marker.AddressMatch{}), unsafe.Sizeof(bpf.PolicerRule{}.Src)},
		{"address match's mask", unsafe.Offsetof(marker.AddressMatch{}.Mask), unsafe.Offsetof(bpf.PolicerRule{}.Src.Mask)},
		{"size of a prefix key", 24, unsafe.Sizeof(bpf.PolicerPrefixKey{})},
		{"prefix key's length, as a trie wants it", 0, unsafe.Offsetof(bpf.PolicerPrefixKey{}.Length)},
		{"prefix key's set", 4, unsafe.Offsetof(bpf.PolicerPrefixKey{}.Set)},
		{"prefix key's address", 8, unsafe.Offsetof(bpf.PolicerPrefixKey{}.Address)},
		{"size of the control word", 8, unsafe.Sizeof(bpf.PolicerControl{})},
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
		{"ecn-ce", uint32(marker.VerbCE), uint32(bpf.PolicerVerbVERB_CE)},
		{"mark", uint32(marker.VerbMark), uint32(bpf.PolicerVerbVERB_MARK)},
		{"priority", uint32(marker.VerbPriority), uint32(bpf.PolicerVerbVERB_PRIORITY)},
		{"family IPv4", marker.FamilyIPv4, uint32(bpf.PolicerFamilyFAMILY_IPV4)},
		{"family IPv6", marker.FamilyIPv6, uint32(bpf.PolicerFamilyFAMILY_IPV6)},
		{"family none", marker.FamilyNone, uint32(bpf.PolicerFamilyFAMILY_NONE)},
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

// The kernel locks reserved sets in the order it is told: by ascending set, whatever their places in the
// chain; 0xff ends it.
func TestLockOrder(t *testing.T) {
	reserved := func(set uint32) marker.Meter { return marker.Meter{Per: marker.PerClass, Reserved: set} }
	keyed := marker.Meter{Per: marker.PerFlow}
	for _, c := range []struct {
		meters []marker.Meter
		want   [marker.MaxChain]uint8
	}{
		{[]marker.Meter{keyed}, [3]uint8{0xff, 0xff, 0xff}},
		{[]marker.Meter{reserved(9)}, [3]uint8{0, 0xff, 0xff}},
		{[]marker.Meter{keyed, reserved(7), keyed}, [3]uint8{1, 0xff, 0xff}},
		{[]marker.Meter{reserved(9), keyed, reserved(7)}, [3]uint8{2, 0, 0xff}},
		{[]marker.Meter{reserved(8), reserved(9), reserved(7)}, [3]uint8{2, 0, 1}},
	} {
		var policy bpf.PolicerPolicy
		classToKernel(&marker.Class{Meters: c.meters}, &policy, 3)
		k := &policy.Class[3]
		if k.Order != c.want || int(k.Chain) != len(c.meters) {
			t.Errorf("%+v: order %v, %d meters, want %v", c.meters, k.Order, k.Chain, c.want)
		}
		for i := range c.meters {
			if int(k.Meters[i].Position) != i {
				t.Errorf("meter %d is told that it stands at %d", i, k.Meters[i].Position)
			}
		}
	}
}
