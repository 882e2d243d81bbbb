package node

import (
	"errors"
	"fmt"
	"os"
)

// alternative is what remains to those who may not run a node.
const alternative = "any cluster does instead: KUBECONFIG=… make demo"

// ErrNotPermitted means that this machine or this user cannot run a node.
var ErrNotPermitted = errors.New("this machine cannot run the bed")

// Permitted says in one sentence what is missing to run a node, if anything is.
func Permitted() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it needs root for namespaces, mounts and a network interface; %s", ErrNotPermitted, alternative)
	}
	found, err := mountedHierarchies()
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%w: no cgroup hierarchy is mounted; %s", ErrNotPermitted, alternative)
	}
	return nil
}
