package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/snapshot"
	"github.com/keyturn/keyturn/internal/etcd/snapshot/snapshottest"
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func newStore(t *testing.T) snapshot.Store {
	t.Helper()
	return snapshot.Store{Volume: t.TempDir(), Directory: "my-cluster/nightly"}
}

// files are the names in the directory of a store.
func files(t *testing.T, store snapshot.Store) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(store.Volume, store.Directory))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestAVerifiedCopyIsStoredWithItsRevisionAndHash(t *testing.T) {
	t.Parallel()
	store, data := newStore(t), snapshottest.Data(t, 70)
	stored, err := store.Add(bytes.NewReader(data), 70, noon())
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(data)
	want := snapshot.Stored{
		Facts: snapshot.Facts{Revision: 70, Size: int64(len(data)), SHA256: hex.EncodeToString(hash[:])},
		Path:  "my-cluster/nightly/20260501T120000Z-70.db",
	}
	if stored != want {
		t.Errorf("stored %+v, want %+v", stored, want)
	}
	written, err := os.ReadFile(filepath.Join(store.Volume, stored.Path))
	if err != nil || !bytes.Equal(written, data) {
		t.Errorf("the file is not the snapshot: %v", err)
	}
	info, err := os.Stat(filepath.Join(store.Volume, stored.Path))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v: %v", info.Mode(), err)
	}
}

func TestACopyThatIsNotVerifiedLeavesNothing(t *testing.T) {
	t.Parallel()
	good := snapshottest.Data(t, 70)
	pages := good[:len(good)-sha256.Size]
	flipped, torn := bytes.Clone(good), bytes.Clone(pages)
	flipped[bytes.LastIndex(flipped, []byte("value"))] ^= 1 // the pages are as good as before
	clear(torn[2*os.Getpagesize():])
	connection := errors.New("connection reset")
	for name, test := range map[string]struct {
		source io.Reader
		least  int64
		want   error
	}{
		"no data":                        {bytes.NewReader(nil), 1, snapshot.ErrNotVerified},
		"cut off after some pages":       {bytes.NewReader(good[:len(good)/2]), 1, snapshot.ErrNotVerified},
		"without its hash":               {bytes.NewReader(pages), 1, snapshot.ErrNotVerified},
		"with a flipped bit":             {bytes.NewReader(flipped), 1, snapshot.ErrNotVerified},
		"no database, with a right hash": {bytes.NewReader(snapshottest.Hashed(make([]byte, 4096))), 1, snapshot.ErrNotVerified},
		"a torn one, with a right hash":  {bytes.NewReader(snapshottest.Hashed(torn)), 1, snapshot.ErrNotVerified},
		"older than what etcd had":       {bytes.NewReader(good), 71, snapshot.ErrNotVerified},
		"interrupted":                    {io.MultiReader(bytes.NewReader(good[:5000]), iotest.ErrReader(connection)), 1, snapshot.ErrInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			if _, err := store.Add(test.source, test.least, noon()); !errors.Is(err, test.want) {
				t.Errorf("the error is %v, want %v", err, test.want)
			}
			if left := files(t, store); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}

func TestTheOldestCopiesAreRemovedAndNothingElse(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	directory := filepath.Join(store.Volume, store.Directory)
	if err := os.MkdirAll(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notes.txt", "20260401T120000Z.db", ".partial-20260430T120000Z"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var last snapshot.Stored
	for _, at := range []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour, 0} { // the clock was set back
		var err error
		if last, err = store.Add(bytes.NewReader(snapshottest.Data(t, 5)), 1, noon().Add(at)); err != nil {
			t.Fatal(err)
		}
		if err := store.Prune(2, last); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"20260401T120000Z.db", "20260501T120000Z-5.db", "20260501T150000Z-5.db", "notes.txt"}
	if got := files(t, store); !slices.Equal(got, want) {
		t.Errorf("%v are left, want %v", got, want)
	}
}

func TestCopiesOfAnotherClusterOfTheNameAreNotCounted(t *testing.T) {
	t.Parallel()
	volume := t.TempDir()
	add := func(directory string, at time.Duration) snapshot.Store {
		store := snapshot.Store{Volume: volume, Directory: directory}
		stored, err := store.Add(bytes.NewReader(snapshottest.Data(t, 70)), 1, noon().Add(at))
		if err == nil {
			err = store.Prune(1, stored)
		}
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	before := []snapshot.Store{add("my-cluster/nightly", 0), add("my-cluster/nightly/uid-1", time.Hour)}
	add("my-cluster/nightly/uid-2", 2*time.Hour)
	add("my-cluster/nightly/uid-2", 3*time.Hour)
	for i, want := range [][]string{{"20260501T120000Z-70.db", "uid-1", "uid-2"}, {"20260501T130000Z-70.db"}} {
		if got := files(t, before[i]); !slices.Equal(got, want) {
			t.Errorf("%v are left in %s, want %v", got, before[i].Directory, want)
		}
	}
}

func TestACopyWithATimeToComeDoesNotPushOutNewerOnes(t *testing.T) {
	t.Parallel()
	store, year := newStore(t), 8760*time.Hour
	for _, at := range []time.Duration{year, year + time.Hour, year + 2*time.Hour, time.Hour, 2 * time.Hour, 3 * time.Hour} {
		stored, err := store.Add(bytes.NewReader(snapshottest.Data(t, 70)), 1, noon().Add(at))
		if err == nil {
			err = store.Prune(3, stored)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"20260501T130000Z-70.db", "20260501T140000Z-70.db", "20260501T150000Z-70.db"}
	if got := files(t, store); !slices.Equal(got, want) {
		t.Errorf("%v are left, want %v", got, want)
	}
}

func TestALinkOnTheVolumeLeadsNowhere(t *testing.T) {
	t.Parallel()
	store, outside := newStore(t), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(store.Volume, "my-cluster")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Add(bytes.NewReader(snapshottest.Data(t, 5)), 1, noon()); err == nil {
		t.Error("the copy was stored outside of the volume")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("%v: %v", entries, err)
	}
}
