package images

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is one entry of a layer.
type File struct {
	// Path is where it lies in the image, absolute.
	Path string
	// Mode holds permission bits and, for a directory, fs.ModeDir. A symbolic link has fs.ModeSymlink.
	Mode fs.FileMode
	// UID and GID own it.
	UID, GID int
	// Link is what a symbolic link points to.
	Link string
	// Source is the file on this machine whose content it takes; Text is used when there is none.
	Source string
	Text   string
}

// Directory is a directory entry.
func Directory(path string, permissions fs.FileMode) File {
	return File{Path: path, Mode: fs.ModeDir | permissions}
}

// Program is an executable taken from this machine.
func Program(path, source string) File { return File{Path: path, Mode: 0o755, Source: source} }

// Text is a small file that everybody may read.
func Text(path, text string) File { return File{Path: path, Mode: 0o644, Text: text} }

// Link is a symbolic link.
func Link(path, target string) File {
	return File{Path: path, Mode: fs.ModeSymlink | 0o777, Link: target}
}

// Tree takes a directory of this machine with all below it to the given place; owners become root.
func Tree(place, source string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(source, func(found string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(source, found)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		file := File{Path: path.Join(place, filepath.ToSlash(relative)), Mode: info.Mode() & (fs.ModePerm | fs.ModeDir | fs.ModeSymlink)}
		switch {
		case file.Mode&fs.ModeSymlink != 0:
			file.Link, err = os.Readlink(found)
		case !entry.IsDir():
			file.Source = found
		}
		files = append(files, file)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", source, err)
	}
	return files, nil
}

// writeTar writes the entries as a tar stream, each directory before what lies in it.
func writeTar(out io.Writer, files []File) error {
	archive := tar.NewWriter(out)
	for _, file := range withParents(files) {
		if err := writeEntry(archive, file); err != nil {
			return fmt.Errorf("packing %s: %w", file.Path, err)
		}
	}
	return archive.Close()
}

// withParents sorts the entries and adds the directories that are only implied by the paths of others.
func withParents(files []File) []File {
	entries := map[string]File{}
	for _, file := range files {
		for parent := path.Dir(path.Clean(file.Path)); parent != "/" && parent != "."; parent = path.Dir(parent) {
			if _, known := entries[parent]; !known {
				entries[parent] = Directory(parent, 0o755)
			}
		}
		file.Path = path.Clean(file.Path)
		entries[file.Path] = file
	}
	delete(entries, "/")
	sorted := make([]File, 0, len(entries))
	for _, file := range entries {
		sorted = append(sorted, file)
	}
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return sorted
}

func writeEntry(archive *tar.Writer, file File) error {
	header := &tar.Header{
		Name: strings.TrimPrefix(file.Path, "/"), Mode: int64(file.Mode.Perm()), Uid: file.UID, Gid: file.GID,
		Format: tar.FormatPAX,
	}
	if file.Path == "/tmp" {
		header.Mode = 0o1777
	}
	switch {
	case file.Mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return archive.WriteHeader(header)
	case file.Mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname = tar.TypeSymlink, file.Link
		return archive.WriteHeader(header)
	case file.Source == "":
		return writeContent(archive, header, strings.NewReader(file.Text), int64(len(file.Text)))
	}
	source, err := os.Open(file.Source)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // only read
	info, err := source.Stat()
	if err != nil {
		return err
	}
	return writeContent(archive, header, source, info.Size())
}

func writeContent(archive *tar.Writer, header *tar.Header, content io.Reader, size int64) error {
	header.Typeflag, header.Size = tar.TypeReg, size
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

// layer is a tar file as it is: images of the bed never leave the machine, so packing them smaller would only cost time.
type layer struct {
	path string
	hash v1.Hash
	size int64
}

// newLayer writes the entries to a tar file and takes its digest.
func newLayer(path string, files []File) (v1.Layer, error) {
	out, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	digest := sha256.New()
	err = errors.Join(writeTar(io.MultiWriter(out, digest), files), out.Close())
	if err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("writing a layer: %w", err)
	}
	hash := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(digest.Sum(nil))}
	return layer{path: path, hash: hash, size: info.Size()}, nil
}

// Digest is the hash of what is stored, which is the plain tar.
func (l layer) Digest() (v1.Hash, error) { return l.hash, nil }

// DiffID is the hash of the plain tar.
func (l layer) DiffID() (v1.Hash, error) { return l.hash, nil }

// Compressed opens what is stored.
func (l layer) Compressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Uncompressed opens the plain tar.
func (l layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }

// Size is the length of what is stored in bytes.
func (l layer) Size() (int64, error) { return l.size, nil }

// MediaType says that the layer is a plain tar.
func (l layer) MediaType() (types.MediaType, error) { return types.DockerUncompressedLayer, nil }
