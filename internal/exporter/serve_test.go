package exporter

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// get asks a handler, and returns its status and answer.
func get(h http.Handler, method, path string) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

func TestHandler(t *testing.T) {
	c := Config{Version: "1.2.3", Log: slog.New(slog.DiscardHandler)}
	policers := newCollector(c.Log)
	policers.read = func() snapshot {
		return snapshot{policers: []policer{policerOf(t, identity{"eth0", "ingress", ""}, "web")}}
	}
	h, err := c.handler(policers)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path string
		status       int
		has          string
	}{
		{"GET", "/metrics", 200, `tricolor_packets_total{class="web",color="red",device="eth0",direction="ingress",netns=""} 0`},
		{"GET", "/metrics", 200, `version="1.2.3"} 1`},
		{"GET", "/metrics", 200, "process_open_fds "},
		{"GET", "/", 200, `href="/metrics"`},
		{"GET", "/debug/pprof/", 404, ""},
		{"POST", "/metrics", 405, ""},
	} {
		if status, body := get(h, test.method, test.path); status != test.status || !strings.Contains(body, test.has) {
			t.Errorf("%s %s: %d, want %d with %s:\n%s", test.method, test.path, status, test.status, test.has, body)
		}
	}
}

// A scrape too many at once is refused, and does not wait.
func TestScrapesAreBounded(t *testing.T) {
	c := Config{Log: slog.New(slog.DiscardHandler)}
	policers := newCollector(c.Log)
	begun, goOn := make(chan bool), make(chan bool)
	policers.read = func() snapshot {
		begun <- true
		<-goOn
		return snapshot{}
	}
	h, err := c.handler(policers)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan int)
	for range scrapes {
		go func() {
			status, _ := get(h, "GET", "/metrics")
			done <- status
		}()
		<-begun
	}
	if status, _ := get(h, "GET", "/metrics"); status != http.StatusServiceUnavailable {
		t.Errorf("a scrape too many: %d, want 503", status)
	}
	close(goOn)
	for range scrapes {
		if status := <-done; status != http.StatusOK {
			t.Errorf("a scrape within the bound: %d, want 200", status)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, path := range map[string]string{
		"no file":        filepath.Join(dir, "none.yml"),
		"unknown key":    write("key.yml", "tls_servers: {}\n"),
		"no certificate": write("cert.yml", "tls_server_config: { cert_file: none.pem, key_file: none.pem }\n"),
		"no hash":        write("user.yml", "basic_auth_users: { prometheus: CHANGE-ME }\n"),
	} {
		err := Serve(t.Context(), Config{Address: "127.0.0.1:0", WebConfig: path, Log: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, ErrWebConfig) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want ErrWebConfig with the file", name, err)
		}
	}
}

// What is packaged as an example of a web configuration has no password until somebody sets one.
func TestPackagedWebConfig(t *testing.T) {
	text := string(packaged(t, folder+"/web-config.yml"))
	_, users, found := strings.Cut(text, "basic_auth_users:")
	if !found {
		t.Fatal("no users")
	}
	path := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(path, []byte("basic_auth_users:"+users), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Serve(t.Context(), Config{WebConfig: path}); !errors.Is(err, ErrWebConfig) {
		t.Errorf("%v, want ErrWebConfig", err)
	}
}

// It says so where other machines may ask without a password, and where it cannot listen; it ends with its context.
func TestServeEnds(t *testing.T) {
	if read().err != nil {
		t.Skipf("needs to look at policers: %v", read().err)
	}
	for address, warned := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, "0.0.0.0:0": true} {
		if l, err := net.Listen("tcp", address); err != nil {
			t.Logf("left out: %v", err)
			continue
		} else if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var log strings.Builder
		err := Serve(ctx, Config{Address: address, Log: slog.New(slog.NewTextHandler(&log, nil)), Ready: cancel})
		if err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if got := strings.Contains(log.String(), "whoever reaches this address"); got != warned {
			t.Errorf("%s: warned %t, want %t: %s", address, got, warned, log.String())
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = Serve(t.Context(), Config{Address: taken.Addr().String(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("at an address that is taken: %v", err)
	}
}
