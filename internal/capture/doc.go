// Package capture reads packet captures and CSV traces for a policer's replay,
// and writes the capture of what comes out.
//
// Read are pcap (micro- and nanosecond, either byte order) and pcapng (either
// byte order, many sections and interfaces, also mixed), each either gzipped
// or not, told apart by their first bytes and never by their names. Input is
// taken to be hostile: memory is bounded by one window of at most 1 MiB whatever
// a length field claims, and a file cut anywhere gives every whole record before
// the cut, then a CutError.
//
// The two formats are read by this package's own code, not by gopacket's
// pcapgo, which is wrong where a policer cannot afford it (v1.1.19):
//
//   - a record with more captured than original bytes is an error there, and a
//     packet here (its length is then what was captured);
//   - its link types are 8 bits wide, so that LINUX_SLL2 (276) reads as 20;
//   - microseconds are multiplied in 32 bits, and wrap;
//   - a pcapng timestamp resolution of whole seconds is taken for microseconds,
//     one finer than 10^-19 or 2^-63 overflows, up to a division by zero, and
//     binary ones finer than 10^-9 are scaled by a rounded factor;
//   - a truncated pcapng ends like a whole one, its block lengths are believed
//     (4 GB are allocated, or a slice panics), and their trailers unread.
//
// The tests compare both readers on captures where pcapgo is right.
package capture
