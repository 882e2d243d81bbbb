package snapshot

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// lockTimeout is how long a file to restore may be locked: what locks it for longer is an etcd that runs on it.
const lockTimeout = time.Second

// ErrNoFile means that a path leads to no regular file of its volume.
var ErrNoFile = errors.New("it is no file on the volume")

// Source is a verified file of etcd's data. No etcd writes to it until it is closed.
type Source struct {
	// Facts of the file. One without a hash of etcd has no SHA256.
	Facts

	// HasHash is true of a copy that etcd has made, and false of the database of a member.
	HasHash bool
	// File is open for reading.
	File *os.File

	db *bbolt.DB
}

// OpenSource verifies a file of a volume and keeps it open. No link leads out of the volume.
func OpenSource(volume, name string) (*Source, error) {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = root.Close() }() // what is open stays open
	source := &Source{}
	if err := source.open(root, name); err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return source, nil
}

// Close lets others write to the file.
func (s *Source) Close() error {
	var failed error
	if s.db != nil {
		failed = s.db.Close()
	}
	if s.File != nil {
		failed = errors.Join(failed, s.File.Close())
	}
	return failed
}

func (s *Source) open(root *os.Root, name string) error {
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s", ErrNoFile, name)
	case err != nil:
		return fmt.Errorf("looking for %s: %w", name, err)
	}
	if s.File, err = root.Open(name); err != nil {
		return fmt.Errorf("opening %s: %w", name, err)
	}
	if s.db, err = openDatabase(root, name, lockTimeout); err != nil {
		return err
	}
	s.Size, s.HasHash = info.Size(), info.Size()%blockSize == sha256.Size
	if s.HasHash {
		if s.Facts, err = verifyHash(root, name); err != nil {
			return err
		}
	}
	return s.db.View(s.read)
}

// read reads all pages. Those of a file that was cut off must not be looked for behind its end.
func (s *Source) read(tx *bbolt.Tx) (err error) {
	if tx.Size() > s.Size {
		return fmt.Errorf("%w: it has %d bytes of %d", ErrNotVerified, s.Size, tx.Size())
	}
	s.Revision, err = check(tx)
	return err
}
