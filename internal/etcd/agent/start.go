package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

var (
	// errVolumeEmpty keeps etcd from starting: under its old id, and without its data, it would acknowledge writes of its
	// own and forget those of the cluster.
	errVolumeEmpty = errors.New("the member has joined its cluster, and its volume has no data: etcd is not started")
	// errNotRecorded says that the member would start as a new one if its volume were lost now.
	errNotRecorded = errors.New("the operator has not recorded yet that the member has joined")
)

// startedFile is there once etcd has had data in this pod. It outlives containers and not the machine: what is mounted
// of the pod may be older than that, and is read anew on another machine.
const startedFile = "etcd-started"

// starter decides how etcd starts, by what is recorded outside of the volume and what is on it.
type starter struct{ Options }

// arguments are those of etcd for a start now.
func (s starter) arguments() ([]string, error) {
	start, err := s.mounted()
	if err != nil {
		return nil, err
	}
	hasData, err := hasData(s.DataDir)
	switch {
	case err != nil:
		return nil, err
	case !hasData && (start.HasJoined || s.hasStarted()):
		return nil, errVolumeEmpty
	default:
		return append(slices.Clone(s.Command[1:]), start.Flags()...), nil
	}
}

// hasStarted reports whether etcd has had data in this pod.
func (s starter) hasStarted() bool {
	_, err := os.Stat(filepath.Join(s.RunDir, startedFile))
	return err == nil
}

// recordData records in the pod that etcd has data, once it has.
func (s starter) recordData() error {
	has, err := hasData(s.DataDir)
	if err != nil || !has || s.hasStarted() {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.RunDir, startedFile), nil, ownerOnly); err != nil {
		return fmt.Errorf("recording that etcd has data: %w", err)
	}
	return nil
}

// isRecorded returns nil when it is recorded outside of the volume that the member has joined.
func (s starter) isRecorded() error {
	start, err := s.mounted()
	if err == nil && !start.HasJoined {
		err = errNotRecorded
	}
	return err
}

func (s starter) mounted() (contract.Start, error) {
	text, err := os.ReadFile(filepath.Join(s.PodDir, agent.AnnotationsFile))
	if err != nil {
		return contract.Start{}, fmt.Errorf("reading the annotations of the pod: %w", err)
	}
	annotations, err := agent.ParseAnnotations(text)
	if err != nil {
		return contract.Start{}, err
	}
	return contract.ParseStart(annotations[contract.StartAnnotation])
}

// report leaves what has kept etcd from starting where the kubelet tells the operator of it.
func (s starter) report(failed error) error {
	failed = fmt.Errorf("starting etcd: %w", failed)
	if !errors.Is(failed, errVolumeEmpty) {
		return failed
	}
	s.Log.Error("etcd is not started", "error", failed)
	text, err := json.Marshal(contract.StartResult{Failure: contract.VolumeEmpty})
	if err == nil {
		err = os.WriteFile(s.ResultPath, text, ownerOnly)
	}
	if err != nil {
		return errors.Join(failed, fmt.Errorf("reporting that: %w", err))
	}
	return failed
}

// hasData reports whether etcd finds its log in a data directory. Without it, it starts as on an empty volume. One that
// cannot be read is an error: it may have data.
func hasData(dir string) (bool, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "member", "wal"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("looking for the data of the member: %w", err)
	}
	return slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return filepath.Ext(entry.Name()) == ".wal" }), nil
}
