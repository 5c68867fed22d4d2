package marker

import (
	"math/bits"
	"unsafe"
)

// Slot is a bucket and, in slots 0 and 1, what its set needs. Its 128 bytes are those of the kernel's
// map.
type Slot struct {
	Key        Key
	Lock       uint32 // slot 0, of the whole set: the kernel's lock; not used here
	Tags       uint32 // slot 0, of the whole set: one byte a slot, of its key's hash; 0: empty
	Bucket     Bucket
	Packets    [Colors]uint64 // by the packets' final colour
	Bytes      [Colors]uint64
	Profile    uint32 // index in its generation's profiles
	Generation uint32 // of the policy that wrote the tokens
}

// Set is four slots: one lock, and one of a key's two candidates.
type Set [SetSlots]Slot

// Tag returns slot i's tag; 0: it is empty.
func (s *Set) Tag(i int) uint8 { return uint8(s[0].Tags >> (8 * i)) }

// forgot is the latest time at which the set forgot a bucket. It stands in slot 1, for want of room
// in slot 0.
func (s *Set) forgot() *uint64 { return (*uint64)(unsafe.Pointer(&s[1].Lock)) }

// table holds the buckets: the sets of each chain position, then the reserved sets. See
// bpf/include/table.h for how it finds, forgets and overflows; nobody else is here to lock out.
type table struct {
	sets  []Set
	seeds Seeds

	forgetting func(*Slot) // told of each bucket about to be forgotten; may be nil
}

// slot is the slot at set × SetSlots + slot.
func (t *table) slot(at uint32) *Slot { return &t.sets[at/SetSlots][at%SetSlots] }

// matches are the slots whose tag may be this one: bit 7 of each one's byte. The lowest surely is.
func (s *Set) matches(tag uint8) uint32 {
	differs := s[0].Tags ^ uint32(tag)*0x01010101
	return (differs - 0x01010101) &^ differs & 0x80808080
}

// find returns the slot that holds the key, or -1.
func (s *Set) find(k *Key, tag uint8) int {
	for m := s.matches(tag); m != 0; m &= m - 1 {
		if i := bits.TrailingZeros32(m) / 8; s.Tag(i) == tag && s[i].Key.is(k) {
			return i
		}
	}
	return -1
}

// room is a set's room at now: bit i, slot i is empty; bit 4 + i, it is taken but forgettable: brought to
// this generation and refilled to now, it holds every one of its bursts in full; or its profile is gone, and
// no deadline can bring it back.
func (m *Mirror) room(s *Set, now uint64, generation uint32) (room uint32) {
	for i := range s {
		if s.Tag(i) == 0 {
			room |= 1 << i
			continue
		}
		slot := &s[i]
		b := slot.Bucket
		profile := m.generations.bring(&b, slot.Profile, slot.Generation, generation)
		p := m.generations.profile(profile, newer(slot.Generation, generation))
		full := m.generations.deadline == 0
		if !p.Gone {
			p.Refill(&b, now)
			full = p.Full(&b)
		}
		if full {
			room |= 1 << (SetSlots + i)
		}
	}
	return room
}

func roomSize(room uint32) uint32 {
	room = room&0x55 + room>>1&0x55
	room = room&0x33 + room>>2&0x33
	return room&0x0f + room>>4
}

// roomSlot is the lowest empty slot, else the lowest forgettable one. There is room.
func roomSlot(room uint32) int {
	bits := room
	if room&0x0f == 0 {
		bits = room >> SetSlots
	}
	switch {
	case bits&1 != 0:
		return 0
	case bits&2 != 0:
		return 1
	case bits&4 != 0:
		return 2
	}
	return 3
}

func (slot *Slot) init(k *Key, profile, generation uint32) {
	slot.Key = *k
	slot.Packets = [Colors]uint64{}
	slot.Bytes = [Colors]uint64{}
	slot.Profile = profile
	slot.Generation = generation
}

