package harness

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// comeFirst lets the clients in this process go before everybody else on this machine.
// They stand for clients on machines of their own: when a processor that is shared with
// the cluster is not there for them, they see gaps that are nobody's. Where that is not
// allowed, nothing is lost but precision.
func comeFirst() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("listing the threads of this process: %w", err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return fmt.Errorf("reading the number of a thread: %w", err)
		}
		// Threads that come later are like the one that makes them.
		_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
	}
	return nil
}
