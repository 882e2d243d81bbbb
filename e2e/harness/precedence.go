package harness

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// comeFirst lets the clients in this process go before everybody else on this machine.
// They stand for clients on machines of their own: when a processor that is shared with
// the cluster is not there for them, they see gaps that are nobody's. Where that is not
// allowed, nothing is lost but precision, and precedence tells of it.
func comeFirst() error {
	for {
		late, _, err := latecomers()
		if err != nil || len(late) == 0 {
			return err
		}
		// Threads that come later are like the one that makes them; those that came
		// while this was asked for are found the next time.
		for _, thread := range late {
			err := unix.SchedSetAttr(thread, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return nil
			}
		}
	}
}

// precedence says, for the readers of a report, whether the clients went first.
func precedence() (string, error) {
	late, all, err := latecomers()
	switch {
	case err != nil:
		return "", err
	case len(late) == 0:
		return "the clients went before everybody else on the machine", nil
	default:
		return fmt.Sprintf("%d of %d threads of the clients did not go before everybody else on the machine, which takes the right to real-time priority: "+
			"gaps may be theirs", len(late), all), nil
	}
}

// latecomers are the threads of this process that do not go first.
func latecomers() (late []int, all int, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, 0, fmt.Errorf("listing the threads of this process: %w", err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return nil, 0, fmt.Errorf("reading the number of a thread: %w", err)
		}
		attributes, err := unix.SchedGetAttr(id, 0)
		switch {
		case errors.Is(err, unix.ESRCH): // it has ended
		case err != nil:
			return nil, 0, fmt.Errorf("asking for the priority of thread %d: %w", id, err)
		case attributes.Policy != unix.SCHED_RR:
			late = append(late, id)
		}
	}
	return late, len(threads), nil
}
