// Package confine runs a program below a directory as if it were in a container: with that directory as its root, and
// with processes, mounts and a loopback network of its own. It needs root.
//
// It is what builds use to run an image's own programs before there is anything that runs containers.
package confine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Subcommand is the hidden command of the bed that becomes the confined program.
const Subcommand = "confined"

// Command prepares a program of the directory; its output and life are the caller's. The program dies with the context
// or with this process, and so does everything that it starts.
func Command(ctx context.Context, root string, args ...string) (*exec.Cmd, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the bed's own program: %w", err)
	}
	command := exec.CommandContext(ctx, own, append([]string{Subcommand, root}, args...)...)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	return command, nil
}

// Enter arranges the namespaces that Command made and becomes the program; it returns only when that fails.
func Enter(root string, args []string) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("%s is the bed's own way to run an image's programs", Subcommand)
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("raising the loopback: %w", err)
	}
	if err := arrange(root); err != nil {
		return err
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("making %s the root: %w", root, err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("entering the new root: %w", err)
	}
	return fmt.Errorf("running %s: %w", args[0], unix.Exec(args[0], args, []string{"PATH=/bin:/usr/bin", "LANG=C.UTF-8", "HOME=/tmp"}))
}

// arrange mounts what programs expect to find in a container.
func arrange(root string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts apart: %w", err)
	}
	for _, mount := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"proc", "proc", "proc", 0},
		{"/dev", "dev", "", unix.MS_BIND | unix.MS_REC},
		{"tmpfs", "tmp", "tmpfs", 0},
	} {
		target := filepath.Join(root, mount.target)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", target, err)
		}
		if err := unix.Mount(mount.source, target, mount.kind, mount.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", target, err)
		}
	}
	return nil
}
