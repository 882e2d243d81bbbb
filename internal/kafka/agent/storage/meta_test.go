package storage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/agent/storage"
)

// ours is a meta.properties as Kafka 4.3.1 writes it.
const ours = "#\n#Sat Nov 21 05:17:15 UTC 2026\nnode.id=4\ndirectory.id=WEx66hKi0GxGXD23sjsoEA\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"

func directory(t *testing.T, meta string) string {
	t.Helper()
	path := t.TempDir()
	if meta == "" {
		return path
	}
	if err := os.WriteFile(filepath.Join(path, "meta.properties"), []byte(meta), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDataDirectories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		metas   []string
		format  bool
		foreign string
	}{
		"all formatted for this node":     {[]string{ours, ours}, false, ""},
		"none formatted":                  {[]string{"", ""}, true, ""},
		"one of them added":               {[]string{ours, ""}, true, ""},
		"one of another cluster":          {[]string{"", strings.Replace(ours, "MkU3", "AAAA", 1)}, false, "AAAAOEVBNTcwNTJENDM2Qg"},
		"one of another node":             {[]string{strings.Replace(ours, "node.id=4", "node.id=5", 1)}, false, `"5"`},
		"one that does not say whose":     {[]string{"version=1\n"}, false, `""`},
		"one that is cut off in the name": {[]string{"cluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.i"}, false, `""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directories := []string{}
			for _, meta := range c.metas {
				directories = append(directories, directory(t, meta))
			}
			format, err := storage.NeedsFormat(directories, storage.Owner{ClusterID: "MkU3OEVBNTcwNTJENDM2Qg", NodeID: 4})
			foreign, isForeign := errors.AsType[*storage.ForeignError](err)
			switch {
			case c.foreign == "" && (err != nil || format != c.format):
				t.Errorf("needs format = %t, %v; want %t", format, err, c.format)
			case c.foreign != "" && (!isForeign || !strings.Contains(foreign.Error(), c.foreign)):
				t.Errorf("error %v, want a ForeignError that names %s", err, c.foreign)
			}
		})
	}
}

func TestDirectoryThatDoesNotExistNeedsFormat(t *testing.T) {
	t.Parallel()
	format, err := storage.NeedsFormat([]string{filepath.Join(t.TempDir(), "new")}, storage.Owner{})
	if err != nil || !format {
		t.Errorf("needs format = %t, %v; want true", format, err)
	}
}

func FuzzParseMeta(f *testing.F) {
	f.Add([]byte(ours))
	f.Add([]byte("=\n=="))
	f.Fuzz(func(t *testing.T, data []byte) {
		meta := storage.ParseMeta(data)
		for _, value := range []string{meta.ClusterID, meta.NodeID} {
			if value != "" && !strings.Contains(string(data), value) {
				t.Errorf("%q does not stand in the file", value)
			}
		}
	})
}
