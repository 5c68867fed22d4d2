package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// queried is what Prometheus answers, by name and label values, in the order of the labels' names.
func queried(t *testing.T, prometheus, query string) map[string]float64 {
	t.Helper()
	client := http.Client{Timeout: exporterPatience}
	answer, err := client.Get("http://" + prometheus + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode == http.StatusServiceUnavailable { // it is starting
		return nil
	}
	var result struct {
		Status string
		Data   struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := json.Unmarshal(text, &result); err != nil || result.Status != "success" {
		t.Fatalf("%s: %v: %s", query, err, text)
	}
	values := map[string]float64{}
	for _, r := range result.Data.Result {
		parts := []string{}
		for _, label := range []string{"__name__", "class", "color", "device", "direction", "hook", "meter", "netns", "object_sha256", "state", "version"} {
			if v, ok := r.Metric[label]; ok {
				parts = append(parts, v)
			}
		}
		number, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		values[strings.Join(parts, " ")] = number
	}
	return values
}

// agree polls until nothing differs.
func agree(t *testing.T, what string, differs func() string) {
	t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	end := time.After(exporterPatience)
	for {
		diff := differs()
		if diff == "" {
			return
		}
		select {
		case <-poll.C:
		case <-end:
			t.Fatalf("%s: not within %v: (-want +got)\n%s", what, exporterPatience, diff)
		}
	}
}

// listening is how servers of this kind say where they listen.
var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// startServer starts a server, which ends with the test, and returns the address at which it listens.
func startServer(t *testing.T, path string, args ...string) (address string) {
	t.Helper()
	c := exec.Command(path, args...)
	c.Env = environment()
	if path == "/proc/self/exe" {
		c.Args[0] = "tricolor"
	}
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	log, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	said, ended := make(chan string, 1), make(chan bool)
	var text strings.Builder
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(&text, lines.Text())
			if found := listening.FindStringSubmatch(lines.Text()); found != nil {
				select {
				case said <- found[1]:
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		if err := c.Process.Signal(unix.SIGTERM); err != nil {
			t.Errorf("end %s: %v", path, err)
		}
		kill := time.AfterFunc(exporterPatience, func() { _ = c.Process.Kill() })
		defer kill.Stop()
		err := c.Wait()
		<-ended
		if err != nil || t.Failed() {
			t.Logf("%s %v: ended with %v:\n%s", path, args, err, &text)
		}
		if err != nil {
			t.Fail()
		}
	})
	select {
	case address = <-said:
	case <-ended:
		t.Fatalf("%s ends at once", path)
	case <-time.After(exporterPatience):
		t.Fatalf("%s does not listen", path)
	}
	return address
}

// askSecured asks for metrics, and returns the answer's status.
func askSecured(t *testing.T, cert []byte, address, password string) int {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	client := http.Client{Timeout: exporterPatience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if password != "" {
		request.SetBasicAuth("prom", password)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode
}

// selfSigned writes cert.pem and key.pem, of a server at 127.0.0.1, and returns the first.
func selfSigned(t *testing.T, dir string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	writeText(t, dir, "cert.pem", string(cert))
	writeText(t, dir, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return cert
}

func writeText(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
