package marker

import "unsafe"

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
	plan  *Plan

	forgetting func(*Slot) // told of each bucket about to be forgotten; may be nil
}

// find returns the slot that holds the key, or -1.
func (s *Set) find(k *Key, tag uint8) int {
	tags := s[0].Tags
	for i := range s {
		if uint8(tags>>(8*i)) == tag && s[i].Key == *k {
			return i
		}
	}
	return -1
}

// slotProfile is the profile by which a slot's tokens were last counted.
func (t *table) slotProfile(slot *Slot) *Profile {
	return &t.plan.Profiles[slot.Profile]
}

// forgettable reports whether a slot may be forgotten: refilled to now, it holds every one of its
// bursts in full.
func (t *table) forgettable(slot *Slot, now uint64) bool {
	p := t.slotProfile(slot)
	b := slot.Bucket
	p.Refill(&b, now)
	return p.Full(&b)
}

// room is a set's room at now: bit i, slot i is empty; bit 4 + i, it is taken but forgettable.
func (t *table) room(s *Set, now uint64) (room uint32) {
	for i := range s {
		if s.Tag(i) == 0 {
			room |= 1 << i
		} else if t.forgettable(&s[i], now) {
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

// reserved is the bucket of a reserved set: on its first use it is full as of now.
func (t *table) reserved(set uint32, p *Profile, id uint64, profile uint32, now uint64) *Slot {
	slot := &t.sets[set][0]
	if slot.Tags == 0 {
		slot.init(&Key{4: id}, profile, t.plan.Generation)
		p.Init(&slot.Bucket, now)
		slot.Tags = 1
	}
	return slot
}

// held is a packet's bucket.
type held struct {
	set      uint32
	slot     uint32
	overflow bool
}

// insert makes the bucket of a key that is in neither of its candidate sets.
func (t *table) insert(k *Key, m *Meter, left, right uint32, tag uint8, now uint64) held {
	p := &t.plan.Profiles[m.Profile]
	overflow := &t.sets[p.Overflow]

	// The key itself may have been forgotten at a time that this packet's clock has not reached:
	// nothing it gets now earns before that.
	forgot := max(*t.sets[left].forgot(), *t.sets[right].forgot())
	room := t.room(&t.sets[left], now)
	rightRoom := t.room(&t.sets[right], now)
	set := left
	if roomSize(rightRoom) > roomSize(room) {
		room = rightRoom
		set = right
	}

	if room == 0 {
		slot := t.reserved(p.Overflow, p, m.ID[0], m.Profile, now)
		if slot.Bucket.Last < forgot {
			p.Refill(&slot.Bucket, now)
			slot.Bucket.Last = max(slot.Bucket.Last, forgot)
		}
		return held{set: p.Overflow, overflow: true}
	}

	// A new bucket holds what its overflow bucket does, since the key may have spent there.
	var b Bucket
	p.Init(&b, now)
	if overflow[0].Tags != 0 {
		b = overflow[0].Bucket
		p.Refill(&b, now)
	}
	b.Last = max(b.Last, forgot)
	at := roomSlot(room)
	s := &t.sets[set]
	slot := &s[at]
	if room&0x0f == 0 {
		*s.forgot() = max(*s.forgot(), now)
		if t.forgetting != nil {
			t.forgetting(slot)
		}
	}
	slot.init(k, m.Profile, t.plan.Generation)
	slot.Bucket = b
	s[0].Tags = s[0].Tags&^(0xff<<(8*at)) | uint32(tag)<<(8*at)
	return held{set: set, slot: uint32(at)}
}
