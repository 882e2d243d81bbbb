package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOpenFollowsTheEnvironment(t *testing.T) {
	want := filepath.Join(t.TempDir(), "bed")
	t.Setenv(EnvFolder, want)
	if len(want) > maxFolder {
		t.Skip("the folder for tests has a path that is too long for a bed")
	}
	folder, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if string(folder) != want {
		t.Errorf("Open() = %s, want %s", folder, want)
	}
	if _, err := os.Stat(want); err != nil {
		t.Errorf("the folder was not made: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path    string
		refused string
	}{
		"a folder in a home is fine":                      {path: "/home/somebody/.cache/keyturn-bed"},
		"a name that only begins like a covered one":      {path: "/running/bed"},
		"a folder below /run would be covered":            {path: "/run/bed", refused: "covers"},
		"a folder of the node's logs would be covered":    {path: "/var/log/bed", refused: "covers"},
		"a long path leaves no room for the sockets' own": {path: "/" + strings.Repeat("x", maxFolder), refused: "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := check(test.path)
			if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) {
				t.Errorf("check(%s) = %v, want an error with %q", test.path, err, test.refused)
			}
		})
	}
}

func TestMountsBelowNamesOnlyWhatLiesThere(t *testing.T) {
	t.Parallel()
	mountinfo := strings.Join([]string{
		"22 1 254:0 / / rw - ext4 /dev/vda rw",
		"30 22 0:25 / /bed/run/kubelet/pods/1 rw - tmpfs tmpfs rw",
		"31 22 0:26 / /bed/running rw - tmpfs tmpfs rw",
		"32 22 0:27 / /bed/run rw - tmpfs tmpfs rw",
		"short line",
	}, "\n")
	want := []string{"/bed/run/kubelet/pods/1", "/bed/run"}
	if diff := cmp.Diff(want, mountsBelow(mountinfo, "/bed/run")); diff != "" {
		t.Error(diff)
	}
}

func TestWipeRunKeepsBuildsAndLogs(t *testing.T) {
	t.Parallel()
	folder := Folder(t.TempDir())
	gone := []string{folder.Run("etcd", "data"), folder.Kubeconfig()}
	kept := []string{filepath.Join(folder.Built("etcd", "1"), "etcd"), folder.Log("kubelet")}
	for _, path := range append(gone, kept...) {
		write(t, path)
	}
	if err := folder.WipeRun(); err != nil {
		t.Fatal(err)
	}
	for _, path := range gone {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range kept {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is gone: %v", path, err)
		}
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLockLetsOneInAtATime(t *testing.T) {
	t.Parallel()
	folder := Folder(t.TempDir())
	first, err := folder.Lock(t.Context(), func() { t.Error("the first one met a lock") })
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	second := make(chan error, 1)
	go func() {
		lock, err := folder.Lock(t.Context(), func() { close(waited) })
		if err == nil {
			err = lock.Unlock()
		}
		second <- err
	}()
	<-waited
	select {
	case err := <-second:
		t.Fatal(err, "the second one got the lock while the first one held it")
	default:
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}

func TestLockGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	folder := Folder(t.TempDir())
	held, err := folder.Lock(t.Context(), func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Unlock() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := folder.Lock(ctx, func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock() = %v, want the context's error", err)
	}
}
