package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/daemon"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Keep devices policed by the files of a folder, as a service does (root)",
		Long: `Run reads a policy file for each interface, and attaches it: now, or when the interface appears, and again when
it comes back. eth0.yaml is what arrives at eth0 (so is eth0.ingress.yaml), eth0.egress.yaml what leaves it.
What is policed already is left, or changed as by "apply" where the file differs. One file that is refused
hides no other.

SIGHUP has the files be read again. A file that is refused leaves its interface policed as it was; one that is gone
too. It ends with SIGTERM: what is policed stays so. It exits with 1 where a policy was not in force then.

What "save --all --to FOLDER" kept is restored from --save-dir. Where nothing was saved, buckets begin empty as of
boot ("attach --drained"), so that a crash grants nobody a second burst. The buckets of a device that went away are
kept until it is back. Everything works without run as well: it does what the other commands do.`,
		Example: "  sudo tricolor run --config policies --save-dir saved",
		Args:    arguments(cobra.NoArgs),
	}
	d := daemon.Daemon{}
	cmd.Flags().StringVar(&d.Config, "config", "/etc/tricolor", "`FOLDER` of the policies")
	cmd.Flags().StringVar(&d.Saved, "save-dir", "/var/lib/tricolor", "`FOLDER` of what save --all kept")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
		slog.SetDefault(d.Log)
		d.Version = versionText()
		d.Notify = func(state string) {
			if _, err := sd.SdNotify(false, state); err != nil {
				d.Log.Warn("the service manager cannot be told", "error", err)
			}
		}
		reload := make(chan os.Signal, 1)
		signal.Notify(reload, syscall.SIGHUP)
		defer signal.Stop(reload)
		return d.Run(cmd.Context(), reload)
	}
	return cmd
}
