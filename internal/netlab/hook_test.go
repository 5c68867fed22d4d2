package netlab

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// Where struct __sk_buff (include/uapi/linux/bpf.h) has these.
const skbGSOSegs, skbGSOSize = 164, 176

// A hook is a program on a device's TCX egress hook, where a policer would be. It
// counts the buffers that pass, and answers the same for each.
type hook struct{ counts *ebpf.Map }

const (
	countAll    = iota // buffers
	countSuper         // of which have a gso_size
	countUntold        // of which have a gso_size and no gso_segs
	countSlots

	tcxNext = -1
	tcxDrop = 2
)

func attachHook(t *testing.T, h *Host, answer int32) *hook {
	t.Helper()
	counts, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8 * countSlots, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counts.Close() })
	add := func(slot int32) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapValue(asm.R1, counts.FD(), uint32(slot)*8),
			asm.Mov.Imm(asm.R2, 1),
			asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
		}
	}
	var code asm.Instructions
	code = append(code, asm.Mov.Reg(asm.R6, asm.R1))
	code = append(code, add(countAll)...)
	code = append(code,
		asm.LoadMem(asm.R7, asm.R6, skbGSOSize, asm.Word),
		asm.JEq.Imm(asm.R7, 0, "out"))
	code = append(code, add(countSuper)...)
	code = append(code,
		asm.LoadMem(asm.R7, asm.R6, skbGSOSegs, asm.Word),
		asm.JNE.Imm(asm.R7, 0, "out"))
	code = append(code, add(countUntold)...)
	code = append(code, asm.Mov.Imm(asm.R0, answer).WithSymbol("out"), asm.Return())
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: code, License: "Dual BSD/GPL"})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	var attached link.Link
	err = h.Do(func() (err error) {
		attached, err = link.AttachTCX(link.TCXOptions{Interface: h.Ifindex, Program: program, Attach: ebpf.AttachTCXEgress})
		return err
	})
	if errors.Is(err, ebpf.ErrNotSupported) && os.Getenv("TRICOLOR_REQUIRE_KERNEL") != "1" {
		t.Skipf("needs TCX (Linux 6.6): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { attached.Close() })
	return &hook{counts}
}

func (h *hook) count(t *testing.T, slot int) uint64 {
	t.Helper()
	var counts [countSlots]uint64
	if err := h.counts.Lookup(uint32(0), &counts); err != nil {
		t.Fatal(err)
	}
	return counts[slot]
}

// TCP builds super-packets whatever the device can do, and an egress hook sits before
// the software cuts them. Unless asked for, not even there may one be seen.
func TestSuperPacketsAtEgressHook(t *testing.T) {
	for _, opts := range []Options{{}, {Offload: true}, {GSOSegments: 8}, {Offload: true, GSOSegments: 8}} {
		lab := newLab(t, opts)
		hook := attachHook(t, lab.Left, tcxNext)
		sink, err := lab.Right.ServeTCP(false, 0)
		if err != nil {
			t.Fatal(err)
		}
		w := watch(t, lab.Right, WatchOptions{Proto: 6})
		_, err = lab.Left.SendTCP(bounded(t), TCPFlow{To: sink.Addr(), Bytes: 1 << 20})
		sink.Stop()
		if err != nil {
			t.Fatal(err)
		}
		all, super := hook.count(t, countAll), hook.count(t, countSuper)
		if wanted := opts != (Options{}); all == 0 || wanted != (super > 0) {
			t.Errorf("%+v: %d super-packets of %d", opts, super, all)
		}
		seen := stop(t, w, 1)
		if cut := seen.Buffers == seen.Total.Packets; cut == opts.Offload {
			t.Errorf("%+v: %d packets arrived in %d frames", opts, seen.Total.Packets, seen.Buffers)
		}
		if n := uint64(opts.GSOSegments); n > 0 && seen.Total.Packets > all*n {
			t.Errorf("%+v: the hook saw %d frames, of which came %d packets", opts, all, seen.Total.Packets)
		}
	}
}

// The super-packets of SendFrames are those hard to count: they do not say how many
// segments they stand for.
func TestInjectedTCPSuperPacket(t *testing.T) {
	lab := newLab(t, Options{Offload: true})
	for _, ipv6 := range []bool{false, true} {
		tcp := &layers.TCP{SrcPort: 5, DstPort: 9, ACK: true, Window: 100, DataOffset: 5}
		ether := &layers.Ethernet{SrcMAC: lab.Left.MAC, DstMAC: lab.Right.MAC, EthernetType: layers.EthernetTypeIPv4}
		stack := []gopacket.SerializableLayer{ether}
		each := uint64(ipv4Len + tcpLen)
		if ipv6 {
			ether.EthernetType = layers.EthernetTypeIPv6
			ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, TrafficClass: 10 << 2,
				SrcIP: lab.Left.Addr(true).AsSlice(), DstIP: lab.Right.Addr(true).AsSlice()}
			tcp.SetNetworkLayerForChecksum(ip)
			stack = append(stack, ip)
			each = ipv6Len + tcpLen
		} else {
			ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, TOS: 10 << 2,
				SrcIP: lab.Left.Addr(false).AsSlice(), DstIP: lab.Right.Addr(false).AsSlice()}
			tcp.SetNetworkLayerForChecksum(ip)
			stack = append(stack, ip)
		}
		const payload, segment = 30_000, 1_400 // 22 segments
		stack = append(stack, tcp, gopacket.Payload(make([]byte, payload)))
		out := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, stack...); err != nil {
			t.Fatal(err)
		}
		hook := attachHook(t, lab.Left, tcxNext)
		w := watch(t, lab.Right, WatchOptions{Proto: 6, Port: 9})
		if err := lab.Left.SendFrames(bounded(t), Frame{Data: out.Bytes(), GSOSize: segment}); err != nil {
			t.Fatal(err)
		}
		want := Count{Packets: 22, Bytes: payload + 22*each}
		if seen := stop(t, w, want.Packets); seen.DSCP[10] != want || seen.Buffers != 1 {
			t.Errorf("ipv6 %t: counted %+v in %d frames, want %+v in 1", ipv6, seen.DSCP[10], seen.Buffers, want)
		}
		if n := hook.count(t, countUntold); n != 1 {
			t.Errorf("ipv6 %t: the egress hook saw %d super-packets without gso_segs, want 1", ipv6, n)
		}
	}
}

// What a policer drops on the way out was sent, so far as the sender can tell.
func TestSentThoughDropped(t *testing.T) {
	lab := newLab(t, Options{})
	hook := attachHook(t, lab.Left, tcxDrop)
	w := watch(t, lab.Right, WatchOptions{})
	to := netip.AddrPortFrom(lab.Right.IPv4.Addr(), 9)
	if sent, err := lab.Left.SendUDP(bounded(t), UDPFlow{To: to, Count: 10}); sent != 10 || err != nil {
		t.Errorf("sent %d datagrams of 10: %v", sent, err)
	}
	f, err := lab.Left.UDPFrame(UDPFlow{To: to})
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.Left.SendFrames(bounded(t), f, f); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lab.Left.SendTCP(ctx, TCPFlow{To: to, Bytes: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("TCP into the void ended with %v, want its context's end", err)
	}
	if n := hook.count(t, countAll); n < 13 {
		t.Errorf("the hook dropped %d packets, want 13 or more", n)
	}
	if seen := stop(t, w, 0); seen.Total.Packets != 0 {
		t.Errorf("%d packets arrived all the same", seen.Total.Packets)
	}
}
