package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"

	"github.com/tricolor-policer/tricolor/internal/units"
	"github.com/tricolor-policer/tricolor/loader"
)

func newDump() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "dump flows|maps DEV",
		Short:   "Dump a policed device's buckets, or list its kernel maps (root)",
		Long:    "Dump prints a policed device's buckets, or lists its kernel maps. A user other than root needs\nCAP_DAC_OVERRIDE, since the pins are root's own.",
		Example: "  sudo tricolor dump flows eth0 --sort red --limit 20\n  sudo tricolor dump maps eth0 -o json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error {
			return usage("say what to dump: tricolor dump flows DEV, or tricolor dump maps DEV")
		},
	}
	cmd.AddCommand(newDumpFlows(), newDumpMaps())
	return cmd
}

// found runs what on the attachment that a dump command names.
func found(device string, direction *choice, what func(*loader.Attachment) error) error {
	d, err := loader.ParseDirection(direction.word)
	if err != nil {
		return &usageError{err}
	}
	a, err := loader.Find(device, d)
	if err != nil {
		return err
	}
	return errors.Join(what(a), a.Close())
}

func newDumpMaps() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "maps DEV",
		Short:   "List the kernel maps of a policed device (root)",
		Example: "  sudo tricolor dump maps eth0 --limit 3",
		Args:    needDevice,
	}
	direction := addDirection(cmd)
	limit := cmd.Flags().Uint("limit", 0, "print the first `N` only; 0: all")
	output := addOutput(cmd, "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return found(args[0], direction, func(a *loader.Attachment) error {
			list, err := mapsOf(a)
			if err != nil {
				return err
			}
			if *limit > 0 && *limit < uint(len(list)) {
				list = list[:*limit]
			}
			if output.word == "json" {
				return printJSON(cmd.OutOrStdout(), map[string]any{
					"device": a.Device, "direction": a.Direction().String(), "maps": list,
				})
			}
			t := newNumbers(cmd.OutOrStdout())
			t.named("pinned at", "map", "id", "type", "entries", "memory")
			for _, m := range list {
				t.named(m.Path, m.Name, fmt.Sprint(m.ID), m.Type, units.FormatCount(uint64(m.Entries)), units.FormatBytes(m.Memory))
			}
			return t.flush()
		})
	}
	return cmd
}

// mapJSON is a kernel map as -o json prints it.
type mapJSON struct {
	Name    string `json:"name"`
	ID      uint32 `json:"id"`
	Type    string `json:"type"`
	Entries uint32 `json:"entries"`
	Memory  uint64 `json:"memory_bytes"`
	Path    string `json:"path"`
}

// mapsOf describes an attachment's maps, by name.
func mapsOf(a *loader.Attachment) ([]mapJSON, error) {
	dir := filepath.Join(loader.Root, fmt.Sprintf("%d-%d-%v", a.About.NetNS, a.About.Ifindex, a.Direction()))
	var list []mapJSON
	for name, m := range a.Maps.Named() {
		described, err := describeMap(*m)
		if err != nil {
			return nil, fmt.Errorf("look at the map %s: %w", name, err)
		}
		described.Name, described.Path = name, filepath.Join(dir, name)
		list = append(list, described)
	}
	slices.SortFunc(list, func(a, b mapJSON) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

func describeMap(m *ebpf.Map) (mapJSON, error) {
	info, err := m.Info()
	if err != nil {
		return mapJSON{}, err
	}
	id, _ := info.ID()
	memory, _ := info.Memlock()
	return mapJSON{ID: uint32(id), Type: info.Type.String(), Entries: info.MaxEntries, Memory: memory}, nil
}
