package mount_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

func read(t *testing.T, r *mount.Reader) (stores.Mounted, uint64) {
	t.Helper()
	mounted, generation, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	return mounted, generation
}

func TestVolumesAreRead(t *testing.T) {
	t.Parallel()
	want := stores.Mounted{
		Node:         stores.Directory{"node.crt": []byte("leaf"), "node.key": []byte("key")},
		ClusterTrust: stores.Directory{"a.crt": []byte("anchor")},
		ClientsTrust: stores.Directory{"b.crt": []byte("other anchor")},
		Config:       stores.Directory{"agent.json": []byte("{}")},
		Pod:          stores.Directory{"annotations": []byte("a=\"b\"")},
	}
	got, _ := read(t, mount.NewReader(agenttest.WriteMounts(t, t.TempDir(), want)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounted (-written +read):\n%s", diff)
	}
}

func TestGenerationGrowsWithEachChangeOnly(t *testing.T) {
	t.Parallel()
	node := t.TempDir()
	r := mount.NewReader(mount.Paths{Node: node, ClusterTrust: "none", ClientsTrust: "none", Config: "none", Pod: "none"})
	agenttest.WriteVolume(t, node, stores.Directory{"a": []byte("1")})
	_, first := read(t, r)
	_, again := read(t, r)
	if again != first {
		t.Errorf("generation %d after %d without a change", again, first)
	}
	agenttest.WriteVolume(t, node, stores.Directory{"a": []byte("2")})
	mounted, second := read(t, r)
	if second <= first || string(mounted.Node["a"]) != "2" {
		t.Errorf("generation %d after %d, content %q; want a new one", second, first, mounted.Node["a"])
	}
}

func TestPlainDirectoryIsReadEachTime(t *testing.T) {
	t.Parallel()
	node := t.TempDir()
	r := mount.NewReader(mount.Paths{Node: node, ClusterTrust: "none", ClientsTrust: "none", Config: "none", Pod: "none"})
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(node, "a"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	_, first := read(t, r)
	write("2")
	mounted, second := read(t, r)
	if second <= first || string(mounted.Node["a"]) != "2" {
		t.Errorf("generation %d after %d, content %q; want a new one", second, first, mounted.Node["a"])
	}
}

func TestMissingVolumeIsEmpty(t *testing.T) {
	t.Parallel()
	below := filepath.Join(t.TempDir(), "not mounted yet")
	mounted, _ := read(t, mount.NewReader(mount.Paths{Node: below, ClusterTrust: below, ClientsTrust: below, Config: below, Pod: below}))
	if len(mounted.Node) != 0 {
		t.Errorf("files %v, want none", mounted.Node)
	}
}

func TestContentIsNeverOfTwoMoments(t *testing.T) {
	t.Parallel()
	node := t.TempDir()
	r := mount.NewReader(mount.Paths{Node: node, ClusterTrust: "none", ClientsTrust: "none", Config: "none", Pod: "none"})
	agenttest.WriteVolume(t, node, stores.Directory{"a": []byte("x"), "b": []byte("x")})
	var writer sync.WaitGroup
	stop := make(chan struct{})
	writer.Go(func() {
		for i := byte(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				agenttest.WriteVolume(t, node, stores.Directory{"a": {i}, "b": {i}})
			}
		}
	})
	for range 2000 {
		mounted, _, err := r.Read()
		if err != nil {
			continue // the directory went away while it was read: the next look sees its successor
		}
		if !bytes.Equal(mounted.Node["a"], mounted.Node["b"]) {
			t.Errorf("read %v, want both files of one moment", mounted.Node)
			break
		}
	}
	close(stop)
	writer.Wait()
}