// reserved is the bucket of a reserved set. On its first use, or where it was another class's that is gone,
// it is full as of now.
func (t *table) reserved(at uint32, p *Profile, id uint64, profile, generation uint32, now uint64) {
	slot := t.slot(at)
	if slot.Tags == 0 || slot.Key[4] != id {
		slot.init(&Key{4: id}, profile, generation)
		p.Init(&slot.Bucket, now)
		slot.Tags = 1
	}
}

// held is one meter's bucket of a packet.
type held struct {
	at       uint32 // set × SetSlots + slot
	profile  uint32 // the packet's; the slot may have another until it is brought
	overflow bool   // it is the overflow bucket: there is no room for the key
	forgot   uint64 // overflow: when one of the key's candidates last forgot a bucket
}

// insert makes the bucket of a key that is in neither of its candidate sets.
func (m *Mirror) insert(k *Key, tag uint8, id uint64, left, right uint32, now uint64, generation uint32, h *held) {
	t := &m.table
	p := m.generations.profile(h.profile, generation)

	// The key itself may have been forgotten at a time that this packet's clock has not reached:
	// nothing it gets now earns before that.
	forgot := max(*t.sets[left].forgot(), *t.sets[right].forgot())
	room := m.room(&t.sets[left], now, generation)
	rightRoom := m.room(&t.sets[right], now, generation)
	set := left
	if roomSize(rightRoom) > roomSize(room) {
		room = rightRoom
		set = right
	}

	if room == 0 {
		h.at, h.overflow, h.forgot = p.Overflow*SetSlots, true, forgot
		return
	}

	// A new bucket holds what its overflow bucket does, since the key may have spent there.
	var b Bucket
	p.Init(&b, now)
	if o := &t.sets[p.Overflow][0]; o.Tags != 0 && o.Key[4] == id {
		b = o.Bucket
		m.generations.bring(&b, h.profile, o.Generation, generation)
		p.Refill(&b, now)
	}
	b.Last = max(b.Last, forgot)
	at := roomSlot(room)
	s := &t.sets[set]
	slot := &s[at]
	if room&0x0f == 0 {
		*s.forgot() = max(*s.forgot(), now, slot.Bucket.Last)
		if t.forgetting != nil {
			t.forgetting(slot)
		}
	}
	slot.init(k, h.profile, generation)
	slot.Bucket = b
	s[0].Tags = s[0].Tags&^(0xff<<(8*at)) | uint32(tag)<<(8*at)
	h.at = set*SetSlots + uint32(at)
}

// place is where the bucket of a packet's key is looked for.
type place struct {
	key         Key
	left, right uint32 // its candidate sets
	hint        uint32 // where it seems to be: set × SetSlots + slot; NoSet: nobody looked
	tag         uint8
}

// place sets pl to the place of a packet's key by one meter.
func (m *Mirror) place(p *packet, meter *Meter, position int, pl *place) {
	meter.key(p, &pl.key)
	hash := m.table.seeds.Hash(&pl.key)
	stage := &m.plan.Geometry.Stages[position]
	pl.left = stage.Base + hashLeft(hash, stage.Mask)
	pl.right = stage.Base + hashRight(hash, stage.Mask)
	pl.tag = hashTag(hash)
	pl.hint = NoSet
}

// find finds or makes the bucket of a key in the table; h.profile is the packet's.
func (m *Mirror) find(pl *place, meter *Meter, now uint64, generation uint32, h *held) {
	t := &m.table
	if i := t.sets[pl.left].find(&pl.key, pl.tag); i >= 0 {
		h.at = pl.left*SetSlots + uint32(i)
		return
	}
	if i := t.sets[pl.right].find(&pl.key, pl.tag); i >= 0 {
		h.at = pl.right*SetSlots + uint32(i)
		return
	}
	m.insert(&pl.key, pl.tag, meter.ID[0], pl.left, pl.right, now, generation, h)
}
