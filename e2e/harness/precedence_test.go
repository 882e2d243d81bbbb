package harness

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheReportSaysWhetherClientsWentFirst(t *testing.T) {
	// This thread alone shows what is allowed here.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer backInLine(t)
	want := "the clients went before everybody else"
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0); err != nil {
		want = "did not go before everybody else"
	}
	if err := comeFirst(); err != nil {
		t.Fatal(err)
	}
	if told, err := precedence(); err != nil || !strings.Contains(told, want) {
		t.Errorf("told %q (%v), want %q", told, err, want)
	}
	backInLine(t)
	if told, err := precedence(); err != nil || !strings.Contains(told, "did not go before everybody else") {
		t.Errorf("told %q (%v) of clients without priority", told, err)
	}
}

// backInLine gives every thread of this process its usual priority.
func backInLine(t *testing.T) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		usual := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
		if err := unix.SchedSetAttr(id, usual, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
	}
}
