package netlab

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ChecksumErrors returns how many TCP segments and UDP datagrams the host has dropped
// for their checksum. A checksum that Offload leaves to the device is never wrong.
func (h *Host) ChecksumErrors() (uint64, error) {
	var tcp uint64
	err := h.Do(func() (err error) {
		tcp, err = counter("/proc/thread-self/net/snmp", func(lines []string) string {
			return findSNMP(lines, "Tcp:") // IPv6's too
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("netlab: %w", err)
	}
	udp, err := h.udpChecksumErrors()
	if err != nil {
		return 0, fmt.Errorf("netlab: %w", err)
	}
	return tcp + udp, nil
}

// udpChecksumErrors returns how many datagrams the host has dropped for their UDP
// checksum. The kernel checks a short one before it looks for a socket, so that only
// the namespace's own counters have them all: those of IPv4 and IPv6 together, since
// it counts some of IPv6's under IPv4.
func (h *Host) udpChecksumErrors() (total uint64, err error) {
	err = h.Do(func() error {
		for file, find := range map[string]func(lines []string) string{
			"/proc/thread-self/net/snmp": func(lines []string) string {
				return findSNMP(lines, "Udp:")
			},
			"/proc/thread-self/net/snmp6": findSNMP6,
		} {
			n, err := counter(file, find)
			if err != nil {
				return err
			}
			total += n
		}
		return nil
	})
	return total, err
}

// counter reads the checksum counter that find finds in a table of the kernel's.
func counter(file string, find func(lines []string) string) (uint64, error) {
	table, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("read the kernel's counters: %w", err)
	}
	n, err := strconv.ParseUint(find(strings.Split(string(table), "\n")), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("find the checksum errors in %s: %w", file, err)
	}
	return n, nil
}

// findSNMP looks in a protocol's line of names and its line of values.
func findSNMP(lines []string, protocol string) string {
	for i, line := range lines[:len(lines)-1] {
		names, values := strings.Fields(line), strings.Fields(lines[i+1])
		at := slices.Index(names, "InCsumErrors")
		if at > 0 && names[0] == protocol && at < len(values) {
			return values[at]
		}
	}
	return ""
}

// findSNMP6 looks in lines of one name and one value.
func findSNMP6(lines []string) string {
	for _, line := range lines {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "Udp6InCsumErrors" {
			return f[1]
		}
	}
	return ""
}
