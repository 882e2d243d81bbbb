package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockEvery is how often a waiting command tries again.
const lockEvery = 200 * time.Millisecond

// Lock lets one command at a time change the folder. The kernel gives the lock back when the holder dies.
type Lock struct{ file *os.File }

// Lock takes the folder's lock. When another command holds it, busy is called once and Lock waits until the other one
// ends or the context does.
func (f Folder) Lock(ctx context.Context, busy func()) (*Lock, error) {
	file, err := os.OpenFile(f.join("lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := flock(ctx, file, busy); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", f, err), file.Close())
	}
	return &Lock{file: file}, nil
}

func flock(ctx context.Context, file *os.File, busy func()) error {
	ticker := time.NewTicker(lockEvery)
	defer ticker.Stop()
	for told := false; ; told = true {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if !told {
			busy()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Unlock gives the lock back.
func (l *Lock) Unlock() error { return l.file.Close() }
