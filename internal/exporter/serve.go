package exporter

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/exporter-toolkit/web"

	"github.com/tricolor-policer/tricolor/bpf"
	"github.com/tricolor-policer/tricolor/loader"
)

// What a client may take of the server.
const (
	scrapes       = 2                // at once; more are refused
	scrapeTimeout = 10 * time.Second // Prometheus's own
	readTimeout   = 5 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 5 * time.Minute
	headerBytes   = 1 << 16
	lastScrapes   = 5 * time.Second // that they may still take when the server ends
)

// ErrWebConfig is wrapped where the file that sets TLS and users cannot be used.
var ErrWebConfig = errors.New("not a web configuration")

// Config is what is served, and where.
type Config struct {
	Address   string // HOST:PORT; port 0: any that is free
	WebConfig string // file with TLS and users, as Prometheus's exporter-toolkit reads it; empty: neither
	Version   string // of tricolor
	Log       *slog.Logger
	Ready     func() // called once it listens
}

// Serve answers scrapes at /metrics until the context ends. It reads policers as loader.List does, and requires what
// that does. Returns an error that wraps ErrWebConfig, or loader.ErrPrivilege where it may not look at policers.
func Serve(ctx context.Context, c Config) error {
	if err := web.Validate(c.WebConfig); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrWebConfig, c.WebConfig, err)
	}
	if err := read().err; errors.Is(err, loader.ErrPrivilege) {
		return err
	}
	handler, err := c.handler(newCollector(c.Log))
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", c.Address, err)
	}
	if open(listener.Addr()) && c.WebConfig == "" {
		c.Log.Warn("whoever reaches this address can read the metrics: a web configuration can ask for a password", "address", listener.Addr().String())
	}
	server := &http.Server{
		Handler: handler, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastScrapes)
		defer cancel()
		ended <- server.Shutdown(last)
	})
	c.Ready()
	err = web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &c.WebConfig}, c.Log)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(fmt.Errorf("serve at %s: %w", c.Address, err), listener.Close())
	}
	return <-ended
}

// open reports whether other machines may reach an address.
func open(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || !tcp.IP.IsLoopback()
}

// Print writes the metrics once, as text. Returns the error of what could not be read, too.
func Print(w io.Writer, c Config) error {
	all := newCollector(slog.New(slog.DiscardHandler))
	var s snapshot
	all.read = func() snapshot { s = read(); return s }
	registry := prometheus.NewRegistry()
	if err := errors.Join(registry.Register(all), registry.Register(buildInfo(c.Version))); err != nil {
		return err
	}
	families, err := registry.Gather()
	for _, f := range families {
		if _, writeErr := expfmt.MetricFamilyToText(w, f); writeErr != nil {
			return errors.Join(err, writeErr)
		}
	}
	s.tellApart()
	return errors.Join(err, s.errors())
}

// handler answers at /metrics, and at / with a page that says so.
func (c *Config) handler(policers *collector) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, part := range []prometheus.Collector{
		policers, buildInfo(c.Version),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(part); err != nil {
			return nil, err
		}
	}
	page, err := web.NewLandingPage(web.LandingConfig{
		Name: "tricolor exporter", Description: "What policers of this machine did, for Prometheus", Version: c.Version, Profiling: "false",
		Links: []web.LandingLinks{{Address: "/metrics", Text: "Metrics"}},
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapes, Timeout: scrapeTimeout,
	}))
	mux.Handle("GET /{$}", page)
	return mux, nil
}

// buildInfo tells what the exporter is, and the kernel program that it would attach.
func buildInfo(version string) prometheus.Collector {
	sum := bpf.ObjectSHA256()
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "exporter_build_info",
		Help:        "Always 1: the exporter's version, and the SHA-256 of the kernel program that comes with it.",
		ConstLabels: prometheus.Labels{"version": labelValue(version), "object_sha256": hex.EncodeToString(sum[:])},
	}, func() float64 { return 1 })
}
