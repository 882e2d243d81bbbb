package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Inside is a process of a pod on this machine.
type Inside struct {
	// Process is its number, and Root where its files are for everybody else.
	Process int
	Root    string
}

// InsideOf finds the process of a pod that sees a directory: the pod's sandbox has a
// process as well, and no volumes.
func InsideOf(pod types.UID, directory string) (Inside, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return Inside{}, fmt.Errorf("listing processes: %w", err)
	}
	for _, group := range groups {
		data, err := os.ReadFile(group)
		if err != nil || !strings.Contains(string(data), "/pod"+string(pod)+"/") {
			continue // a process that has ended meanwhile, or another one
		}
		folder := filepath.Dir(group)
		root := filepath.Join(folder, "root")
		if _, err := os.Stat(filepath.Join(root, directory)); err != nil {
			continue
		}
		process, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			return Inside{}, fmt.Errorf("reading the number of a process: %w", err)
		}
		return Inside{Process: process, Root: root}, nil
	}
	return Inside{}, fmt.Errorf("looking for a process of pod %s that sees %s: %w", pod, directory, errNoProcess)
}
