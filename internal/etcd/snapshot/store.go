package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// ErrInterrupted means that the copy ended before its end.
var ErrInterrupted = errors.New("the copy was interrupted")

// Modes of what is written.
const (
	ownerOnly    = 0o600
	ownerOnlyDir = 0o700
)

// partial is how names of files begin that are not verified.
const partial = ".partial-"

// named are the names of files that are.
var named = regexp.MustCompile(`^\d{8}T\d{6}Z-\d+\.db$`)

// Store is a directory of copies below a volume.
type Store struct {
	// Volume is where it is mounted, Directory the path below it.
	Volume, Directory string
}

// Stored is a verified copy.
type Stored struct {
	Facts

	// Path below the volume.
	Path string
}

// Add stores a copy once it is verified, and its revision is not lower than the one that etcd had before.
func (s Store) Add(source io.Reader, least int64, now time.Time) (Stored, error) {
	root, err := s.open()
	if err != nil {
		return Stored{}, err
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if err := removePartial(root); err != nil {
		return Stored{}, err
	}
	stamp := now.UTC().Format("20060102T150405Z")
	unverified := partial + stamp
	defer func() { _ = root.Remove(unverified) }() // there is none after its rename
	if err := write(root, unverified, source); err != nil {
		return Stored{}, err
	}
	facts, err := Verify(root, unverified)
	if err != nil {
		return Stored{}, err
	}
	if facts.Revision < least {
		return Stored{}, fmt.Errorf("%w: it has revision %d, and etcd had %d before", ErrNotVerified, facts.Revision, least)
	}
	name := fmt.Sprintf("%s-%d.db", stamp, facts.Revision)
	if err := root.Rename(unverified, name); err != nil {
		return Stored{}, fmt.Errorf("naming the verified copy %s: %w", name, err)
	}
	return Stored{facts, path.Join(s.Directory, name)}, syncDirectory(root)
}

// Prune removes the oldest copies until so many are left, never the one that was stored last. Those that have a later
// time were stored before it by a clock that was ahead, and are removed first.
func (s Store) Prune(keep int, last Stored) error {
	root, err := s.open()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	names, err := list(root, named.MatchString)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == path.Base(last.Path) })
	later, _ := slices.BinarySearch(names, path.Base(last.Path))
	names = slices.Concat(names[later:], names[:later])
	for _, name := range names[:max(len(names)-keep+1, 0)] {
		if err := root.Remove(name); err != nil {
			return fmt.Errorf("removing copy %s: %w", name, err)
		}
	}
	return nil
}

// open opens the directory. No link leads out of the volume.
func (s Store) open() (*os.Root, error) {
	volume, err := os.OpenRoot(s.Volume)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	defer func() { _ = volume.Close() }() // the directory stays open
	if err := volume.MkdirAll(s.Directory, ownerOnlyDir); err != nil {
		return nil, fmt.Errorf("making directory %s: %w", s.Directory, err)
	}
	root, err := volume.OpenRoot(s.Directory)
	if err != nil {
		return nil, fmt.Errorf("opening directory %s: %w", s.Directory, err)
	}
	return root, nil
}

// write writes a new file and has it stored.
func write(root *os.Root, name string, source io.Reader) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, ownerOnly)
	if err != nil {
		return fmt.Errorf("creating %s: %w", name, err)
	}
	from := &remembering{Reader: source}
	_, err = io.Copy(file, from)
	if from.err != nil {
		err = fmt.Errorf("%w: %w", ErrInterrupted, from.err)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// remembering knows whether it was the source that has failed.
type remembering struct {
	io.Reader

	err error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err //nolint:wrapcheck // a reader returns io.EOF as it is
}

// removePartial removes what earlier attempts have left.
func removePartial(root *os.Root) error {
	names, err := list(root, func(name string) bool { return strings.HasPrefix(name, partial) })
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}

// list returns names of regular files, sorted.
func list(root *os.Root, wanted func(string) bool) ([]string, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("listing the copies: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && wanted(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// syncDirectory makes the rename outlive a crash of the machine.
func syncDirectory(root *os.Root) error {
	directory, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("opening the directory of the copies: %w", err)
	}
	if err := errors.Join(directory.Sync(), directory.Close()); err != nil {
		return fmt.Errorf("storing the directory of the copies: %w", err)
	}
	return nil
}
