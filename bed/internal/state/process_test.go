package state

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

func TestStartTimeSurvivesAnyProgramName(t *testing.T) {
	t.Parallel()
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	for name, stat := range map[string]string{
		"a plain name":              "17 (etcd)" + rest,
		"a name with spaces":        "17 (tmux: server)" + rest,
		"a name that ends the name": "17 (a) b) 1 2)" + rest,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := startTime([]byte(stat))
			if err != nil || got != 4242 {
				t.Errorf("startTime() = %d, %v, want 4242", got, err)
			}
		})
	}
}

func TestStartTimeRefusesWhatIsNoStatLine(t *testing.T) {
	t.Parallel()
	for _, stat := range []string{"", "17", "17 (etcd", "17 (etcd) S 1 2"} {
		if got, err := startTime([]byte(stat)); err == nil {
			t.Errorf("startTime(%q) = %d, want an error", stat, got)
		}
	}
}

func FuzzStartTime(f *testing.F) {
	f.Add([]byte("17 (etcd) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"))
	f.Fuzz(func(_ *testing.T, stat []byte) {
		_, _ = startTime(stat) // must not panic
		processState(stat)
	})
}

func TestThisProcessIsAlive(t *testing.T) {
	t.Parallel()
	own, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !own.Alive() {
		t.Error("this process is said to be dead")
	}
}

func TestAReusedPIDIsAnotherProcess(t *testing.T) {
	t.Parallel()
	own, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Process){
		"started at another time": func(p *Process) { p.Start++ },
		"in another boot":         func(p *Process) { p.Boot = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other := own
			change(&other)
			if other.Alive() {
				t.Error("another process is taken for this one")
			}
		})
	}
}

func TestAnEndedProcessIsDeadBeforeItsParentKnows(t *testing.T) {
	t.Parallel()
	command := exec.Command("cat")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Skipf("this machine has no cat: %v", err)
	}
	child, err := Identify(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !child.Alive() {
		t.Error("a running child is said to be dead")
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	for child.Alive() {
		if t.Context().Err() != nil {
			t.Fatal("an ended child is said to be alive")
		}
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
}

func TestRecallWhatWasRemembered(t *testing.T) {
	t.Parallel()
	folder := Folder(t.TempDir())
	if _, err := folder.Recall(); !errors.Is(err, ErrNoRecord) {
		t.Errorf("Recall() of nothing = %v, want ErrNoRecord", err)
	}
	if err := os.MkdirAll(folder.Run(), 0o755); err != nil {
		t.Fatal(err)
	}
	want := Process{PID: 17, Start: 4242, Boot: "b"}
	if err := folder.Remember(want); err != nil {
		t.Fatal(err)
	}
	if got, err := folder.Recall(); err != nil || got != want {
		t.Errorf("Recall() = %v, %v, want %v", got, err, want)
	}
}
