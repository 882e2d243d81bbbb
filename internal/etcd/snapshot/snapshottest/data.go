package snapshottest

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
)

// Data is what etcd answers when it is asked for a snapshot: its database with one key for each revision and an alarm, and the hash.
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
		if _, err := tx.CreateBucket([]byte("meta")); err != nil {
			return err
		}
		alarms, err := tx.CreateBucket([]byte("alarm"))
		if err != nil {
			return err
		}
		return alarms.Put([]byte{0x08, 0xef, 0x9b, 0xaf, 0x05, 0x10, 0x02}, nil) // CORRUPT of member abcdef
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

// Alarms is how many alarms are in a database that no other process uses.
func Alarms(tb testing.TB, file string) (count int) {
	tb.Helper()
	db, err := bbolt.Open(file, 0, &bbolt.Options{ReadOnly: true})
	if err != nil {
		tb.Fatal(err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		count = tx.Bucket([]byte("alarm")).Stats().KeyN
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		tb.Fatal(err)
	}
	return count
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
