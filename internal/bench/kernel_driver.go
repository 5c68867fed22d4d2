package main

import (
	"encoding/binary"
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// stream is what a driver makes of one frame: packets of so many flows.
type stream struct {
	frame      []byte // Ethernet, 64 bytes
	source     int16  // where the four bytes of the source address are that number the flow
	checksum   int16  // where IPv4's checksum is; 0: it has none
	flows      uint32
	sequential bool // flow by flow, not at random
	first      uint32
}

const ipHeader = 14 // bytes before it

// udp4 and udp6 are small UDP packets to port 8192. The checksum of the IPv4 header is right for flow 0: the policer
// does not look at it, only changes it.
func udp4(flows uint32) stream {
	frame := udpFrame()
	ip := frame[ipHeader:]
	clear(ip[12:16])
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	return stream{frame: frame, source: ipHeader + 12, checksum: ipHeader + 10, flows: flows}
}

func udp6(flows uint32) stream {
	f := make([]byte, 64)
	f[12], f[13] = 0x86, 0xdd
	ip := f[ipHeader:]
	ip[0], ip[5], ip[6], ip[7] = 0x60, 10, 17, 64
	copy(ip[8:], []byte{0x20, 1, 0xd, 0xb8, 0, 1})
	copy(ip[24:], []byte{0x20, 1, 0xd, 0xb8, 0, 2})
	copy(ip[40:], []byte{0x10, 0, 0x20, 0, 0, 10})
	return stream{frame: f, source: ipHeader + 20, flows: flows}
}

// driver is a program that gives the frame the next flow's source address and tail-calls a target.
type driver struct {
	*ebpf.Program
	maps []*ebpf.Map
}

// Close closes the program and its maps.
func (d *driver) Close() {
	if d.Program != nil {
		d.Program.Close()
	}
	for _, m := range d.maps {
		m.Close()
	}
}

// newDriver loads a driver. A test run does not give each repeat a fresh packet: so the driver puts back what
// marking changes, the first two bytes of the IP header and its checksum. It is the same to whatever target.
func newDriver(target *ebpf.Program, t stream) (_ *driver, err error) {
	d := &driver{}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	add := func(spec *ebpf.MapSpec) (m *ebpf.Map) {
		if err == nil {
			if m, err = ebpf.NewMap(spec); err == nil {
				d.maps = append(d.maps, m)
			}
		}
		return m
	}
	targets := add(&ebpf.MapSpec{
		Name: "target", Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: target}},
	})
	next := add(&ebpf.MapSpec{
		Name: "next", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1,
		Contents: []ebpf.MapKV{{Key: uint32(0), Value: uint64(t.first)}},
	})
	if err != nil {
		return nil, err
	}

	half := func(at int16) int64 { return int64(binary.NativeEndian.Uint16(t.frame[at:])) }
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R1, 76, asm.Word), // data
		asm.LoadMem(asm.R8, asm.R1, 80, asm.Word), // data_end
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Add.Imm(asm.R2, int32(len(t.frame))),
		asm.JGT.Reg(asm.R2, asm.R8, "out"),
		asm.StoreImm(asm.R7, ipHeader, half(ipHeader), asm.Half),
	}
	if t.checksum != 0 {
		insns = append(insns, asm.StoreImm(asm.R7, t.checksum, half(t.checksum), asm.Half))
	}
	switch {
	case t.sequential:
		insns = append(insns,
			asm.LoadMapValue(asm.R1, next.FD(), 0),
			asm.LoadMem(asm.R0, asm.R1, 0, asm.DWord),
			asm.Mov.Reg(asm.R2, asm.R0),
			asm.Add.Imm(asm.R2, 1),
			asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord),
		)
	case t.flows > 1: // (random × flows) >> 32
		insns = append(insns,
			asm.FnGetPrandomU32.Call(),
			asm.LoadImm(asm.R1, int64(t.flows), asm.DWord),
			asm.Mul.Reg(asm.R0, asm.R1),
			asm.RSh.Imm(asm.R0, 32),
		)
	default:
		insns = append(insns, asm.Mov.Imm(asm.R0, int32(t.first)))
	}
	insns = append(insns,
		asm.HostTo(asm.BE, asm.R0, asm.Word),
		asm.StoreMem(asm.R7, t.source, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMapPtr(asm.R2, targets.FD()),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnTailCall.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
	d.Program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Name: "driver", Type: ebpf.SchedCLS, License: "Dual BSD/GPL", Instructions: insns})
	if err != nil {
		return nil, errors.Join(errors.New("the bench's own program"), err)
	}
	return d, nil
}

// empty loads a program that lets every packet go on.
func empty() (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
}
