package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// DropAlarms removes all alarms from the data directory of a member that does not run, and returns how many they were. Etcd finds
// their bucket, as in every database that it has made.
func DropAlarms(directory string) (dropped int, err error) {
	root, err := os.OpenRoot(filepath.Join(directory, "member", "snap"))
	if err != nil {
		return 0, fmt.Errorf("opening the database: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing is written through it
	existing := func(name string, flag int, mode os.FileMode) (*os.File, error) {
		return root.OpenFile(name, flag&^os.O_CREATE, mode)
	}
	db, err := bbolt.Open("db", 0, &bbolt.Options{Timeout: lockTimeout, NoFreelistSync: true, OpenFile: existing})
	if err != nil {
		return 0, fmt.Errorf("opening the database: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		name := []byte("alarm")
		bucket := tx.Bucket(name)
		if bucket == nil {
			return nil
		}
		if dropped = bucket.Stats().KeyN; dropped == 0 {
			return nil
		}
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
		_, err := tx.CreateBucket(name)
		return err
	})
	return dropped, errors.Join(err, db.Close())
}
