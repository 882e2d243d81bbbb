package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ErrNoRecord means that no bed has been started in this folder since it was last taken down.
var ErrNoRecord = errors.New("no bed was started here")

// Process identifies one process for good: a pid alone may be given to another process later.
type Process struct {
	// PID is the process id as the machine sees it.
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot, field 22 of /proc/PID/stat.
	Start uint64 `json:"start"`
	// Boot is the kernel's id of the boot, from /proc/sys/kernel/random/boot_id.
	Boot string `json:"boot"`
}

// Identify reads the identity of a running process.
func Identify(pid int) (Process, error) {
	stat, err := os.ReadFile(statFile(pid))
	if err != nil {
		return Process{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	start, err := startTime(stat)
	if err != nil {
		return Process{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Process{}, fmt.Errorf("reading the id of this boot: %w", err)
	}
	return Process{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// Alive says whether this very process still runs; another one with the same pid does not count, nor does one that
// has ended and waits for its parent.
func (p Process) Alive() bool {
	now, err := Identify(p.PID)
	if err != nil || now != p {
		return false
	}
	stat, err := os.ReadFile(statFile(p.PID))
	return err == nil && processState(stat) != 'Z'
}

func statFile(pid int) string { return fmt.Sprintf("/proc/%d/stat", pid) }

// fieldsAfterName splits a stat line behind the program's name, which may itself hold spaces and brackets.
func fieldsAfterName(stat []byte) []string {
	_, rest, found := bytes.Cut(stat, []byte("("))
	if !found {
		return nil
	}
	end := bytes.LastIndexByte(rest, ')')
	if end < 0 {
		return nil
	}
	return strings.Fields(string(rest[end+1:]))
}

func startTime(stat []byte) (uint64, error) {
	const index = 22 - 3 // field 22, counted from the state, which is field 3
	fields := fieldsAfterName(stat)
	if len(fields) <= index {
		return 0, fmt.Errorf("stat line has %d fields after the name, want more than %d", len(fields), index)
	}
	return strconv.ParseUint(fields[index], 10, 64)
}

func processState(stat []byte) byte {
	fields := fieldsAfterName(stat)
	if len(fields) == 0 || fields[0] == "" {
		return 0
	}
	return fields[0][0]
}

func (f Folder) record() string { return f.Run("node.json") }

// Remember writes down which process is the running bed.
func (f Folder) Remember(p Process) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("writing down process %d: %w", p.PID, err)
	}
	if err := os.WriteFile(f.record(), text, 0o644); err != nil {
		return fmt.Errorf("writing down process %d: %w", p.PID, err)
	}
	return nil
}

// Recall returns the process that was remembered, alive or not, or ErrNoRecord.
func (f Folder) Recall() (Process, error) {
	text, err := os.ReadFile(f.record())
	if errors.Is(err, os.ErrNotExist) {
		return Process{}, ErrNoRecord
	}
	if err != nil {
		return Process{}, fmt.Errorf("reading which process is the bed: %w", err)
	}
	var process Process
	if err := json.Unmarshal(text, &process); err != nil {
		return Process{}, fmt.Errorf("reading which process is the bed from %s: %w", f.record(), err)
	}
	return process, nil
}
