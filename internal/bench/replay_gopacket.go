package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"golang.org/x/time/rate"
)

// gopacketPolicer is what people write with gopacket: its reader without copies, its layers decoded in place, a map of
// limiters by the flow's addresses and ports.
func gopacketPolicer(packets int) func(string) error {
	type flow struct{ network, transport gopacket.Flow }
	return func(name string) error {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		r, err := pcapgo.NewReader(bufio.NewReaderSize(file, 1<<20))
		if err != nil {
			return err
		}
		var (
			ethernet layers.Ethernet
			ip       layers.IPv4
			udp      layers.UDP
			decoded  []gopacket.LayerType
			limiters = map[flow]*rate.Limiter{}
			passed   int
		)
		parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &ethernet, &ip, &udp)
		parser.IgnoreUnsupported = true // the payload
		for {
			data, info, err := r.ZeroCopyReadPacketData()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if err := parser.DecodeLayers(data, &decoded); err != nil {
				return err
			}
			key := flow{ip.NetworkFlow(), udp.TransportFlow()}
			l := limiters[key]
			if l == nil {
				l = rate.NewLimiter(12_500_000_000, 1<<30)
				limiters[key] = l
			}
			if l.AllowN(info.Timestamp, int(ip.Length)) {
				passed++
			}
		}
		if passed != packets {
			return fmt.Errorf("%d packets passed of %d", passed, packets)
		}
		return nil
	}
}
