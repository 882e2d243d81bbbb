package images

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestAnArchiveHoldsTheProgramOfEachArchitecture(t *testing.T) {
	t.Parallel()
	index := unpacked(t, archived(t))
	if err := validate.Index(index); err != nil {
		t.Errorf("what the archive says of itself is not so: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, variant := range manifest.Manifests {
		if variant.MediaType != types.OCIManifestSchema1 {
			t.Errorf("the manifest of %s is of type %s", variant.Platform, variant.MediaType)
		}
		image, err := index.Image(variant.Digest)
		if err != nil {
			t.Fatal(err)
		}
		file, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v1.Config{Entrypoint: []string{"/program"}, User: "65532:65532"}, file.Config); diff != "" {
			t.Errorf("the image for %s differs:\n%s", variant.Platform, diff)
		}
		got[variant.Platform.String()+", configured for "+file.OS+"/"+file.Architecture] = program(t, image)
	}
	want := map[string]string{
		"linux/amd64, configured for linux/amd64": "program of amd64",
		"linux/arm64, configured for linux/arm64": "program of arm64",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestArchivesAreTheSameForTheSamePrograms(t *testing.T) {
	t.Parallel()
	first, second := archived(t), archived(t)
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two archives of the same programs differ")
	}
}

func TestAnArchiveLeavesNothingBesideIt(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Dir(archived(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("beside the archive there is something else: %v", entries)
	}
}

// reference is the name of the image in archives.
const reference = "registry.example.org/keyturn/keyturn:0.1.0"

// archived is an archive with a program for two architectures.
func archived(t *testing.T) string {
	t.Helper()
	programs := t.TempDir()
	variants := map[string]Image{}
	for _, architecture := range []string{"arm64", "amd64"} {
		path := filepath.Join(programs, architecture)
		if err := os.WriteFile(path, []byte("program of "+architecture), 0o755); err != nil {
			t.Fatal(err)
		}
		variants[architecture] = Image{
			Layers: [][]File{{Program("/program", path)}}, Entrypoint: []string{"/program"}, User: "65532:65532",
		}
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := WriteArchive(archive, reference, variants); err != nil {
		t.Fatal(err)
	}
	return archive
}

// unpacked reads the only entry of an archive's layout.
func unpacked(t *testing.T, archive string) v1.ImageIndex {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	folder := t.TempDir()
	for entries := tar.NewReader(file); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg && header.Mode != 0o644 {
			t.Errorf("%s has the mode %o: not everybody who unpacks the archive may read it", header.Name, header.Mode)
		}
		target := filepath.Join(folder, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(target, 0o755)
		} else {
			err = os.WriteFile(target, content, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the layout has %d entries, want 1", len(manifest.Manifests))
	}
	index, err := outer.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// program is what an image has at /program.
func program(t *testing.T, image v1.Image) string {
	t.Helper()
	content := mutate.Extract(image)
	t.Cleanup(func() { _ = content.Close() })
	for entries := tar.NewReader(content); ; {
		header, err := entries.Next()
		if err != nil {
			t.Fatalf("looking for the program: %v", err)
		}
		if header.Name == "program" {
			text, err := io.ReadAll(entries)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
	}
}
