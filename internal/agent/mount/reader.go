package mount

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// current is the link that the kubelet turns to the new content of a volume when
// all of it is written.
const current = "..data"

// maxFile bounds one file: neither a Secret nor a ConfigMap holds more in all.
const maxFile = 2 << 20

// Directory holds the content of one mounted directory by file name.
type Directory = map[string][]byte

// Reader reads mounted directories. It is safe for concurrent use.
type Reader struct {
	mu          sync.Mutex
	directories []*directory
	generation  uint64
}

// NewReader makes a reader of the directories; it reads nothing yet.
func NewReader(paths ...string) *Reader {
	r := &Reader{}
	for _, path := range paths {
		r.directories = append(r.directories, &directory{path: path})
	}
	return r
}

// Read returns what is mounted now, in the order of the paths, and a number that grows
// whenever that has changed. A directory that is not there is empty: what it should hold
// is then missing, and named as such by what looks for it.
func (r *Reader) Read() ([]Directory, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mounted := make([]Directory, 0, len(r.directories))
	for _, d := range r.directories {
		changed, err := d.refresh()
		if err != nil {
			return nil, 0, err
		}
		if changed {
			r.generation++
		}
		mounted = append(mounted, d.files)
	}
	return mounted, r.generation, nil
}

// directory remembers its content together with what the link pointed to.
type directory struct {
	path   string
	target string
	files  Directory
}

// errMoved says that a directory was exchanged while it was read.
var errMoved = errors.New("its content was exchanged while it was read")

// refresh reads the directory if it may have changed, and reports whether it has.
func (d *directory) refresh() (bool, error) {
	// Without the link it is not a kubelet's volume, and has to be read each time.
	target, err := os.Readlink(filepath.Join(d.path, current))
	if err == nil && target == d.target {
		return false, nil
	}
	files, err := readAll(filepath.Join(d.path, target))
	if err != nil {
		return false, err
	}
	// The old content is removed, file by file, after the link was turned: what
	// was read is whole only if the link has not moved since.
	if now, _ := os.Readlink(filepath.Join(d.path, current)); now != target {
		return false, fmt.Errorf("reading the mounted directory %s: %w", d.path, errMoved)
	}
	changed := d.files == nil || !maps.EqualFunc(d.files, files, bytes.Equal)
	d.target, d.files = target, files
	return changed, nil
}

// readAll reads a directory's files through one handle, so that none of them is
// of a newer content that took the directory's place meanwhile.
func readAll(path string) (Directory, error) {
	root, err := os.OpenRoot(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Directory{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the mounted directory: %w", err)
	}
	files, err := readFiles(root)
	if err = errors.Join(err, root.Close()); err != nil {
		return nil, fmt.Errorf("reading the mounted directory %s: %w", path, err)
	}
	return files, nil
}

func readFiles(root *os.Root) (Directory, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	files := Directory{}
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		data, err := readFile(root, entry.Name())
		if err != nil {
			return nil, err
		}
		files[entry.Name()] = data
	}
	return files, nil
}

func readFile(root *os.Root, name string) ([]byte, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	return data, errors.Join(err, file.Close())
}
