package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"

	"github.com/tricolor-policer/tricolor/internal/testutils"
	"github.com/tricolor-policer/tricolor/loader"
)

// exporterPatience is how long anything may take on a loaded machine.
const exporterPatience = 2 * time.Minute

// far is a device's name that is hard to carry in a label.
const far = `d"\é`

// scraped is a policy of some classes, in a table that is soon full.
const scraped = `
version: 1
flows: 64
profiles:
  visit:   { meter: srtcm, cir: 1B/s, cbs: 300B, ebs: 200B }
  network: { meter: token, cir: 1B/s, cbs: 20kB }
classes:
  - { name: chain, match: { dport: 5001 }, meters: [ { profile: visit, per: flow }, { profile: network, per: src } ] }
  - { name: second, match: { dport: 5002 }, meters: [ { profile: visit, per: flow } ] }
  - { name: idle, match: { dport: 5003 }, meters: [ { profile: network, per: class } ] }
`

// A real Prometheus, asking an exporter without a password and one with TLS and a password, has the numbers of show;
// devices go and break under it, and no scrape fails.
func TestExporterScrapedByPrometheus(t *testing.T) {
	testutils.RequireRoot(t)
	server, _ := testutils.Prometheus(t)
	dir := t.TempDir()
	d0 := scrapedDevices(t)
	file := writeText(t, dir, "policy.yaml", scraped)
	for _, args := range [][]string{
		{"attach", "d0", "--direction", "egress", "-f", file},
		{"attach", far, "--direction", "ingress", "--meter", "token", "--cir", "1B/s", "--cbs", "5kB", "--flows", "1k"},
	} {
		if out := command(t, "", args...); out.code != exitDone {
			t.Fatalf("%v: %+v", args, out)
		}
	}
	for i := range 300 {
		scrapedTraffic(t, 5001+i%4, 10000+i/4)
	}

	want := asShown(t)
	for _, name := range []string{
		"packets_total chain green d0 egress", "packets_total chain red d0 egress", "overflow_packets_total chain d0 egress",
		"unmatched_packets_total d0 egress", "table_used_slots d0 egress 1", "table_used_slots d0 egress 2", "packets_total default green " + far + " ingress",
	} {
		if want["tricolor_"+name] == 0 {
			t.Errorf("nothing to compare: %s is 0", name)
		}
	}

	plain := startServer(t, "/proc/self/exe", "exporter", "--web.listen-address", "127.0.0.1:24115")
	cert := selfSigned(t, dir)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	web := writeText(t, dir, "web.yml", fmt.Sprintf("tls_server_config: { cert_file: cert.pem, key_file: key.pem }\nbasic_auth_users: { prom: %q }\n", hash))
	secured := startServer(t, "/proc/self/exe", "exporter", "--web.listen-address", "127.0.0.1:0", "--web.config.file", web)
	for password, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "secret": http.StatusOK} {
		if got := askSecured(t, cert, secured, password); got != want {
			t.Errorf("password %q: %d, want %d", password, got, want)
		}
	}

	config := writeText(t, dir, "prometheus.yml", fmt.Sprintf(`
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - { job_name: plain, static_configs: [ { targets: [ %q ] } ] }
  - job_name: secured
    scheme: https
    tls_config: { ca_file: cert.pem }
    basic_auth: { username: prom, password: secret }
    static_configs: [ { targets: [ %q ] } ]
`, plain, secured))
	prometheus := startServer(t, server, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address=127.0.0.1:0")

	for _, job := range []string{"plain", "secured"} {
		agree(t, job+" has the numbers of show", func() string {
			return cmp.Diff(asShown(t), queried(t, prometheus, `{__name__=~"tricolor_.*", job="`+job+`"}`))
		})
	}

	// One that cannot be read says so, and hides no other.
	breakPolicy(t, far, loader.Ingress)
	agree(t, "the far device cannot be read", func() string {
		return cmp.Diff(map[string]float64{"tricolor_scrape_error d0 egress": 0, "tricolor_scrape_error " + far + " ingress": 1},
			queried(t, prometheus, `tricolor_scrape_error{job="plain"}`))
	})
	if got := queried(t, prometheus, `count by (device, direction) (tricolor_packets_total{job="plain"})`); len(got) != 1 {
		t.Errorf("counters of %v, want of d0 alone", got)
	}
	if out := command(t, "", "exporter", "--once"); out.code != exitFailed || !strings.Contains(out.stdout, "tricolor_scrape_error{device="+strconv.Quote(far)+`,direction="ingress",netns=""} 1`) ||
		!strings.Contains(out.stdout, `tricolor_packets_total{class="idle",color="red",device="d0",`) || !strings.Contains(out.stderr, far+" ingress: ") {
		t.Errorf("exporter --once with a policer that cannot be read: %+v", out)
	}

	// Devices go, and with them what was told of them.
	if err := netlink.LinkDel(d0); err != nil {
		t.Fatal(err)
	}
	agree(t, "the devices are gone", func() string {
		return cmp.Diff(map[string]float64{"tricolor_policers stale": 2}, queried(t, prometheus, `tricolor_policers{job="plain"} > 0 or tricolor_packets_total{job="plain"}`))
	})
	agree(t, "scrapes go on", func() string {
		return cmp.Diff(map[string]float64{"up": 2}, queried(t, prometheus, `label_replace(sum(up), "__name__", "up", "", "")`))
	})
}

