package snapshot_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/snapshot"
	"github.com/keyturn/keyturn/internal/etcd/snapshot/snapshottest"
)

func TestAlarmsAloneAreDroppedFromTheDataOfAMember(t *testing.T) {
	t.Parallel()
	directory, data := t.TempDir(), snapshottest.Data(t, 70)
	file := filepath.Join("member", "snap", "db")
	path := filepath.Join(directory, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data[:len(data)-len(data)%512], 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		if dropped, err := snapshot.DropAlarms(directory); err != nil || dropped != want {
			t.Errorf("%d alarms are dropped, want %d: %v", dropped, want, err)
		}
		if left := snapshottest.Alarms(t, path); left != 0 {
			t.Errorf("%d alarms are left", left)
		}
	}
	source, err := snapshot.OpenSource(directory, file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	if source.Revision != 70 {
		t.Errorf("the revision is %d, want 70", source.Revision)
	}
}

func TestAlarmsAreNotDroppedFromADatabaseThatDoesNotExist(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	snap := filepath.Join(directory, "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.DropAlarms(directory); err == nil {
		t.Error("no error")
	}
	if entries, err := os.ReadDir(snap); err != nil || len(entries) > 0 {
		t.Errorf("%v was created: %v", entries, err)
	}
}
