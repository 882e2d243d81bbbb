package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/keyturn/keyturn/bed/internal/state"
)

// Builder makes things in one state folder.
type Builder struct {
	// Folder keeps the results.
	Folder state.Folder
	// Source is the directory of the bed's own module, which holds the nested modules.
	Source string
	// Progress tells what is done and how long it took.
	Progress io.Writer
	// used are the results that were asked for, by their folder.
	used map[string]bool
	// course is that of a whole bed.
	course *course
}

// New is a builder that remembers what it was asked for.
func New(folder state.Folder, source string, progress io.Writer) Builder {
	return Builder{Folder: folder, Source: source, Progress: progress, used: map[string]bool{}, course: &course{}}
}

// Prune removes the results that this builder was not asked for: those of older versions. Everything that is needed
// must have been asked for before, and no program of an older version may be running.
func (b Builder) Prune() error {
	results, err := filepath.Glob(b.Folder.Built("*", "*"))
	if err != nil {
		return fmt.Errorf("listing old results: %w", err)
	}
	for _, dir := range results {
		if b.used[dir] {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("removing an old result: %w", err)
		}
	}
	return nil
}

// Step is one thing to make.
type Step struct {
	// Name is what progress calls it.
	Name string
	// Inputs is everything that decides the result: versions, flags, and the texts of sources.
	Inputs []string
	// Make writes the result into a directory that is new and empty.
	Make func(ctx context.Context, dir string) error
}

// Do returns the directory with the step's result and makes it when it is missing. A result that was not finished is
// never seen: it gets its name only when it is complete.
func (b Builder) Do(ctx context.Context, s Step) (string, error) {
	dir := b.Folder.Built(s.Name, key(s.Inputs))
	b.used[dir] = true
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("looking for %s: %w", s.Name, err)
	}
	begun := time.Now()
	b.tell("%-14s building%s", s.Name, b.course.forecast())
	unfinished := dir + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", fmt.Errorf("building %s: %w", s.Name, err)
	}
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return "", fmt.Errorf("building %s: %w", s.Name, err)
	}
	if err := s.Make(ctx, unfinished); err != nil {
		return "", fmt.Errorf("building %s: %w", s.Name, err)
	}
	if err := os.Rename(unfinished, dir); err != nil {
		return "", fmt.Errorf("building %s: %w", s.Name, err)
	}
	took := time.Since(begun)
	b.course.finish(s.Name, took)
	b.tell("%-14s built in %.0f s", s.Name, took.Seconds())
	return dir, nil
}

func (b Builder) tell(format string, values ...any) {
	_, _ = fmt.Fprintf(b.Progress, format+"\n", values...) // progress that cannot be shown is no reason to stop
}

// keyLength is that of a key in hexadecimal digits.
const keyLength = 12

// key names a result after all that went into it.
func key(inputs []string) string {
	hash := sha256.New()
	for _, input := range inputs {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(input), input) // a hash takes every write
	}
	return hex.EncodeToString(hash.Sum(nil))[:keyLength]
}

// texts reads the files of a nested module that decide what is built from it.
func texts(dir string) ([]string, error) {
	var found []string
	for _, pattern := range []string{"*.go", "go.mod", "go.sum"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("reading the sources in %s: %w", dir, err)
			}
			found = append(found, filepath.Base(path), string(text))
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("there are no sources in %s; run the bed from the repository", dir)
	}
	return found, nil
}
