package images

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	containerdimages "github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// kind and k3d hand the archive to containerd's import.
func TestContainerdFindsTheNameAndEveryArchitectureInAnArchive(t *testing.T) {
	t.Parallel()
	store, err := local.NewStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(archived(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	index, err := archive.ImportIndex(t.Context(), store, file)
	if err != nil {
		t.Fatalf("containerd does not import the archive: %v", err)
	}
	blob, err := content.ReadBlob(t.Context(), store, index)
	if err != nil {
		t.Fatal(err)
	}
	var imported v1.IndexManifest
	if err := json.Unmarshal(blob, &imported); err != nil {
		t.Fatal(err)
	}
	if len(imported.Manifests) != 1 {
		t.Fatalf("containerd finds %d images, want 1", len(imported.Manifests))
	}
	if got := imported.Manifests[0].Annotations[containerdimages.AnnotationImageName]; got != reference {
		t.Errorf("containerd calls the image %q, want %q", got, reference)
	}
	if got := imported.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; got != "0.1.0" {
		t.Errorf("the reference of OCI is %q, want the tag", got)
	}
}

func TestDockerLoadFindsTheNameInAnArchive(t *testing.T) {
	t.Parallel()
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(archived(t), &tag)
	if err != nil {
		t.Fatalf("docker load does not find %s: %v", reference, err)
	}
	if err := validate.Image(image); err != nil {
		t.Errorf("what docker load reads is damaged: %v", err)
	}
	file, err := image.ConfigFile()
	if err != nil || file.Architecture != "amd64" {
		t.Errorf("docker load gets the architecture %q, error %v", file.Architecture, err)
	}
}

func TestShortNamesAreStoredAsTheKubeletWritesThem(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"keyturn:0.1.0":               "docker.io/library/keyturn:0.1.0",
		"docker.io/some/keyturn:0.1":  "docker.io/some/keyturn:0.1",
		"localhost:5000/keyturn:1":    "localhost:5000/keyturn:1",
		"registry.example.org/k/k:v1": "registry.example.org/k/k:v1",
	} {
		tag, err := nameOf(given)
		if err != nil {
			t.Errorf("%s is refused: %v", given, err)
			continue
		}
		if got := storedName(tag); got != want {
			t.Errorf("%s is stored as %s, want %s", given, got, want)
		}
	}
}

func TestAnArchiveWithoutATagOrAProgramIsRefused(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "image.tar")
	for _, given := range []string{"", "keyturn", "localhost:5000/keyturn", "Keyturn:1"} {
		if err := WriteArchive(target, given, map[string]Image{"amd64": {}}); err == nil {
			t.Errorf("the name %q is taken", given)
		}
	}
	if err := WriteArchive(target, reference, nil); err == nil || !strings.Contains(err.Error(), "no architecture") {
		t.Errorf("an archive of nothing ends with %v", err)
	}
}
