package mount_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/internal/agent/mount"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
)

func read(t *testing.T, r *mount.Reader) ([]mount.Directory, uint64) {
	t.Helper()
	mounted, generation, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	return mounted, generation
}

func TestGenerationGrowsWithEachChangeOnly(t *testing.T) {
	t.Parallel()
	node := t.TempDir()
	r := mount.NewReader(node, "none")
	mounttest.WriteVolume(t, node, mount.Directory{"a": []byte("1")})
	_, first := read(t, r)
	_, again := read(t, r)
	if again != first {
		t.Errorf("generation %d after %d without a change", again, first)
	}
	mounttest.WriteVolume(t, node, mount.Directory{"a": []byte("2")})
	mounted, second := read(t, r)
	if second <= first || string(mounted[0]["a"]) != "2" {
		t.Errorf("generation %d after %d, content %q; want a new one", second, first, mounted[0]["a"])
	}
}

func TestPlainDirectoryIsReadEachTime(t *testing.T) {
	t.Parallel()
	node := t.TempDir()
	r := mount.NewReader(node, "none")
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(node, "a"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	_, first := read(t, r)
	write("2")
	mounted, second := read(t, r)
	if second <= first || string(mounted[0]["a"]) != "2" {
		t.Errorf("generation %d after %d, content %q; want a new one", second, first, mounted[0]["a"])
	}
}

func TestMissingVolumeIsEmpty(t *testing.T) {
	t.Parallel()
	below := filepath.Join(t.TempDir(), "not mounted yet")
	mounted, _ := read(t, mount.NewReader(below, below))
	if len(mounted[0]) != 0 {
		t.Errorf("files %v, want none", mounted[0])
	}
}

func TestContentIsNeverOfTwoMoments(t *testing.T) {
	t.Parallel()
	node := t.TempDir()
	r := mount.NewReader(node, "none")
	mounttest.WriteVolume(t, node, mount.Directory{"a": []byte("x"), "b": []byte("x")})
	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := byte(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				mounttest.WriteVolume(t, node, mount.Directory{"a": {i}, "b": {i}})
			}
		}
	})
	for range 2000 {
		mounted, _, err := r.Read()
		if err != nil {
			continue // the directory went away while it was read: the next look sees its successor
		}
		if !bytes.Equal(mounted[0]["a"], mounted[0]["b"]) {
			t.Errorf("read %v, want both files of one moment", mounted[0])
			break
		}
	}
	close(stop)
	writer.Wait()
}
