package main

import (
	"runtime"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// liveFrames is BPF_F_TEST_XDP_LIVE_FRAMES: what a test run of an XDP program makes of its packets really
// happens to them.
const liveFrames = 2

// testRun is union bpf_attr for BPF_PROG_TEST_RUN.
type testRun struct {
	progFD, retval          uint32
	dataSizeIn, dataSizeOut uint32
	dataIn, dataOut         uint64
	repeat, duration        uint32
	ctxSizeIn, ctxSizeOut   uint32
	ctxIn, ctxOut           uint64
	flags, cpu, batchSize   uint32
	_                       uint32
}

// runLive runs an XDP program for as many live frames, and returns the mean time of one by the kernel's own watch,
// in whole ns. Setting up and clearing away, some 25 ms of waiting, is not in it: with cilium/ebpf's own run, which
// returns no time for live frames, it would be. Returns unix.EINTR where a signal ended it early, and
// unix.EINVAL before Linux 5.18.
func runLive(p *ebpf.Program, frame []byte, frames uint32) (time.Duration, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&frame[0])
	attr := testRun{
		progFD: uint32(p.FD()), dataSizeIn: uint32(len(frame)), dataIn: uint64(uintptr(unsafe.Pointer(&frame[0]))),
		repeat: frames, flags: liveFrames,
	}
	const progTestRun = 10
	_, _, errno := unix.Syscall(unix.SYS_BPF, progTestRun, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(p)
	if errno != 0 {
		return 0, errno
	}
	return time.Duration(attr.duration), nil
}
