package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Facts are what a verified file holds.
type Facts struct {
	// Revision of etcd.
	Revision int64
	// Size in bytes.
	Size int64
	// SHA256 of the file, in hex.
	SHA256 string
}

var (
	// ErrNotVerified means that a file is not a complete copy of etcd's data.
	ErrNotVerified = errors.New("it is not a complete copy of etcd's data")
	// ErrInUse means that another process, such as a running etcd, has locked a file.
	ErrInUse = errors.New("another process has locked the file")
)

const (
	// blockSize: etcd's data take a multiple of it, and their hash is behind them.
	blockSize = 512
	// openTimeout is how long another process may hold the file.
	openTimeout = 10 * time.Second
)

// Verify reads a whole file: etcd's hash behind the data, and the data themselves.
func Verify(root *os.Root, name string) (Facts, error) {
	facts, err := verifyHash(root, name)
	if err != nil {
		return Facts{}, err
	}
	facts.Revision, err = verifyData(root, name)
	return facts, err
}

// verifyHash compares the last bytes of the file with the SHA-256 of all before them.
func verifyHash(root *os.Root, name string) (Facts, error) {
	file, err := root.Open(name)
	if err != nil {
		return Facts{}, fmt.Errorf("opening %s: %w", name, err)
	}
	defer func() { _ = file.Close() }() // it is only read
	info, err := file.Stat()
	if err != nil {
		return Facts{}, fmt.Errorf("reading the size of %s: %w", name, err)
	}
	size := info.Size()
	if size%blockSize != sha256.Size {
		return Facts{}, fmt.Errorf("%w: its size of %d bytes leaves no room for its hash", ErrNotVerified, size)
	}
	data, whole := sha256.New(), sha256.New()
	if _, err := io.CopyN(io.MultiWriter(data, whole), file, size-sha256.Size); err != nil {
		return Facts{}, fmt.Errorf("reading %s: %w", name, err)
	}
	hash, err := io.ReadAll(io.TeeReader(file, whole))
	if err != nil {
		return Facts{}, fmt.Errorf("reading %s: %w", name, err)
	}
	if !bytes.Equal(hash, data.Sum(nil)) {
		return Facts{}, fmt.Errorf("%w: its hash does not belong to its data", ErrNotVerified)
	}
	return Facts{Size: size, SHA256: hex.EncodeToString(whole.Sum(nil))}, nil
}

// verifyData reads all pages of the database, and returns its revision.
func verifyData(root *os.Root, name string) (int64, error) {
	db, err := openDatabase(root, name, openTimeout)
	if err != nil {
		return 0, err
	}
	revision := int64(0)
	err = db.View(func(tx *bbolt.Tx) error {
		revision, err = check(tx)
		return err
	})
	return revision, errors.Join(err, db.Close())
}

// openDatabase opens the database for reading. No etcd writes to it until it is closed.
func openDatabase(root *os.Root, name string, timeout time.Duration) (*bbolt.DB, error) {
	db, err := bbolt.Open(name, 0, &bbolt.Options{ReadOnly: true, Timeout: timeout, OpenFile: root.OpenFile})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrInUse, name)
	case err != nil:
		return nil, fmt.Errorf("%w: opening the database: %w", ErrNotVerified, err)
	default:
		return db, nil
	}
}

// check reads all pages, and returns the revision.
func check(tx *bbolt.Tx) (int64, error) {
	var broken error
	for failure := range tx.Check() { // read to its end, or its goroutine never ends
		broken = failure
	}
	if broken != nil {
		return 0, fmt.Errorf("%w: checking the database: %w", ErrNotVerified, broken)
	}
	return revisionOf(tx)
}

// revisionOf is that of the last change, or of the compaction that has removed it.
func revisionOf(tx *bbolt.Tx) (int64, error) {
	keys, meta := tx.Bucket([]byte("key")), tx.Bucket([]byte("meta"))
	if keys == nil || meta == nil {
		return 0, fmt.Errorf("%w: the database is not etcd's", ErrNotVerified)
	}
	revision := int64(1) // of an etcd without keys
	last, _ := keys.Cursor().Last()
	for _, encoded := range [][]byte{last, meta.Get([]byte("scheduledCompactRev")), meta.Get([]byte("finishedCompactRev"))} {
		if len(encoded) >= binary.Size(revision) {
			revision = max(revision, int64(binary.BigEndian.Uint64(encoded))) //nolint:gosec // etcd's revisions are of this type
		}
	}
	return revision, nil
}
