package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tricolor-policer/tricolor/loader"
	"github.com/tricolor-policer/tricolor/policy"
)

// target is what is policed: a device's packets of one direction.
type target struct {
	device    string
	direction loader.Direction
}

func (t target) String() string { return fmt.Sprintf("%s %v", t.device, t.direction) }

const suffix = ".yaml"

// parseName reads the name of a policy file: eth0.yaml and eth0.ingress.yaml are what arrives at eth0,
// eth0.egress.yaml what leaves it; false: it is no policy file.
func parseName(name string) (t target, ok bool) {
	device, ok := strings.CutSuffix(name, suffix)
	if !ok || strings.HasPrefix(device, ".") {
		return t, false
	}
	t.direction = loader.Ingress
	for _, d := range []loader.Direction{loader.Ingress, loader.Egress} {
		if without, found := strings.CutSuffix(device, "."+d.String()); found {
			device, t.direction = without, d
			break
		}
	}
	t.device = device
	return t, device != ""
}

// wanted is a target's policy file. Where it is refused, policy is nil and err says why.
type wanted struct {
	file   string
	policy *policy.Policy
	err    error
}

// readConfig reads all policies of a folder. One that is refused hides no other.
func readConfig(dir string) (map[target]*wanted, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the folder of the policies: %w: make it, and put eth0%s there", err, suffix)
	}
	if err != nil {
		return nil, fmt.Errorf("read the folder of the policies: %w", err)
	}
	all := map[target]*wanted{}
	for _, e := range entries {
		t, ok := parseName(e.Name())
		if !ok {
			continue
		}
		w := &wanted{file: filepath.Join(dir, e.Name())}
		if other, twice := all[t]; twice {
			other.policy, other.err = nil, fmt.Errorf("%s and %s are both of %v: remove one", filepath.Base(other.file), e.Name(), t)
			continue
		}
		w.policy, w.err = policy.Load(w.file)
		if w.err == nil {
			_, w.err = w.policy.Compile()
		}
		if w.err != nil {
			w.policy = nil
		}
		all[t] = w
	}
	return all, nil
}

// inOrder are the targets of a map, by device, then direction.
func inOrder[V any](m map[target]V) (all []target) {
	for t := range m {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.String(), b.String()) })
	return all
}
