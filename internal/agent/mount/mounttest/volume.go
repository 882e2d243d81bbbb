package mounttest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// readable is the mode of files in the volumes made here; only the test's user
// reads them.
const (
	ownerFile = 0o600
	ownerDir  = 0o700
)

// WriteVolume gives a volume the files, the way a kubelet does it: a new
// directory beside the old one, then one turn of the link ..data.
func WriteVolume(tb testing.TB, volume string, files map[string][]byte) {
	tb.Helper()
	if err := os.MkdirAll(volume, ownerDir); err != nil {
		tb.Fatal(err)
	}
	content, err := os.MkdirTemp(volume, "..content-")
	if err != nil {
		tb.Fatal(err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(content, name), data, ownerFile); err != nil {
			tb.Fatal(err)
		}
		link := filepath.Join(volume, name)
		if err := os.Symlink(filepath.Join("..data", name), link); err != nil && !errors.Is(err, fs.ErrExist) {
			tb.Fatal(err)
		}
	}
	previous, _ := os.Readlink(filepath.Join(volume, "..data"))
	turn := filepath.Join(volume, "..data_tmp")
	if err := os.Symlink(filepath.Base(content), turn); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(turn, filepath.Join(volume, "..data")); err != nil {
		tb.Fatal(err)
	}
	if previous != "" {
		if err := os.RemoveAll(filepath.Join(volume, previous)); err != nil {
			tb.Fatal(err)
		}
	}
}
