package install

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// executable lets every user run the copy: the container of the server has another user.
const executable = 0o755

// Copy puts a copy of the program at the destination, whole or not at all: a
// container that starts meanwhile finds the old one or the new one.
func Copy(program, destination string) error {
	source, err := os.Open(program)
	if err != nil {
		return fmt.Errorf("opening the program to install: %w", err)
	}
	err = replace(source, destination)
	if err = errors.Join(err, source.Close()); err != nil {
		return fmt.Errorf("installing %s: %w", destination, err)
	}
	return nil
}

func replace(source io.Reader, destination string) error {
	part, err := os.CreateTemp(filepath.Dir(destination), "."+filepath.Base(destination)+"-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(part, source)
	err = errors.Join(err, part.Chmod(executable), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), destination)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}
