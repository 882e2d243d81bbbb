package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/snapshot"
)

const (
	// restoring is beside the data directory until all of it is stored.
	restoring = ".restoring"
	// openedSource is the file that etcdutl inherits: the one that was verified, whatever has its name by then.
	openedSource = "/proc/self/fd/3"
	// lastWords is how many bytes of what etcdutl says are reported.
	lastWords = 512
)

// Restore gives the first member of a new cluster its data, before etcd starts.
type Restore struct {
	// Options are those of an agent. Command is etcdutl with what it has to know of the cluster; what concerns
	// certificates and a server has no effect.
	Options

	// Volume is where the volume of the file is mounted, and Path the file below it.
	Volume, Path string
	// SHA256 of the file in hex; empty when it is not known.
	SHA256 string
}

// Run restores the data, unless there are some or the member has had some: it must not fall back to those of the file.
func (r Restore) Run(ctx context.Context) error {
	result, err := r.restore(ctx)
	if ctx.Err() != nil {
		return &process.ExitError{Code: process.Terminated}
	}
	if err != nil {
		result = contract.RestoreResult{Failure: restoreFailureOf(err), Message: err.Error(), Path: r.Path}
		r.Log.Error("The data were not restored", "reason", result.Failure, "error", err)
	}
	text, encodeErr := result.Encode()
	if encodeErr != nil {
		return encodeErr
	}
	if err := os.WriteFile(r.ResultPath, text, ownerOnly); err != nil {
		return fmt.Errorf("reporting the result: %w", err)
	}
	return err
}

// restore fills a directory beside the data directory, and renames it once all of it is stored: a container that is
// stopped at any moment begins again.
func (r Restore) restore(ctx context.Context) (contract.RestoreResult, error) {
	start, err := starter{r.Options}.mounted()
	if err != nil {
		return contract.RestoreResult{}, err
	}
	isFilled, err := hasData(r.DataDir)
	if err != nil || isFilled || start.HasJoined {
		return contract.RestoreResult{}, err
	}
	source, err := snapshot.OpenSource(r.Volume, r.Path)
	if err != nil {
		return contract.RestoreResult{}, err
	}
	defer func() { _ = source.Close() }() // it is only read
	if r.SHA256 != "" && source.SHA256 != r.SHA256 {
		return contract.RestoreResult{}, fmt.Errorf("%w: its SHA-256 is %s, and that of the backup is %s", errOtherFile, source.SHA256, r.SHA256)
	}
	if err := r.fill(ctx, source); err != nil {
		return contract.RestoreResult{}, errors.Join(err, os.RemoveAll(r.DataDir+restoring))
	}
	r.Log.Info("The data are restored", "path", r.Path, "revision", source.Revision)
	return contract.RestoreResult{Path: r.Path, Revision: source.Revision}, nil
}

// errOtherFile is a file that has the name of a backup and is another one.
var errOtherFile = errors.New("it is not the file that was backed up")

func (r Restore) fill(ctx context.Context, source *snapshot.Source) error {
	beside := r.DataDir + restoring
	if err := os.RemoveAll(beside); err != nil {
		return fmt.Errorf("removing what another attempt has left: %w", err)
	}
	if err := r.runProgram(ctx, source, beside); err != nil {
		return err
	}
	if err := r.dropAlarms(beside); err != nil {
		return err
	}
	if err := syncAll(beside); err != nil {
		return fmt.Errorf("storing the restored data: %w", err)
	}
	if err := os.Rename(beside, r.DataDir); err != nil {
		return fmt.Errorf("naming the restored data: %w", err)
	}
	parent, err := os.Open(filepath.Dir(r.DataDir))
	if err != nil {
		return fmt.Errorf("opening the volume: %w", err)
	}
	if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
		return fmt.Errorf("storing the name of the restored data: %w", err)
	}
	return nil
}

// runProgram has etcdutl write the data directory. The database of a member has no hash that it could compare.
func (r Restore) runProgram(ctx context.Context, source *snapshot.Source, directory string) error {
	arguments := slices.Concat(r.Command[1:], []string{openedSource, "--data-dir=" + directory})
	if !source.HasHash {
		arguments = append(arguments, "--skip-hash-check")
	}
	var said bytes.Buffer
	program := exec.CommandContext(ctx, r.Command[0], arguments...) //nolint:gosec // the command is the operator's
	program.ExtraFiles = []*os.File{source.File}
	program.Stdout = io.MultiWriter(r.Output, &said)
	program.Stderr = program.Stdout
	if err := program.Run(); err != nil {
		return fmt.Errorf("running %s: %w: %s", filepath.Base(r.Command[0]), err, said.Bytes()[max(0, said.Len()-lastWords):])
	}
	return nil
}

// dropAlarms removes what etcd has reported about members that the new cluster does not have. A member would not be ready
// because of them, and no cluster would grow.
func (r Restore) dropAlarms(directory string) error {
	dropped, err := snapshot.DropAlarms(directory)
	if err != nil {
		return fmt.Errorf("dropping the alarms of the restored data: %w", err)
	}
	if dropped > 0 {
		r.Log.Warn("The restored data had alarms of the earlier cluster, which are dropped", "path", r.Path, "alarms", dropped)
	}
	return nil
}

// syncAll makes a directory with all that is in it outlive a crash of the machine.
func syncAll(directory string) error {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return fmt.Errorf("opening %s: %w", directory, err)
	}
	defer func() { _ = root.Close() }() // nothing is written through it
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, failed error) error {
		if failed != nil {
			return failed
		}
		file, err := root.Open(name)
		if err != nil {
			return fmt.Errorf("opening %s: %w", name, err)
		}
		return errors.Join(file.Sync(), file.Close())
	})
}

func restoreFailureOf(err error) contract.RestoreFailure {
	switch {
	case errors.Is(err, snapshot.ErrNoFile):
		return contract.RestoreSourceMissing
	case errors.Is(err, snapshot.ErrInUse):
		return contract.RestoreSourceInUse
	case errors.Is(err, snapshot.ErrNotVerified), errors.Is(err, errOtherFile):
		return contract.RestoreNotVerified
	default:
		return contract.RestoreFailed
	}
}
