package loader

import "errors"

// DetachAll takes off all policers of the calling thread's network namespace, stale ones too; others it leaves.
// One that cannot be taken off hinders no other: the error tells of it. The caller closes what was
// taken off and what is left, those that failed among them.
func DetachAll() (taken, left []*Attachment, err error) {
	all, err := List()
	for _, a := range all {
		if !a.Here {
			left = append(left, a)
			continue
		}
		switch failed := a.Detach(); {
		case failed == nil:
			taken = append(taken, a)
		case errors.Is(failed, ErrNotAttached): // another command was quicker
			err = errors.Join(err, a.Close())
		default:
			left, err = append(left, a), errors.Join(err, failed)
		}
	}
	return taken, left, err
}
