package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/netlab"
)

// walk is the order in which a generator takes its flows: state = state × multiplier + increment for each
// packet, and the flow is as far into all flows as state is into 2^64. It is the value of the generator's map.
type walk struct {
	State, Multiplier, Increment uint64
	Flows                        uint64 // 1 to 2^24
}

// inTurn takes one flow after the other.
func inTurn(flows uint64) walk {
	step := ^uint64(0)/flows + 1 // for 1 flow: 0
	return walk{State: step / 2, Multiplier: 1, Increment: step, Flows: flows}
}

// atRandom takes flows at random, the same ones each time it is made: Knuth's MMIX generator.
func atRandom(flows uint64) walk {
	return walk{State: 1, Multiplier: 6364136223846793005, Increment: 1442695040888963407, Flows: flows}
}

// generator floods the right host of a laboratory with UDP packets. An XDP program at nobody's device gives each
// packet its flow and redirects it to the left device: so it comes out of the right one, as if from a wire. The
// receiving side works in the sending CPU's own softirq, after every 64 packets: what a packet takes all told,
// from being made to being dropped, is the time of one CPU.
type generator struct {
	lab     *netlab.Lab
	frame   []byte
	program *ebpf.Program
	walk    *ebpf.Map
}

// floodPacket is the bytes of IP of each packet of the flood: small, and the least wrong for hashlimit, which takes
// a packet for the next multiple of 16 above its length (64 bytes for 80).
const floodPacket = 63

// newGenerator makes a generator of packets to an IPv4 address. Flow n comes from 198.18.0.0 + n/256, port
// 1024 + n mod 256.
func newGenerator(lab *netlab.Lab, to [4]byte) (_ *generator, err error) {
	const l2, address, checksum, port = 14, 26, 24, 34 // where they are in the frame
	g := &generator{lab: lab, frame: make([]byte, l2+floodPacket)}
	copy(g.frame, lab.Right.MAC)
	copy(g.frame[6:], lab.Left.MAC)
	binary.BigEndian.PutUint16(g.frame[12:], unix.ETH_P_IP)
	ip := g.frame[l2:]
	copy(ip, []byte{0x45, 0, 0, floodPacket, 0, 0, 0, 0, 64, unix.IPPROTO_UDP, 0, 0, 198, 18, 0, 0})
	copy(ip[16:], to[:])
	copy(ip[20:], []byte{0, 0, 0, 9, 0, floodPacket - 20, 0, 0}) // to the discard port, without checksum
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff // of the header without the flow's part of the address

	g.walk, err = ebpf.NewMap(&ebpf.MapSpec{Name: "walk", Type: ebpf.Array, KeySize: 4, ValueSize: 32, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("make the flood's map: %w", err)
	}
	g.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "flood", Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 0, asm.Word), // data
			asm.LoadMem(asm.R1, asm.R1, 4, asm.Word), // data_end
			asm.Mov.Reg(asm.R2, asm.R6),
			asm.Add.Imm(asm.R2, int32(len(g.frame))),
			asm.JGT.Reg(asm.R2, asm.R1, "out"),

			asm.LoadMapValue(asm.R1, g.walk.FD(), 0),
			asm.LoadMem(asm.R2, asm.R1, 0, asm.DWord),
			asm.LoadMem(asm.R3, asm.R1, 8, asm.DWord),
			asm.Mul.Reg(asm.R2, asm.R3),
			asm.LoadMem(asm.R3, asm.R1, 16, asm.DWord),
			asm.Add.Reg(asm.R2, asm.R3),
			asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord),
			asm.RSh.Imm(asm.R2, 32),
			asm.LoadMem(asm.R3, asm.R1, 24, asm.DWord),
			asm.Mul.Reg(asm.R2, asm.R3),
			asm.RSh.Imm(asm.R2, 32), // the flow

			asm.Mov.Reg(asm.R3, asm.R2),
			asm.And.Imm(asm.R3, 255),
			asm.Add.Imm(asm.R3, 1024),
			asm.HostTo(asm.BE, asm.R3, asm.Half),
			asm.StoreMem(asm.R6, port, asm.R3, asm.Half),

			asm.RSh.Imm(asm.R2, 8),
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.HostTo(asm.BE, asm.R3, asm.Half),
			asm.StoreMem(asm.R6, address+2, asm.R3, asm.Half),

			asm.Add.Imm(asm.R2, int32(sum)),
			asm.Mov.Reg(asm.R3, asm.R2),
			asm.RSh.Imm(asm.R3, 16),
			asm.And.Imm(asm.R2, 0xffff),
			asm.Add.Reg(asm.R2, asm.R3),
			asm.Xor.Imm(asm.R2, 0xffff),
			asm.HostTo(asm.BE, asm.R2, asm.Half),
			asm.StoreMem(asm.R6, checksum, asm.R2, asm.Half),

			asm.Mov.Imm(asm.R1, int32(lab.Left.Ifindex)),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnRedirect.Call(),
			asm.Return(),
			asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), // XDP_ABORTED
			asm.Return(),
		},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("load the flood's program: %w", err), g.walk.Close())
	}
	return g, nil
}

// follow has the generator take its flows in that order from now on.
func (g *generator) follow(w walk) error {
	return g.walk.Put(uint32(0), w)
}

// send sends packets, and returns when all of them have been received or dropped: what each took, in ns. A signal
// in between has it start anew, so that it may have sent more. Requires Linux 5.18.
func (g *generator) send(packets uint32) (ns float64, err error) {
	err = g.lab.Left.Do(func() error {
		for {
			mean, err := runLive(g.program, g.frame, packets)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return fmt.Errorf("send the flood out of %s: %w", g.lab.Left.Device, err)
			}
			ns = float64(mean)
			return nil
		}
	})
	return ns, err
}

func (g *generator) close() error {
	return errors.Join(g.program.Close(), g.walk.Close())
}
