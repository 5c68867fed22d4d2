package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/tricolor-policer/tricolor/marker"
)

//go:embed peer/peer.bpf.c
var peerSource []byte

// mapPeers are policers that people write, in the kernel's own maps; see peer/peer.bpf.c.
var mapPeers = []struct{ program, name string }{
	{"peer_hash", "a hash map with bpf_spin_lock"},
	{"peer_lru", "an LRU hash map with a lock word"},
}

// compilePeers compiles them; an error that wraps errLeftOut where there is no clang.
func compilePeers() (*ebpf.CollectionSpec, error) {
	clang, err := exec.LookPath("clang-19")
	if err != nil {
		return nil, fmt.Errorf("%w: policers in the kernel's own maps: %w", errLeftOut, err)
	}
	dir, err := os.MkdirTemp("", "tricolor-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, object := filepath.Join(dir, "peer.bpf.c"), filepath.Join(dir, "peer.o")
	if err := os.WriteFile(source, peerSource, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.Command(clang, "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wno-unused", "-c", source, "-o", object).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("compile the bench's peers: %w\n%s", err, out)
	}
	return ebpf.LoadCollectionSpec(object)
}

// newPeer is an arm of one of them, with room for so many flows, each of which has sent its first packet.
func newPeer(spec *ebpf.CollectionSpec, program string, t stream, room uint32) (*arm, error) {
	spec = spec.Copy()
	for _, m := range []string{"hash", "lru"} {
		spec.Maps[m].MaxEntries = 1
	}
	spec.Maps[program[len("peer_"):]].MaxEntries = room
	for name, value := range map[string]uint64{"cir": plenty.rate, "cbs": 1 << 30 * marker.Nano, "ebs": 1 << 20 * marker.Nano} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, err
		}
	}
	loaded, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	a := &arm{stream: t, nothing: loaded.DetachProgram(program)}
	if err := a.drive(a.nothing); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// mapsSection has the kernel program beside them, over an empty program, on the same packets.
func mapsSection(t *table) error {
	spec, err := compilePeers()
	if err != nil {
		return err
	}
	for _, k := range []struct {
		name   string
		flows  uint32
		runs   uint32
		target string
	}{
		{"1 flow", 1, 500_000, "<= 48"}, // 60 of 125 ns
		{"100k flows at random", 100_000, 300_000, ""},
		{"900k flows at random", 900_000, 300_000, "<= 51"}, // 310 of 606 ns
	} {
		if err := besideMaps(t, spec, k.name, k.target, udp4(k.flows), k.runs); err != nil {
			return err
		}
	}
	return nil
}

// besideMaps writes the rows of one stream.
func besideMaps(t *table, spec *ebpf.CollectionSpec, name, target string, packets stream, runs uint32) error {
	arms, closeAll, err := armsOf(packets, "", oneBucket(1<<21, profileGreen))
	if err != nil {
		return err
	}
	defer closeAll()
	for _, p := range mapPeers {
		a, err := newPeer(spec, p.program, packets, 1<<20)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		defer a.Close()
		arms = append(arms, a)
	}
	if err := timeArms(arms, rounds, runs); err != nil {
		return err
	}
	floor, ours := arms[0], arms[1]
	t.row(name+": tricolor, srtcm", ours.over(floor), "ns", "")
	for i, p := range mapPeers {
		t.row("  "+p.name, arms[2+i].over(floor), "ns", "")
	}
	for i, p := range mapPeers {
		if i > 0 {
			target = "" // it is of the first
		}
		t.row("  tricolor, of "+p.name, ours.over(floor).percentOf(arms[2+i].over(floor)), "%", target)
	}
	return nil
}