// The exporter needs no capability where it is root, as the service is, and else none but that to open root's pins.
func TestExporterPrivilege(t *testing.T) {
	testutils.RequireRoot(t)
	scrapedDevices(t)
	if out := command(t, "", "attach", "d0", "--direction", "egress", "--meter", "token", "--cir", "1B/s", "--cbs", "5kB", "--flows", "64"); out.code != exitDone {
		t.Fatalf("%+v", out)
	}
	const line = `tricolor_packets_total{class="default",color="green",device="d0",direction="egress",netns=""} 0`
	for name, out := range map[string]outcome{
		"root without capabilities, a bpffs that is read-only": command(t, "bpffs_write,cap_all", "exporter", "--once"),
		"nobody with CAP_DAC_OVERRIDE":                         asNobody(t, []uintptr{unix.CAP_DAC_OVERRIDE}, "exporter", "--once"),
	} {
		if out.code != exitDone || out.stderr != "" || !strings.Contains(out.stdout, line+"\n") {
			t.Errorf("%s: %+v", name, out)
		}
	}
	for _, args := range [][]string{{"exporter", "--once"}, {"exporter"}} {
		if out := asNobody(t, nil, args...); out.code != exitLacking || !strings.Contains(out.stderr, "CAP_DAC_OVERRIDE") {
			t.Errorf("nobody: %v: %+v", args, out)
		}
	}
}

// scrapedDevices makes two devices, d0 and far, joined: what is sent to 192.0.2.2 leaves d0 and arrives at far, where
// nobody answers. They, and what polices them, go with the test.
func scrapedDevices(t *testing.T) (d0 netlink.Link) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lo, err := netlink.LinkByName("lo")
	must(err)
	must(netlink.LinkSetUp(lo))
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "d0"
	d0 = &netlink.Veth{LinkAttrs: attrs, PeerName: far}
	must(netlink.LinkAdd(d0))
	t.Cleanup(func() {
		_ = netlink.LinkDel(d0) // where the test has not removed it
		if _, err := loader.GC(loader.GCOptions{}); err != nil {
			t.Error(err)
		}
	})
	d1, err := netlink.LinkByName(far)
	must(err)
	for _, l := range []netlink.Link{d0, d1} {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/"+l.Attrs().Name+"/disable_ipv6", []byte("1"), 0) // it would speak by itself
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		must(netlink.LinkSetUp(l))
	}
	address, err := netlink.ParseAddr("192.0.2.1/24")
	must(err)
	must(netlink.AddrAdd(d0, address))
	must(netlink.NeighAdd(&netlink.Neigh{
		LinkIndex: d0.Attrs().Index, IP: net.IPv4(192, 0, 2, 2), State: netlink.NUD_PERMANENT, HardwareAddr: d1.Attrs().HardwareAddr,
	}))
	return d0
}

