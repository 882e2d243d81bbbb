package application

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestADirectoryIsReadAsItIs(t *testing.T) {
	t.Parallel()
	whole := secret{fileBootstrap: "a:1", fileProtocol: protocolPlain}
	tests := map[string]struct {
		prepare func(t *testing.T, directory string)
		want    secret
		fails   string
	}{
		"a mounted Secret": {
			prepare: func(t *testing.T, d string) { t.Helper(); whole.mount(t, d, "..2026_1") }, want: whole,
		},
		"files without a kubelet": {
			prepare: func(t *testing.T, d string) { t.Helper(); whole.write(t, d) }, want: whole,
		},
		"a Secret after the links were swapped": {
			prepare: func(t *testing.T, d string) {
				t.Helper()
				whole.mount(t, d, "..2026_1")
				whole.with(secret{fileBootstrap: "b:2"}).mount(t, d, "..2026_2")
			},
			want: whole.with(secret{fileBootstrap: "b:2"}),
		},
		"a Secret that lost a key, whose link dangles": {
			prepare: func(t *testing.T, d string) {
				t.Helper()
				whole.mount(t, d, "..2026_1")
				whole.with(secret{fileProtocol: ""}).mount(t, d, "..2026_2")
			},
			want: whole.with(secret{fileProtocol: ""}),
		},
		"an optional Secret that does not exist": {
			prepare: func(t *testing.T, d string) { t.Helper(); secret{}.mount(t, d, "..2026_1") }, want: secret{},
		},
		"an empty directory":       {prepare: func(*testing.T, string) {}, want: secret{}},
		"keys of no client's":      {prepare: func(t *testing.T, d string) { t.Helper(); whole.with(secret{"type": "kafka"}).write(t, d) }, want: whole},
		"a directory for a file":   {prepare: func(t *testing.T, d string) { t.Helper(); makeDirectory(t, filepath.Join(d, fileKey)) }, fails: "file ssl.keystore.key in DIRECTORY cannot be read: is a directory"},
		"a file of more than 1 MB": {prepare: func(t *testing.T, d string) { t.Helper(); secret{fileKey: strings.Repeat("k", maxFile+1)}.write(t, d) }, fails: "file ssl.keystore.key in DIRECTORY cannot be read: it is larger than a Secret can be"},
		"a directory for the link": {prepare: func(t *testing.T, d string) { t.Helper(); makeDirectory(t, filepath.Join(d, current)) }, fails: "link ..data in DIRECTORY cannot be read: invalid argument"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			test.prepare(t, directory)
			found, err := read(directory)
			if got := strings.ReplaceAll(message(err), directory, "DIRECTORY"); got != test.fails {
				t.Fatalf("it fails with %q, want %q", got, test.fails)
			}
			for _, key := range names() {
				if value, there := found.data[key]; string(value) != test.want[key] || there != (test.want[key] != "") {
					t.Errorf("%s is %q, want %q", key, value, test.want[key])
				}
			}
		})
	}
}

func makeDirectory(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestADirectoryThatIsNotMountedIsNamed(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	secret{"file": "text"}.write(t, parent)
	for name, want := range map[string]string{
		"none": "does not exist: mount the Secret of the KafkaAccess there, or name its directory with --secret-dir",
		"file": "is not a directory: mount the Secret of the KafkaAccess there, or name its directory with --secret-dir",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(filepath.Join(parent, name))
			if !errors.Is(err, ErrNoDirectory) || !strings.HasSuffix(err.Error(), filepath.Join(parent, name)+" "+want) {
				t.Errorf("it fails with %v, want %q", err, want)
			}
		})
	}
}

// Files of two versions never come together, however fast a kubelet swaps them.
func TestVersionsOfASecretAreNotMixed(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	version := func(n int) secret {
		return secret{fileKeystore: strconv.Itoa(n), fileKey: strconv.Itoa(n)}
	}
	version(0).mount(t, directory, "..v0")
	var kubelet sync.WaitGroup
	defer kubelet.Wait()
	kubelet.Go(func() {
		for n := range 200 {
			version(n+1).mount(t, directory, "..v"+strconv.Itoa(n+1))
		}
	})
	for range 1000 {
		found, err := read(directory)
		if errors.Is(err, errSwapped) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if certificate, key := string(found.data[fileKeystore]), string(found.data[fileKey]); certificate != key || key == "" {
			t.Fatalf("certificate %q came with key %q", certificate, key)
		}
	}
}
