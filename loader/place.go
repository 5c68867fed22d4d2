package loader

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// ErrPlace is returned where a policer cannot go where it was to.
var ErrPlace = errors.New("no such place on the hook")

// Place says where on its hook a policer goes. The zero Place is behind all that are there.
type Place struct {
	// One on the TCX hook, by its program's id or name, or All of them: at most one of the two.
	Before, After string
	// Of the clsact filter: lower ones see a packet first. 0: behind all that are there.
	Priority uint16
}

// All stands for all programs of a TCX hook in a Place.
const All = "all"

// mechanism is the one that has such places, where m leaves the choice.
func (p Place) mechanism(m Mechanism) (Mechanism, error) {
	relative := p.Before != "" || p.After != ""
	switch {
	case p.Before != "" && p.After != "":
		return m, fmt.Errorf("%w: both before %s and after %s: say one", ErrPlace, p.Before, p.After)
	case relative && p.Priority != 0:
		return m, fmt.Errorf("%w: before and after are places on TCX, a priority is one on clsact: say one", ErrPlace)
	case relative && m == Clsact:
		return m, fmt.Errorf("%w: before and after are places on TCX; on clsact say a priority", ErrPlace)
	case p.Priority != 0 && m == TCX:
		return m, fmt.Errorf("%w: a priority is a place on clsact; on TCX say before or after whom", ErrPlace)
	case relative:
		return TCX, nil
	case p.Priority != 0:
		return Clsact, nil
	}
	return m, nil
}

// anchor finds the place on a TCX hook.
func (p Place) anchor(device netlink.Link, d Direction) (link.Anchor, error) {
	whom := p.Before + p.After // one of them
	switch {
	case p.Before == All:
		return link.Head(), nil
	case whom == "", p.After == All:
		return link.Tail(), nil
	}
	all, err := onTCX(device, d)
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(slices.Clone(all), func(o OnHook) bool { return !o.isCalled(whom) })
	hook := fmt.Sprintf("the TCX hook of %s %v", device.Attrs().Name, d)
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("%w: %s is not there, nobody is on %s", ErrPlace, whom, hook)
	case len(found) == 0:
		return nil, fmt.Errorf("%w: %s is not on %s; there are: %s", ErrPlace, whom, hook, join(all))
	case len(found) > 1:
		return nil, fmt.Errorf("%w: several on %s are called %s: say an id: %s", ErrPlace, hook, whom, join(found))
	case p.Before != "":
		return link.BeforeProgramByID(found[0].ProgramID), nil
	default:
		return link.AfterProgramByID(found[0].ProgramID), nil
	}
}

// isCalled reports whether a person may mean it by this id or name.
func (o OnHook) isCalled(word string) bool {
	const kept = 15 // bytes that the kernel keeps of a name
	return word == strconv.Itoa(int(o.ProgramID)) || o.Name != "" && word[:min(len(word), kept)] == o.Name
}

func join(all []OnHook) string {
	var words []string
	for _, o := range all {
		words = append(words, o.String())
	}
	return strings.Join(words, ", ")
}

func noTCX(err error) error {
	return fmt.Errorf("%w: TCX needs Linux 6.6 or newer: leave the mechanism to auto, or say clsact: %w", ErrKernel, err)
}
