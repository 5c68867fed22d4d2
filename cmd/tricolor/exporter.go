package main

import (
	"errors"
	"log/slog"
	"net"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/exporter"
)

func newExporter() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Serve the counters of all policers to Prometheus (root)",
		Long: `Exporter answers Prometheus at /metrics with what "show" shows of every policed device: packets and bytes by class
and colour, how full the tables are, overflow, contention, and what is in force. It reads them when it is asked,
and keeps nothing: devices may come and go. No label names a flow.

It listens on this machine alone, unless told otherwise; a file of Prometheus's exporter-toolkit turns on TLS and
asks for a password (docs/exporter.md). Two scrapes at once are answered, more are refused. A policer that
cannot be read has tricolor_scrape_error 1, and hides no other. It ends with SIGTERM.

A user other than root needs CAP_DAC_OVERRIDE, since the pins are root's own; nobody needs anything else.`,
		Example: "  sudo tricolor exporter --once\n  sudo tricolor exporter --web.listen-address 127.0.0.1:24115",
		Args:    needNothing,
	}
	c := exporter.Config{}
	once := cmd.Flags().Bool("once", false, "print the metrics, as text, and end")
	cmd.Flags().StringVar(&c.Address, "web.listen-address", "localhost:24115", "`HOST:PORT` to listen at; port 0: any that is free")
	cmd.Flags().StringVar(&c.WebConfig, "web.config.file", "", "`FILE` that sets TLS and users, as Prometheus's exporter-toolkit reads it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c.Version = versionText()
		if *once {
			return exporter.Print(cmd.OutOrStdout(), c)
		}
		if _, _, err := net.SplitHostPort(c.Address); err != nil {
			return usage("--web.listen-address: %w: say HOST:PORT, such as localhost:24115", err)
		}
		c.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
		slog.SetDefault(c.Log)
		c.Ready = func() {
			if _, err := sd.SdNotify(false, sd.SdNotifyReady); err != nil {
				c.Log.Warn("the service manager cannot be told", "error", err)
			}
		}
		err := exporter.Serve(cmd.Context(), c)
		if errors.Is(err, exporter.ErrWebConfig) {
			return &usageError{err}
		}
		return err
	}
	return cmd
}
