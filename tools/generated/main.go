// Command generated checks that generated files are current: it runs a command that generates, and fails if that
// changed, added or removed any file that git knows or would add. It compares contents with what was there before,
// not with the last commit, so it also works in a tree with changes.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("C", ".", "folder of the repository")
	flag.Parse()
	if err := run(*root, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, generate []string) error {
	if len(generate) == 0 {
		return errors.New("usage: generated -C FOLDER COMMAND [ARGUMENT...]")
	}
	before, err := snapshot(root)
	if err != nil {
		return err
	}
	cmd := exec.Command(generate[0], generate[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %s: %w", strings.Join(generate, " "), err)
	}
	after, err := snapshot(root)
	if err != nil {
		return err
	}
	if changed := difference(before, after); len(changed) > 0 {
		return fmt.Errorf("generated files were not current; they are now, commit them:\n  %s", strings.Join(changed, "\n  "))
	}
	return nil
}

// snapshot maps each file that git tracks, or would add, to the hash of its content.
func snapshot(root string) (map[string][sha256.Size]byte, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", root, err)
	}
	sums := map[string][sha256.Size]byte{}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // tracked, but removed from the tree
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		sums[name] = sha256.Sum256(content)
	}
	return sums, nil
}

// difference names the files whose content is not the same in both snapshots, sorted.
func difference(before, after map[string][sha256.Size]byte) []string {
	var names []string
	for name, sum := range after {
		if old, ok := before[name]; !ok || old != sum {
			names = append(names, name)
		}
	}
	for name := range maps.Keys(before) {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
