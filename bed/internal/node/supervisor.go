package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// restartDelay keeps a component that fails at once from taking the machine's time.
const restartDelay = time.Second

// supervisor starts the components, starts them again when they end, and buries the orphans that the first process of
// a namespace inherits. A component's end is learned from the same call that buries orphans, so nothing else waits.
type supervisor struct {
	folder state.Folder

	mu      sync.Mutex
	running map[int]component
	records map[string]Component
}

// Component is what is known of one program of the node.
type Component struct {
	// Name is what logs and status call it.
	Name string `json:"name"`
	// PID is its process id inside the node; 0 while it does not run.
	PID int `json:"pid"`
	// Restarts counts how often it was started again.
	Restarts int `json:"restarts"`
	// LastExit tells how it ended the last time.
	LastExit string `json:"lastExit,omitempty"`
}

func newSupervisor(folder state.Folder) *supervisor {
	return &supervisor{folder: folder, running: map[int]component{}, records: map[string]Component{}}
}

// run starts the stages in order and supervises until a signal asks the node to end.
func (s *supervisor) run(stages [][]component) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	failed := make(chan error, 1)
	go func() { failed <- s.startAll(ctx, stages) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-children:
			s.bury(ctx)
		case err := <-failed:
			if err != nil {
				return err
			}
			failed = nil
		}
	}
}

func (s *supervisor) startAll(ctx context.Context, stages [][]component) error {
	for _, stage := range stages {
		for _, c := range stage {
			if err := s.start(c); err != nil {
				return err
			}
		}
		for _, c := range stage {
			if err := s.waitUntilReady(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitUntilReady waits for those components that the next stage cannot do without.
func (s *supervisor) waitUntilReady(ctx context.Context, c component) error {
	probe, needed := probes(s.folder)[c.Name]
	if !needed {
		return nil
	}
	return await(ctx, c.Name, probe)
}

// start runs a component with its own log file.
func (s *supervisor) start(c component) error {
	log, err := os.OpenFile(s.folder.Log(c.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", c.Name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.Name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	process, err := os.StartProcess(path, c.Command, &os.ProcAttr{
		Dir:   "/",
		Env:   c.environment(),
		Files: []*os.File{nil, log, log},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.Name, err)
	}
	record := s.records[c.Name]
	record.Name, record.PID = c.Name, process.Pid
	s.records[c.Name] = record
	s.running[process.Pid] = c
	return s.save()
}

// bury collects every child that has ended and starts the components among them again.
func (s *supervisor) bury(ctx context.Context) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c, known := s.ended(pid, status); known {
			go s.restart(ctx, c)
		}
	}
}

// ended notes the end of a component; orphans are not known.
func (s *supervisor) ended(pid int, status syscall.WaitStatus) (component, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.running[pid]
	if !known {
		return component{}, false
	}
	delete(s.running, pid)
	record := s.records[c.Name]
	record.PID, record.LastExit = 0, describe(status)
	record.Restarts++
	s.records[c.Name] = record
	log.Printf("%s ended: %s", c.Name, record.LastExit)
	if err := s.save(); err != nil {
		log.Print(err)
	}
	return c, true
}

func (s *supervisor) restart(ctx context.Context, c component) {
	select {
	case <-ctx.Done():
	case <-time.After(restartDelay):
		if err := s.start(c); err != nil {
			log.Print(err)
		}
	}
}

func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return fmt.Sprintf("killed by signal %d (%s)", status.Signal(), status.Signal())
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}

func componentsFile(folder state.Folder) string { return folder.Run("components.json") }

// save writes what is known of the components for `bed status`, in one step, so that a reader never sees half of it.
func (s *supervisor) save() error {
	text, err := json.Marshal(s.records)
	if err != nil {
		return fmt.Errorf("writing down the components: %w", err)
	}
	next := filepath.Join(filepath.Dir(componentsFile(s.folder)), ".components.json")
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return fmt.Errorf("writing down the components: %w", err)
	}
	if err := os.Rename(next, componentsFile(s.folder)); err != nil {
		return fmt.Errorf("writing down the components: %w", err)
	}
	return nil
}
