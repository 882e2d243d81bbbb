package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// alarms is etcd's bucket of them, which it expects to be there.
var alarms = []byte("alarm")

// DropAlarms removes all alarms from the data directory of a member that does not run, and returns how many they were.
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
		bucket := tx.Bucket(alarms)
		if bucket == nil {
			return nil
		}
		if dropped = bucket.Stats().KeyN; dropped == 0 {
			return nil
		}
		if err := tx.DeleteBucket(alarms); err != nil {
			return err
		}
		_, err := tx.CreateBucket(alarms)
		return err
	})
	return dropped, errors.Join(err, db.Close())
}
