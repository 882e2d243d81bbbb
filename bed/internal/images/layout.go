package images

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// LayOut writes layers into a directory of this machine, as a container would see them below its root.
func LayOut(root string, layers ...[]File) error {
	for _, files := range layers {
		for _, file := range withParents(files) {
			if err := file.layOut(filepath.Join(root, file.Path)); err != nil {
				return fmt.Errorf("laying out %s: %w", file.Path, err)
			}
		}
	}
	return nil
}

func (f File) layOut(target string) error {
	switch {
	case f.Mode.IsDir():
		return os.MkdirAll(target, f.Mode.Perm())
	case f.Mode&fs.ModeSymlink != 0:
		return os.Symlink(f.Link, target)
	case f.Source == "":
		return os.WriteFile(target, []byte(f.Text), f.Mode.Perm())
	}
	if err := copyFile(target, f.Source, f.Mode.Perm()); err != nil {
		return err
	}
	epoch := time.Unix(0, 0) // the time of every file in a layer
	return os.Chtimes(target, epoch, epoch)
}

func copyFile(target, source string, permissions fs.FileMode) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, permissions)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close() // the first error tells more
		return err
	}
	return out.Close()
}
