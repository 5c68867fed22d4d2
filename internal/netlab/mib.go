package netlab

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// udpChecksumErrors returns how many datagrams the host has dropped for their UDP
// checksum. The kernel checks a short one before it looks for a socket, so that only
// the namespace's own counters have them all: those of IPv4 and IPv6 together, since
// it counts some of IPv6's under IPv4.
func (h *Host) udpChecksumErrors() (total uint64, err error) {
	err = h.Do(func() error {
		for file, find := range map[string]func(lines []string) string{
			"/proc/thread-self/net/snmp":  findSNMP,
			"/proc/thread-self/net/snmp6": findSNMP6,
		} {
			table, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("read the UDP counters: %w", err)
			}
			n, err := strconv.ParseUint(find(strings.Split(string(table), "\n")), 10, 64)
			if err != nil {
				return fmt.Errorf("find InCsumErrors of UDP in %s: %w", file, err)
			}
			total += n
		}
		return nil
	})
	return total, err
}

// findSNMP looks in a line of names and a line of values.
func findSNMP(lines []string) string {
	for i, line := range lines[:len(lines)-1] {
		names, values := strings.Fields(line), strings.Fields(lines[i+1])
		at := slices.Index(names, "InCsumErrors")
		if at > 0 && names[0] == "Udp:" && at < len(values) {
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
