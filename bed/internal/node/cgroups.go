package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ownProcesses is the group of the node's own programs, beside the pods' groups that the kubelet makes.
const ownProcesses = "node"

// The machines of a cluster serve nobody else, and its clients are elsewhere. Here tests and clients share the machine
// with the node, which counts as much as four groups of programs that say nothing: while processors do not suffice, it
// gets that much of them.
const (
	cpuShares = "4096" // cpu.shares of version 1, 1024 for who says nothing
	cpuWeight = "400"  // cpu.weight of the unified hierarchy, 100 for who says nothing
)

// hierarchy is one mounted cgroup file system.
type hierarchy struct {
	root    string
	unified bool
}

// hierarchies finds every cgroup file system in a mountinfo text.
func hierarchies(mountinfo string) []hierarchy {
	var found []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, separated := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !separated || len(left) < 5 || len(right) < 1 || left[3] != "/" {
			continue
		}
		if right[0] == "cgroup" || right[0] == "cgroup2" {
			found = append(found, hierarchy{root: left[4], unified: right[0] == "cgroup2"})
		}
	}
	return found
}

// withControllers leaves out a unified hierarchy that stands beside version 1: there it only serves the machine's
// service manager.
func withControllers(found []hierarchy) []hierarchy {
	unified := func(h hierarchy) bool { return h.unified }
	if slices.ContainsFunc(found, func(h hierarchy) bool { return !h.unified }) {
		return slices.DeleteFunc(slices.Clone(found), unified)
	}
	return found
}

func mountedHierarchies() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the mounts of this machine: %w", err)
	}
	return hierarchies(string(text)), nil
}

// enclose puts a process, and with it all that it starts, into the bed's group of every hierarchy.
func enclose(pid int) error {
	found, err := mountedHierarchies()
	if err != nil {
		return err
	}
	for _, h := range withControllers(found) {
		if err := h.enclose(pid); err != nil {
			return fmt.Errorf("making the group of the bed below %s: %w", h.root, err)
		}
	}
	return nil
}

func (h hierarchy) enclose(pid int) error {
	group := filepath.Join(h.root, cgroup)
	own := filepath.Join(group, ownProcesses)
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	prepare := h.prepare
	if h.unified {
		prepare = h.prepareUnified
	}
	if err := prepare(group, own); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

func (h hierarchy) prepare(group, own string) error {
	if err := h.inheritProcessors(group, own); err != nil {
		return err
	}
	return writeExisting(filepath.Join(group, "cpu.shares"), cpuShares)
}

func (h hierarchy) prepareUnified(group, _ string) error {
	if err := h.passOnControllers(group); err != nil {
		return err
	}
	return writeExisting(filepath.Join(group, "cpu.weight"), cpuWeight)
}

// writeExisting fills in a setting that only some hierarchies have.
func writeExisting(path, value string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0o644)
}

// inheritProcessors fills in the processors of a new cpuset group of version 1, which takes no process without them.
func (h hierarchy) inheritProcessors(group, own string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(h.root, file))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, dir := range []string{group, own} {
			if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// passOnControllers hands every controller of the unified hierarchy down to the bed's group.
func (h hierarchy) passOnControllers(group string) error {
	for _, dir := range []string{h.root, group} {
		available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return err
		}
		for controller := range bytes.FieldsSeq(available) {
			enable := append([]byte("+"), controller...)
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), enable, 0o644); err != nil {
				return fmt.Errorf("handing down %s: %w", controller, err)
			}
		}
	}
	return nil
}

// dissolve removes the bed's groups as soon as the last process has left them. That the first process of the node has
// ended is not enough: the kernel takes its time to end the others. Every hierarchy is looked through, because runc also
// makes groups where no controller is.
func dissolve(ctx context.Context) error {
	found, err := mountedHierarchies()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	for _, h := range found {
		if err := retryWhileBusy(ctx, func() error { return removeGroups(filepath.Join(h.root, cgroup)) }); err != nil {
			return err
		}
	}
	return nil
}

func retryWhileBusy(ctx context.Context, act func() error) error {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		err := act()
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

// removeGroups removes a group and those below it, the deepest first, as the kernel asks for.
func removeGroups(group string) error {
	var groups []string
	err := filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("listing the groups below %s: %w", group, err)
	}
	for _, path := range slices.Backward(groups) {
		if err := unix.Rmdir(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("removing the group %s: %w", path, err)
		}
	}
	return nil
}