// scrapedTraffic sends a packet of 128 bytes out of d0.
func scrapedTraffic(t *testing.T, to, from int) {
	t.Helper()
	s, err := net.DialUDP("udp4", &net.UDPAddr{Port: from}, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 2), Port: to})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write(make([]byte, 100)); err != nil { // red is dropped, and the sender told
		t.Logf("sent to %d: %v", to, err)
	}
}

// breakPolicy has a policer's policy be one that no program wrote.
func breakPolicy(t *testing.T, device string, d loader.Direction) {
	t.Helper()
	a, err := loader.Find(device, d)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for i := range a.Maps.Policies.MaxEntries() {
		if err := a.Maps.Policies.Update(i, bytes.Repeat([]byte{0xff}, int(a.Maps.Policies.ValueSize())), ebpf.UpdateAny); err != nil {
			t.Fatal(err)
		}
	}
}

// asShown is what show tells, under the names that queried has.
func asShown(t *testing.T) map[string]float64 {
	t.Helper()
	out := command(t, "", "show", "-o", "json")
	if out.code != exitDone {
		t.Fatalf("show: %+v", out)
	}
	var all struct {
		Attachments []struct {
			Device, Direction, Hook, Version string
			Object                           string `json:"object_sha256"`
			Since                            uint64 `json:"since_unix"`
			Unconfirmed                      uint64 `json:"unconfirmed_ns"`
			statsJSON
			Table struct {
				Slots, Used uint64
				Meters      []stageUse
			}
		}
	}
	if err := json.Unmarshal([]byte(out.stdout), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{
		"tricolor_list_error": 0, "tricolor_policers attached": float64(len(all.Attachments)),
		"tricolor_policers moved": 0, "tricolor_policers stale": 0, "tricolor_policers unseen": 0,
	}
	sum := thisBuild()
	values["tricolor_exporter_build_info "+sum.Object.SHA256+" "+sum.Version] = 1
	for _, v := range all.Attachments {
		count := func(name string, value uint64, more ...string) {
			values[strings.Join(append([]string{"tricolor_" + name}, more...), " ")] = float64(value)
		}
		for _, c := range v.Classes {
			for color, n := range map[string]countJSON{"green": c.Colors.Green, "yellow": c.Colors.Yellow, "red": c.Colors.Red} {
				count("packets_total", n.Packets, c.Name, color, v.Device, v.Direction)
				count("bytes_total", n.Bytes, c.Name, color, v.Device, v.Direction)
			}
			count("overflow_packets_total", c.Overflow, c.Name, v.Device, v.Direction)
			count("contended_packets_total", c.Contended, c.Name, v.Device, v.Direction)
			count("clock_back_total", c.ClockBack, c.Name, v.Device, v.Direction)
		}
		count("unmatched_packets_total", v.Unmatched, v.Device, v.Direction)
		count("not_ip_packets_total", v.NotIP, v.Device, v.Direction)
		count("malformed_packets_total", v.Malformed, v.Device, v.Direction)
		count("long_chain_packets_total", v.LongChain, v.Device, v.Direction)
		count("unread_packets_total", v.Unread, v.Device, v.Direction)
		meters := v.Table.Meters
		if len(meters) == 0 {
			meters = []stageUse{{Meter: 1, Slots: v.Table.Slots, Used: v.Table.Used}}
		}
		for _, m := range meters {
			count("table_slots", m.Slots, v.Device, v.Direction, strconv.Itoa(m.Meter))
			count("table_used_slots", m.Used, v.Device, v.Direction, strconv.Itoa(m.Meter))
		}
		count("policer_info", 1, v.Device, v.Direction, v.Hook, v.Object, v.Version)
		count("attached_timestamp_seconds", v.Since, v.Device, v.Direction)
		count("policy_generation", 1, v.Device, v.Direction)
		count("policy_classes", uint64(len(v.Classes)), v.Device, v.Direction)
		count("policy_unconfirmed_seconds", v.Unconfirmed, v.Device, v.Direction)
		count("scrape_error", 0, v.Device, v.Direction)
	}
	return values
}
