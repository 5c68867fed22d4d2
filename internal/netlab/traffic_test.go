package netlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"
)

func TestUDPCountedExactly(t *testing.T) {
	lab := newLab(t, Options{})
	ctx := bounded(t)
	const count, payload = 50, 333
	for _, ipv6 := range []bool{false, true} {
		t.Run(map[bool]string{false: "ipv4", true: "ipv6"}[ipv6], func(t *testing.T) {
			sink, err := lab.Right.ReceiveUDP(ipv6, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer sink.Stop()
			w := watch(t, lab.Right, WatchOptions{Proto: unix.IPPROTO_UDP, Port: sink.Addr().Port()})

			size := uint64(payload + udpLen + ipv4Len)
			if ipv6 {
				size = payload + udpLen + ipv6Len
			}
			var want Seen
			var wantTOS [256]uint64
			for i, dscp := range []uint8{0, 10, 12, 34, 46, 63} {
				for ecn := range uint8(4) {
					n := uint64(count + i) // each mark its own number
					sent, err := lab.Left.SendUDP(ctx, UDPFlow{
						To: sink.Addr(), Payload: payload, Count: int(n), TOS: dscp<<2 | ecn,
					})
					if err != nil || sent != int(n) {
						t.Fatalf("sent %d of %d: %v", sent, n, err)
					}
					want.Total.add(n, n*size)
					want.DSCP[dscp].add(n, n*size)
					want.ECN[ecn].add(n, n*size)
					want.Buffers += n
					wantTOS[dscp<<2|ecn] = n
				}
			}
			if diff := cmp.Diff(want, stop(t, w, want.Total.Packets)); diff != "" {
				t.Errorf("watched (-want +got):\n%s", diff)
			}
			got, err := sink.Stop()
			if err != nil {
				t.Fatal(err)
			}
			wantReceived := Received{Datagrams: want.Total.Packets, Bytes: want.Total.Packets * payload, TOS: wantTOS}
			if diff := cmp.Diff(wantReceived, got); diff != "" {
				t.Errorf("received (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUDPInterval(t *testing.T) {
	lab := newLab(t, Options{})
	flow := UDPFlow{To: netip.AddrPortFrom(lab.Right.IPv4.Addr(), 9), Payload: 1, Count: 5, Interval: 10 * time.Millisecond}
	start := time.Now()
	if sent, err := lab.Left.SendUDP(bounded(t), flow); sent != 5 || err != nil {
		t.Fatalf("sent %d: %v", sent, err)
	}
	if took := time.Since(start); took < 4*flow.Interval {
		t.Errorf("5 sends took %s, less than 4 intervals", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	flow.Interval = time.Hour
	if sent, err := lab.Left.SendUDP(ctx, flow); sent != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done: sent %d, %v", sent, err)
	}
}

// A flood must be counted to the last packet, and where it is not, that must show.
func TestUDPFlood(t *testing.T) {
	lab := newLab(t, Options{})
	w := watch(t, lab.Right, WatchOptions{Port: 9})
	const count = 100_000
	flow := UDPFlow{To: netip.AddrPortFrom(lab.Right.IPv4.Addr(), 9), Payload: 64, Count: count}
	start := time.Now()
	sent, err := lab.Left.SendUDP(bounded(t), flow)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	seen, err := w.Stop()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d datagrams in %s (%.0f a second), the capture lost %d", sent, took, float64(sent)/took.Seconds(), seen.Dropped)
	if got := seen.Total.Packets + seen.Dropped; got != count {
		t.Errorf("counted %d and lost %d: %d short of %d", seen.Total.Packets, seen.Dropped, count-got, count)
	}
}

func TestTCP(t *testing.T) {
	const total = 3_000_001
	for _, ipv6 := range []bool{false, true} {
		for _, offload := range []bool{false, true} {
			t.Run(fmt.Sprintf("ipv6=%t/offload=%t", ipv6, offload), func(t *testing.T) {
				lab := newLab(t, Options{Offload: offload, ECN: true})
				sink, err := lab.Right.ServeTCP(ipv6, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer sink.Stop()
				w := watch(t, lab.Right, WatchOptions{Keep: true, Proto: unix.IPPROTO_TCP, Port: sink.Addr().Port()})
				sent, err := lab.Left.SendTCP(bounded(t), TCPFlow{To: sink.Addr(), Bytes: total, TOS: 10 << 2})
				if err != nil || sent != total {
					t.Fatalf("sent %d: %v", sent, err)
				}
				if read, err := sink.Stop(); err != nil || read != total {
					t.Errorf("the sink read %d bytes of %d: %v", read, total, err)
				}
				checkTCP(t, stop(t, w, 1), offload, total)
			})
		}
	}
}

// checkTCP holds what a watch counted against what gopacket reads from the frames
// it kept.
func checkTCP(t *testing.T, seen Seen, offload bool, total uint64) {
	t.Helper()
	var want Count
	var superPackets int
	var first, last uint32 // sequence numbers of the first and behind the last byte
	for _, f := range seen.Frames {
		p := gopacket.NewPacket(f.Data, layers.LayerTypeEthernet, gopacket.NoCopy)
		tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
		if !ok {
			t.Fatalf("a frame that gopacket does not take for TCP: %v", p)
		}
		if f.Time.IsZero() || f.Out {
			t.Errorf("a frame that arrived has the time %s, out %t", f.Time, f.Out)
		}
		payload := uint64(len(tcp.Payload))
		segments := uint64(1)
		if f.GSOSize > 0 {
			superPackets++
			segments = (payload + uint64(f.GSOSize) - 1) / uint64(f.GSOSize)
		} else if len(f.Data) > etherLen+defaultMTU {
			t.Errorf("one packet of %d bytes over an MTU of %d", len(f.Data), defaultMTU)
		}
		headers := uint64(len(p.NetworkLayer().LayerContents()) + len(tcp.Contents))
		want.add(segments, payload+segments*headers)
		if tcp.SYN {
			first = tcp.Seq + 1
		}
		if tcp.FIN {
			last = tcp.Seq + uint32(payload)
		}
	}
	if uint64(last-first) != total {
		t.Errorf("the frames span %d bytes of payload, want %d", last-first, total)
	}
	if seen.Total != want || seen.DSCP[10] != want {
		t.Errorf("counted %+v, %+v of them as AF11; the frames hold %+v", seen.Total, seen.DSCP[10], want)
	}
	if seen.Buffers != uint64(len(seen.Frames)) || seen.BadChecksums != 0 || seen.Tagged != 0 {
		t.Errorf("of %d frames: %d counted, %d bad checksums, %d tagged",
			len(seen.Frames), seen.Buffers, seen.BadChecksums, seen.Tagged)
	}
	if seen.ECN[2].Bytes < total { // data is ECT(0), the handshake and pure ACKs are not
		t.Errorf("%d bytes of ECT(0), want the data at least", seen.ECN[2].Bytes)
	}
	if offload != (superPackets > 0) {
		t.Errorf("%d super-packets among %d frames", superPackets, len(seen.Frames))
	}
}

// A connection ends when its flow says so, or its context.
func TestTCPBounded(t *testing.T) {
	lab := newLab(t, Options{})
	sink, err := lab.Right.ServeTCP(false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Stop()
	flow := TCPFlow{To: sink.Addr(), For: 20 * time.Millisecond}
	if sent, err := lab.Left.SendTCP(bounded(t), flow); err != nil || sent == 0 {
		t.Errorf("sent %d bytes: %v", sent, err)
	}
	for _, bad := range []TCPFlow{{To: sink.Addr()}, {To: sink.Addr(), Bytes: 1, TOS: 1}} {
		if _, err := lab.Left.SendTCP(bounded(t), bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lab.Left.SendTCP(ctx, TCPFlow{To: sink.Addr(), For: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an hour's flow ended with %v, want its context's end", err)
	}
}

func TestTaggedFrames(t *testing.T) {
	lab := newLab(t, Options{})
	for _, tags := range [][]Tag{
		nil,
		{{VLAN: 100}},
		{{VLAN: 7, Service: true}, {VLAN: 100}},
	} {
		for _, to := range []netip.Addr{lab.Right.IPv4.Addr(), lab.Right.IPv6.Addr()} {
			t.Run(fmt.Sprintf("%d tags to %s", len(tags), to), func(t *testing.T) {
				flow := UDPFlow{To: netip.AddrPortFrom(to, 9), Payload: 100, TOS: 46<<2 | 1}
				f, err := lab.Left.UDPFrame(flow, tags...)
				if err != nil {
					t.Fatal(err)
				}
				in := watch(t, lab.Right, WatchOptions{Keep: true, Port: 9})
				out := watch(t, lab.Left, WatchOptions{Keep: true, Direction: Out})
				if err := lab.Left.SendFrames(bounded(t), f); err != nil {
					t.Fatal(err)
				}
				for name, w := range map[string]*Watch{"in": in, "out": out} {
					seen := stop(t, w, 1)
					if len(seen.Frames) != 1 || !bytes.Equal(seen.Frames[0].Data, f.Data) {
						t.Fatalf("%s: kept %v, want the frame sent", name, seen.Frames)
					}
					wantTagged := uint64(min(1, len(tags)))
					if seen.DSCP[46] != seen.Total || seen.ECN[1].Packets != 1 || seen.Tagged != wantTagged || seen.BadChecksums != 0 {
						t.Errorf("%s: counted %+v, tagged %d, bad %d", name, seen.Total, seen.Tagged, seen.BadChecksums)
					}
					if got := seen.Frames[0]; got.Out != (name == "out") || got.TagBeside != (name == "in" && len(tags) > 0) {
						t.Errorf("%s: out %t, tag beside the data %t", name, got.Out, got.TagBeside)
					}
				}
			})
		}
	}
}

// A super-packet is one frame where the devices take offloads, is cut by the kernel
// where they do not, and is the same packets on the wire either way.
func TestSuperPacket(t *testing.T) {
	const payload, segment = 10_000, 1_000
	for _, offload := range []bool{false, true} {
		for _, tags := range [][]Tag{nil, {{VLAN: 100}}} {
			for _, ipv6 := range []bool{false, true} {
				t.Run(fmt.Sprintf("offload=%t/tags=%d/ipv6=%t", offload, len(tags), ipv6), func(t *testing.T) {
					lab := newLab(t, Options{Offload: offload})
					sink, err := lab.Right.ReceiveUDP(ipv6, 0)
					if err != nil {
						t.Fatal(err)
					}
					defer sink.Stop()
					f, err := lab.Left.UDPFrame(UDPFlow{To: sink.Addr(), Payload: payload + 1, TOS: 12 << 2, GSO: segment}, tags...)
					if err != nil {
						t.Fatal(err)
					}
					w := watch(t, lab.Right, WatchOptions{Keep: true, Port: sink.Addr().Port()})
					if err := lab.Left.SendFrames(bounded(t), f); err != nil {
						t.Fatal(err)
					}
					each := uint64(udpLen + ipv4Len)
					if ipv6 {
						each = udpLen + ipv6Len
					}
					want := Count{Packets: 11, Bytes: payload + 1 + 11*each}
					seen := stop(t, w, want.Packets)
					if seen.Total != want || seen.DSCP[12] != want || seen.BadChecksums != 0 {
						t.Errorf("counted %+v, bad checksums %d, want %+v", seen.Total, seen.BadChecksums, want)
					}
					if wantBuffers := map[bool]uint64{false: 11, true: 1}[offload]; seen.Buffers != wantBuffers {
						t.Errorf("%d frames, want %d", seen.Buffers, wantBuffers)
					}
					if len(tags) > 0 {
						return // no device of that VLAN, nobody receives it
					}
					if got, err := sink.Stop(); err != nil || got.Datagrams != 11 || got.Bytes != payload+1 {
						t.Errorf("received %d datagrams of %d bytes in all, dropped %d: %v", got.Datagrams, got.Bytes, got.Dropped, err)
					}
				})
			}
		}
	}
}

func TestUDPSegmentation(t *testing.T) {
	lab := newLab(t, Options{Offload: true})
	sink, err := lab.Right.ReceiveUDP(false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Stop()
	w := watch(t, lab.Right, WatchOptions{Port: sink.Addr().Port()})
	if _, err := lab.Left.SendUDP(bounded(t), UDPFlow{To: sink.Addr(), Payload: 5_000, Count: 3, GSO: 1_200}); err != nil {
		t.Fatal(err)
	}
	want := Count{Packets: 15, Bytes: 3*5_000 + 15*(udpLen+ipv4Len)}
	if seen := stop(t, w, 15); seen.Total != want || seen.Buffers != 3 {
		t.Errorf("counted %+v in %d frames, want %+v in 3", seen.Total, seen.Buffers, want)
	}
	if got, err := sink.Stop(); err != nil || got.Datagrams != 15 || got.Dropped != 0 {
		t.Errorf("received %+v: %v", got, err)
	}
}
