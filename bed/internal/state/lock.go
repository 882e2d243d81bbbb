package state

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrBusy means that another bed command works on the same folder right now.
var ErrBusy = errors.New("another bed command is at work on this folder; wait until it ends")

// Lock lets one command at a time change the folder. The kernel gives the lock back when the holder dies.
type Lock struct{ file *os.File }

// Lock takes the folder's lock or returns ErrBusy.
func (f Folder) Lock() (*Lock, error) {
	file, err := os.OpenFile(f.join("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return &Lock{file: file}, nil
	}
	closeErr := file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%s: %w", f, ErrBusy)
	}
	return nil, errors.Join(fmt.Errorf("locking %s: %w", f, err), closeErr)
}

// Unlock gives the lock back.
func (l *Lock) Unlock() error { return l.file.Close() }
