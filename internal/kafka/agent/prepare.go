package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/java"
	"github.com/keyturn/keyturn/internal/kafka/agent/serverlog"
	"github.com/keyturn/keyturn/internal/kafka/agent/storage"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

// Modes of what is written: the files hold private keys.
const (
	ownerOnly    = 0o600
	ownerOnlyDir = 0o700
)

// await returns when what is mounted is what the pod pins.
func (a *firstProcess) await(ctx context.Context) (stores.Matched, error) {
	for {
		matched, err := a.observer.match()
		waiting, isWaiting := errors.AsType[*agent.WaitingError](err)
		switch {
		case err == nil:
			return matched, nil
		case isWaiting:
			if a.observer.Waiting(agent.ReasonWaitingForMounts, waiting.For) {
				a.Log.Info("Waiting for mounts", "for", waiting.For)
			}
		default:
			// Reading failed: the kubelet may be exchanging the directory just now.
			if a.observer.Waiting(agent.ReasonWaitingForMounts, []string{err.Error()}) {
				a.Log.Warn("Reading mounts failed", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return stores.Matched{}, &process.ExitError{Code: process.Terminated}
		case <-a.Clock.After(waitPause):
		}
	}
}

// write puts the stores and the configuration where the server reads them, and
// removes the stores of an earlier start.
func (a *firstProcess) write(rendered stores.Rendered) error {
	if err := os.MkdirAll(a.storesDir(), ownerOnlyDir); err != nil {
		return fmt.Errorf("making the directory of the stores: %w", err)
	}
	entries, err := os.ReadDir(a.storesDir())
	if err != nil {
		return fmt.Errorf("reading the directory of the stores: %w", err)
	}
	for _, entry := range entries {
		if _, keep := rendered.Files[entry.Name()]; keep {
			continue
		}
		if err := os.Remove(filepath.Join(a.storesDir(), entry.Name())); err != nil {
			return fmt.Errorf("removing an old store: %w", err)
		}
	}
	for name, data := range rendered.Files {
		if err := a.writeStore(name, data); err != nil {
			return err
		}
	}
	if err := os.WriteFile(a.propertiesPath(), rendered.Properties, ownerOnly); err != nil {
		return fmt.Errorf("writing the server's configuration: %w", err)
	}
	return nil
}

// format formats the data directories that are not formatted yet.
func (a *firstProcess) format(ctx context.Context, matched stores.Matched) error {
	owner := storage.Owner{ClusterID: matched.ClusterID, NodeID: matched.Config.NodeID}
	needed, err := storage.NeedsFormat(matched.Config.DataDirs, owner)
	if err != nil || !needed {
		return err
	}
	a.observer.Waiting(contract.ReasonFormatting, nil)
	a.Log.Info("Formatting storage", "directories", matched.Config.DataDirs, "clusterID", matched.ClusterID)
	supervisor := a.supervisor()
	supervisor.Grace = formatGrace
	asked := false
	exit, err := supervisor.Run(ctx, process.Command{
		Path: a.kafka.Java,
		Args: a.kafka.Format(java.FormatSpec{
			ClusterID:       matched.ClusterID,
			MetadataVersion: matched.MetadataVersion,
			Properties:      a.propertiesPath(),
			Logging:         a.logging(),
		}),
		Env:     a.Env,
		Consume: func(output *os.File) { serverlog.Pump(output, a.Output, func(serverlog.Event) {}) },
	}, func() { asked = true })
	switch {
	case err != nil:
		return fmt.Errorf("formatting storage: %w", err)
	case asked:
		return &process.ExitError{Code: process.Terminated}
	case exit.Code() != 0:
		a.Log.Error("Formatting storage failed; the tool's reason stands above", "exitCode", exit.Code())
	}
	return exit.Err()
}

// logging are the configurations of the log that are mounted.
func (a *firstProcess) logging() java.Logging {
	return java.Logging{Log4j2: a.mounted(contract.LoggingKey), Log4j1: a.mounted(contract.Log4j1Key)}
}

// mounted returns the path of a key of the node's ConfigMap, or nothing where it has none.
func (a *firstProcess) mounted(key string) string {
	path := filepath.Join(a.Mounts.Config, key)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}
