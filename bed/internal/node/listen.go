package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// Listen listens on an address of the running node, which nothing outside of it reaches.
func Listen(ctx context.Context, folder state.Folder, address string) (net.Listener, error) {
	first, err := folder.Recall()
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine: no other one gets a thread of the node
		done <- inNetwork(first.PID, func() (err error) {
			listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			return err
		})
	}()
	if err := <-done; err != nil {
		return nil, fmt.Errorf("listening on %s of the node: %w", address, err)
	}
	return listener, nil
}

// inNetwork acts in the network namespace of a process. The thread stays in it.
func inNetwork(pid int, act func() error) error {
	network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return err
	}
	defer func() { _ = network.Close() }() // only read
	if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	return act()
}
