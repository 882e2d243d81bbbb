package main

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// member is one file of an archive.
type member struct {
	name, source string
	mode         fs.FileMode
}

// packedAt is the time of each member, so that archives of the same files are the same. Zip knows no earlier one.
func packedAt() time.Time { return time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC) }

// pack writes the members to a zip or a compressed tar, as the name of the archive says.
func pack(archive string, members []member) error {
	out, err := os.Create(archive)
	if err != nil {
		return fmt.Errorf("packing: %w", err)
	}
	write := packTar
	if filepath.Ext(archive) == ".zip" {
		write = packZip
	}
	buffered := bufio.NewWriter(out)
	if err := errors.Join(write(buffered, members), buffered.Flush(), out.Close()); err != nil {
		return fmt.Errorf("packing %s: %w", archive, err)
	}
	return nil
}

func packTar(out io.Writer, members []member) error {
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for _, m := range members {
		info, err := os.Stat(m.source)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: m.name, Size: info.Size(), Mode: int64(m.mode), ModTime: packedAt(), Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if err := copyInto(archive, m.source); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

func packZip(out io.Writer, members []member) error {
	archive := zip.NewWriter(out)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: packedAt()}
		header.SetMode(m.mode)
		into, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if err := copyInto(into, m.source); err != nil {
			return err
		}
	}
	return archive.Close()
}

func copyInto(out io.Writer, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // only read
	_, err = io.Copy(out, in)
	return err
}

// checksumFile lists the checksums, as sha256sum --check reads them.
const checksumFile = "checksums.txt"

func (r release) checksums(_ context.Context, w work) error {
	entries, err := os.ReadDir(w.out)
	if err != nil {
		return fmt.Errorf("listing the release: %w", err)
	}
	var text strings.Builder
	for _, entry := range entries {
		sum, err := checksum(filepath.Join(w.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, entry.Name())
	}
	return save(w, checksumFile, []byte(text.String()))
}

// checksum is the SHA-256 of a file in hexadecimal digits.
func checksum(path string) (string, error) {
	sum := sha256.New()
	if err := copyInto(sum, path); err != nil {
		return "", fmt.Errorf("reading %s for its checksum: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// save writes a file of the release.
func save(w work, name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(w.out, name), content, 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
