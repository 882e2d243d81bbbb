package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// endLimit is how long the kernel may take to end every process of the node.
const endLimit = 30 * time.Second

// ErrForeign means that a bed with another state folder is up on this machine.
var ErrForeign = errors.New("another bed is up on this machine")

// Free returns ErrForeign when the machine's place for a bed is taken by one with another state folder.
func Free(folder state.Folder) error {
	owner, found, err := interfaceOwner()
	if err != nil || !found || owner == string(folder) {
		return err
	}
	return fmt.Errorf("%w, with the state folder %q; take it down with %s=%s bed down", ErrForeign, owner, state.EnvFolder, owner)
}

// Up starts the node in namespaces of its own and returns as soon as its processes are being started; Ready waits for
// their answers. Whatever an earlier life left behind is removed first.
func Up(ctx context.Context, folder state.Folder, programs Programs) error {
	if err := Free(folder); err != nil {
		return err
	}
	if err := Down(ctx, folder); err != nil {
		return fmt.Errorf("removing what an earlier life left: %w", err)
	}
	if err := prepare(folder, programs); err != nil {
		return err
	}
	ready, first, err := spawn(ctx, folder, programs)
	if err != nil {
		return err
	}
	defer func() { _ = ready.Close() }() // the node reads one byte, then nothing more
	if err := attach(folder, first.PID); err != nil {
		return errors.Join(err, Down(ctx, folder))
	}
	if _, err := ready.Write([]byte{1}); err != nil {
		return errors.Join(fmt.Errorf("telling the node to go on: %w", err), Down(ctx, folder))
	}
	return publishKubeconfig(folder)
}

func prepare(folder state.Folder, programs Programs) error {
	if err := os.RemoveAll(folder.Logs()); err != nil {
		return fmt.Errorf("removing old logs: %w", err)
	}
	for _, dir := range []string{folder.Run(), folder.Run("flex"), folder.Logs(), VolumesFolder(folder)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the folders of the node: %w", err)
		}
	}
	if err := keepProgram(folder, programs.Bed); err != nil {
		return err
	}
	if err := (keyring{folder}).write(time.Now()); err != nil {
		return err
	}
	return writeConfig(folder, programs)
}

// keepProgram copies the bed's own program, so that the node can start it again after it has been rebuilt.
func keepProgram(folder state.Folder, program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("copying the bed's program: %w", err)
	}
	if err := os.WriteFile(ownProgram(folder), text, 0o755); err != nil {
		return fmt.Errorf("copying the bed's program: %w", err)
	}
	return nil
}

func ownProgram(folder state.Folder) string { return folder.Run("bed") }

// spawn starts the first process of the namespaces. It waits on the returned pipe until the machine's side is ready.
func spawn(ctx context.Context, folder state.Folder, programs Programs) (io.WriteCloser, state.Process, error) {
	log, err := os.OpenFile(folder.Log("node"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, state.Process{}, fmt.Errorf("opening the log of the node: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	described, err := json.Marshal(programs)
	if err != nil {
		return nil, state.Process{}, fmt.Errorf("describing the programs: %w", err)
	}
	command := exec.CommandContext(context.WithoutCancel(ctx), ownProgram(folder), "node", "--folder", string(folder), "--programs", string(described))
	command.Dir = "/"
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces}
	ready, err := command.StdinPipe()
	if err != nil {
		return nil, state.Process{}, fmt.Errorf("starting the node: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, state.Process{}, fmt.Errorf("starting the node: %w", err)
	}
	go func() { _ = command.Wait() }() // buries the node if it ends before this command does; its log tells why
	first, err := state.Identify(command.Process.Pid)
	if err == nil {
		err = folder.Remember(first)
	}
	if err != nil {
		return nil, state.Process{}, errors.Join(err, command.Process.Kill())
	}
	return ready, first, nil
}

func attach(folder state.Folder, pid int) error {
	if err := enclose(pid); err != nil {
		return err
	}
	return connect(folder, pid)
}

func publishKubeconfig(folder state.Folder) error {
	text, err := os.ReadFile(keyring{folder}.Kubeconfig("admin"))
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if err := os.WriteFile(folder.Kubeconfig(), text, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}

// Runtime waits until images can be loaded.
func Runtime(ctx context.Context, folder state.Folder) error {
	return awaitAlive(ctx, folder, "containerd")
}

// Ready waits until the API server takes requests.
func Ready(ctx context.Context, folder state.Folder) error {
	return awaitAlive(ctx, folder, "kube-apiserver")
}

// awaitAlive gives up at once when the node has ended.
func awaitAlive(ctx context.Context, folder state.Folder, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ask := probes(folder)[name]
	err := await(ctx, name, func(ctx context.Context) error {
		if err := Alive(folder); err != nil {
			cancel(err)
			return err
		}
		return ask(ctx)
	})
	if err != nil {
		return fmt.Errorf("%w; look at %s", err, filepath.Join(folder.Logs(), "*.log"))
	}
	return nil
}

// ErrDown means that the bed is not up: its first process has ended.
var ErrDown = errors.New("the node's first process has ended")

// Alive returns nil while the node's first process runs, state.ErrNoRecord when none was started, or ErrDown.
func Alive(folder state.Folder) error {
	first, err := folder.Recall()
	if err != nil {
		return err
	}
	if !first.Alive() {
		return ErrDown
	}
	return nil
}

// Down ends the node and removes what it left outside its namespaces. It is right in every state: nothing started,
// half started, some processes dead, all dead, machine rebooted in between.
func Down(ctx context.Context, folder state.Folder) error {
	first, err := folder.Recall()
	if err != nil && !errors.Is(err, state.ErrNoRecord) {
		return err
	}
	if err == nil {
		if err := end(ctx, first); err != nil {
			return err
		}
	}
	if err := disconnect(folder); err != nil {
		return err
	}
	err = Free(folder)
	if err == nil {
		err = dissolve(ctx)
	}
	if err != nil && !errors.Is(err, ErrForeign) { // the groups are then the other bed's
		return err
	}
	return folder.WipeRun()
}

// end kills the node's first process; the kernel then kills the others and only afterwards lets the first one go.
func end(ctx context.Context, first state.Process) error {
	if !first.Alive() {
		return nil
	}
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("ending the node, process %d: %w", first.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for first.Alive() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the node, process %d, does not end", first.PID)
		case <-ticker.C:
		}
	}
	return nil
}
