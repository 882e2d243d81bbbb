package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// Health is what one component looks like from the machine.
type Health struct {
	// Component is what the node knows of it.
	Component

	// MachinePID is its process id as the machine sees it; 0 when it does not run.
	MachinePID int
	// Problem is what is wrong with it; nil when it runs and, where it can be asked, answers well.
	Problem error
}

// errNotRunning means that the supervisor is about to start the component again.
var errNotRunning = errors.New("does not run")

// Status asks every component of a node that is alive; of one that is not, it returns the error of Alive.
func Status(ctx context.Context, folder state.Folder) ([]Health, error) {
	if err := Alive(folder); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(componentsFile(folder))
	if err != nil {
		return nil, fmt.Errorf("reading what the node started: %w", err)
	}
	known := map[string]Component{}
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, fmt.Errorf("reading what the node started from %s: %w", componentsFile(folder), err)
	}
	pids, err := machinePIDs(folder)
	if err != nil {
		return nil, err
	}
	asked := probes(folder)
	var healths []Health
	for _, name := range slices.Sorted(maps.Keys(known)) {
		health := Health{Component: known[name], MachinePID: pids[known[name].PID]}
		health.Problem = health.check(ctx, asked[name])
		healths = append(healths, health)
	}
	return healths, nil
}

func (h Health) check(ctx context.Context, ask probe) error {
	if h.MachinePID == 0 {
		return errNotRunning
	}
	if ask == nil {
		return nil
	}
	return ask(ctx)
}

// machinePIDs maps the process ids of the node's namespace to those of the machine.
func machinePIDs(folder state.Folder) (map[int]int, error) {
	first, err := folder.Recall()
	if err != nil {
		return nil, err
	}
	space, err := os.Readlink(namespaceOf(first.PID))
	if err != nil {
		return nil, fmt.Errorf("finding the node's processes: %w", err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing the machine's processes: %w", err)
	}
	pids := map[int]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if other, err := os.Readlink(namespaceOf(pid)); err != nil || other != space {
			continue // ended meanwhile, or not the node's
		}
		status, err := os.ReadFile("/proc/" + entry.Name() + "/status")
		if inside, found := innermostPID(string(status)); err == nil && found {
			pids[inside] = pid
		}
	}
	return pids, nil
}

func namespaceOf(pid int) string { return fmt.Sprintf("/proc/%d/ns/pid", pid) }

// innermostPID reads the last number of the NSpid line of /proc/PID/status: the id in the innermost namespace.
func innermostPID(status string) (int, bool) {
	for line := range strings.Lines(status) {
		numbers, found := strings.CutPrefix(line, "NSpid:")
		if !found {
			continue
		}
		fields := strings.Fields(numbers)
		if len(fields) == 0 {
			return 0, false
		}
		pid, err := strconv.Atoi(fields[len(fields)-1])
		return pid, err == nil
	}
	return 0, false
}
