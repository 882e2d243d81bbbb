package snapshottest

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// Data is what etcd answers when it is asked for a snapshot: its database with one key for each revision, and the hash.
func Data(tb testing.TB, revision uint64) []byte {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		tb.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		for each := uint64(2); each <= revision; each++ {
			if err := keys.Put(Key(each), []byte("value")); err != nil {
				return err
			}
		}
		_, err = tx.CreateBucket([]byte("meta"))
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return Hashed(data)
}

// Key is how etcd names a change of a revision.
func Key(revision uint64) []byte {
	key := binary.BigEndian.AppendUint64(nil, revision)
	return binary.BigEndian.AppendUint64(append(key, '_'), 0)
}

// Hashed appends the hash.
func Hashed(data []byte) []byte {
	hash := sha256.Sum256(data)
	return append(slices.Clip(data), hash[:]...)
}
