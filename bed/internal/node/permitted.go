package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// alternative is what remains to those who may not run a node.
const alternative = "any cluster does instead: KUBECONFIG=… make demo"

// ErrNotPermitted means that this machine or this user cannot run a node.
var ErrNotPermitted = errors.New("this machine cannot run the bed")

// namespaces is what the node gets of its own.
const namespaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC

// Permitted says in one sentence what is missing to run a node, if anything is. It is asked before anything is built.
func Permitted(ctx context.Context) error {
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
	for _, h := range withControllers(found) {
		if err := unix.Access(h.root, unix.W_OK); err != nil {
			return fmt.Errorf("%w: the cgroups below %s cannot be written (%w); %s", ErrNotPermitted, h.root, err, alternative)
		}
	}
	return mayIsolate(ctx)
}

// mayIsolate starts a program that does nothing in namespaces like the node's: root inside a container may not.
func mayIsolate(ctx context.Context) error {
	nothing, err := exec.LookPath("true")
	if err != nil {
		return fmt.Errorf("looking for a program to try namespaces with: %w", err)
	}
	command := exec.CommandContext(ctx, nothing)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if err := command.Run(); err != nil {
		return fmt.Errorf("%w: it may not make namespaces (%w); %s", ErrNotPermitted, err, alternative)
	}
	return nil
}
