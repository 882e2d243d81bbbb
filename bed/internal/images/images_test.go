package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestLayersAreTheSameForTheSameFiles(t *testing.T) {
	t.Parallel()
	first := []File{Text("/etc/b", "2"), Program("/bin/a", source(t)), Directory("/tmp", 0o777)}
	second := []File{first[2], first[1], first[0]}
	if a, b := packed(t, first), packed(t, second); !bytes.Equal(a, b) {
		t.Error("the order of the files changes the layer")
	}
}

func TestLayersHoldWhatImagesNeed(t *testing.T) {
	t.Parallel()
	type entry struct {
		Kind       byte
		Name, Link string
		Mode       int64
		Text       string
	}
	want := []entry{
		{tar.TypeDir, "etc/", "", 0o755, ""},
		{tar.TypeReg, "etc/passwd", "", 0o644, "root"},
		{tar.TypeDir, "opt/", "", 0o755, ""},
		{tar.TypeSymlink, "opt/link", "tool", 0o777, ""},
		{tar.TypeReg, "opt/tool", "", 0o755, "program"},
		{tar.TypeDir, "tmp/", "", 0o1777, ""},
	}
	archive := tar.NewReader(bytes.NewReader(packed(t, []File{
		Text("/etc/passwd", "root"), Program("/opt/tool", source(t)), Link("/opt/link", "tool"), Directory("/tmp", 0o777),
	})))
	var got []entry
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 {
			t.Errorf("%s has the time %s", header.Name, header.ModTime)
		}
		got = append(got, entry{header.Typeflag, header.Name, header.Linkname, header.Mode, string(text)})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTreeKeepsLinksAndRights(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "java"), nil, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("java", filepath.Join(root, "j")); err != nil {
		t.Fatal(err)
	}
	files, err := Tree("/opt/java", root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]File{}
	for _, file := range files {
		got[file.Path] = file
	}
	if link := got["/opt/java/j"]; link.Mode&fs.ModeSymlink == 0 || link.Link != "java" {
		t.Errorf("the link became %+v", link)
	}
	if program := got["/opt/java/java"]; program.Mode != 0o750 || program.Source != filepath.Join(root, "java") {
		t.Errorf("the program became %+v", program)
	}
}

func TestPackedImagesTellTheirName(t *testing.T) {
	t.Parallel()
	archive := filepath.Join(t.TempDir(), "image.tar")
	image := Image{
		Name: Prefix + "thing:1", Layers: [][]File{{Text("/a", "b")}}, Entrypoint: []string{"/a"}, User: "65532:65532",
		Environment: map[string]string{"B": "2", "A": "1"},
	}
	if err := image.Pack(archive); err != nil {
		t.Fatal(err)
	}
	name, config, err := inspect(archive)
	if err != nil {
		t.Fatal(err)
	}
	if name != image.Name {
		t.Errorf("the archive holds %s, want %s", name, image.Name)
	}
	read, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := read.ConfigName(); err != nil || digest.String() != config {
		t.Errorf("the configuration is told as %s, want %s, %v", config, digest, err)
	}
	file, err := read.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=1", "B=2"}, file.Config.Env); diff != "" {
		t.Error(diff)
	}
	if file.OS != "linux" || file.Config.User != image.User {
		t.Errorf("the image is for %s and runs as %s", file.OS, file.Config.User)
	}
}

func TestInspectRefusesWhatIsNoImage(t *testing.T) {
	t.Parallel()
	if _, _, err := inspect(source(t)); err == nil {
		t.Error("a text file is taken for an image")
	}
}

func TestLayOutMakesWhatAContainerSees(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := LayOut(root, []File{Program("/opt/tool", source(t))}, []File{Link("/opt/link", "tool"), Text("/etc/a", "b")}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "opt", "link"))
	if err != nil || string(text) != "program" {
		t.Errorf("through the link one reads %q, %v", text, err)
	}
	info, err := os.Stat(filepath.Join(root, "opt", "tool"))
	if err != nil || info.ModTime().Unix() != 0 {
		t.Errorf("the program has the time %s, %v; in the layer it has none", info.ModTime(), err)
	}
}

func packed(t *testing.T, files []File) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := writeTar(&out, files); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func source(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
