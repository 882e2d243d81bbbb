package install_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/keyturn/keyturn/internal/agent/install"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCopyReplacesWhatIsThere(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	program := write(t, filepath.Join(t.TempDir(), "program"), "new")
	destination := write(t, filepath.Join(directory, "keyturn"), "old")
	if err := install.Copy(program, destination); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(destination)
	if err != nil || string(data) != "new" {
		t.Errorf("content %q, %v; want the new program", data, err)
	}
	info, err := os.Stat(destination)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v; want everybody to run it", info.Mode(), err)
	}
	if entries, err := os.ReadDir(directory); err != nil || len(entries) != 1 {
		t.Errorf("directory holds %v, %v; want the program alone", entries, err)
	}
}

func TestCopyThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	destination := filepath.Join(directory, "keyturn")
	if err := os.Mkdir(destination, 0o700); err != nil { // no file can take its place
		t.Fatal(err)
	}
	if err := install.Copy(write(t, filepath.Join(t.TempDir(), "program"), "new"), destination); err == nil {
		t.Error("no error, want one: the destination is a directory")
	}
	if entries, err := os.ReadDir(directory); err != nil || len(entries) != 1 {
		t.Errorf("directory holds %v, %v; want nothing new", entries, err)
	}
}
