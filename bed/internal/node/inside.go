package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// Inside is the life of the node's first process: it waits until the machine's side is ready (one byte on ready),
// arranges the namespaces, and runs the components until it is told to end.
func Inside(folder state.Folder, programs Programs, ready io.Reader) error {
	if os.Getpid() != 1 {
		return errors.New("the node runs in namespaces of its own; start it with `bed up`")
	}
	if _, err := io.ReadFull(ready, make([]byte, 1)); err != nil {
		return fmt.Errorf("waiting for the machine's side of the network: %w", err)
	}
	if err := arrangeMounts(folder); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(Name)); err != nil {
		return fmt.Errorf("naming the node: %w", err)
	}
	if err := arrangeNetwork(); err != nil {
		return err
	}
	return newSupervisor(folder).run(stages(folder, programs))
}

// mount is one mount of the node's own.
type mount struct {
	source, target, kind string
	flags                uintptr
}

// arrangeMounts keeps the node's mounts from reaching the machine, and gives the node its own places for what its
// programs insist on writing at fixed paths.
func arrangeMounts(folder state.Folder) error {
	for _, m := range []mount{
		{target: "/", flags: unix.MS_REC | unix.MS_SLAVE},
		{target: "/", flags: unix.MS_REC | unix.MS_SHARED},
		{source: "proc", target: "/proc", kind: "proc"},
		ownPlace("/run"),
		ownPlace("/var/lib"),
		ownPlace("/var/log"),
	} {
		if err := m.do(); err != nil {
			return err
		}
	}
	return coverTunables(folder)
}

// ownPlace is an empty file system in memory, so that what is written there does not reach the machine.
func ownPlace(target string) mount {
	const kind = "tmpfs"
	return mount{source: kind, target: target, kind: kind}
}

func (m mount) do() error {
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
		return fmt.Errorf("mounting %s in the node: %w", m.target, err)
	}
	return nil
}

// coverTunables lays files with the values that the kubelet wants over the kernel settings that are not the node's
// own, so that the kubelet finds them right and leaves the machine's alone.
func coverTunables(folder state.Folder) error {
	for name, value := range map[string]string{
		"kernel/keys/root_maxbytes": "25000000",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
	} {
		cover := folder.Run("tunables", filepath.Base(name))
		if err := os.MkdirAll(filepath.Dir(cover), 0o755); err != nil {
			return fmt.Errorf("covering the kernel setting %s: %w", name, err)
		}
		if err := os.WriteFile(cover, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("covering the kernel setting %s: %w", name, err)
		}
		if err := (mount{source: cover, target: "/proc/sys/" + name, flags: unix.MS_BIND}).do(); err != nil {
			return err
		}
	}
	return nil
}

// arrangeNetwork gives the node its address and the way back to the machine, and lets it forward between pods.
func arrangeNetwork() error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the node's loopback: %w", err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("raising the node's loopback: %w", err)
	}
	link, err := raise(nodeInterface, nodeAddress)
	if err != nil {
		return err
	}
	if err := addRoute(link, "0.0.0.0/0", hostIP); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil && !forwards() {
		return fmt.Errorf("letting the node forward between pods: %w", err)
	}
	return nil
}

func forwards() bool {
	value, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	return err == nil && bytes.HasPrefix(value, []byte("1"))
}
