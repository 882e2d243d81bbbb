package images

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	// annotationName holds the whole name. Containerd stores the image under it, and with containerd kind, k3d and Docker.
	annotationName = "io.containerd.image.name"
	// annotationTag is OCI's own. By it, skopeo selects an entry of an archive.
	annotationTag = "org.opencontainers.image.ref.name"
)

// nameOf reads the name of an image with its tag.
func nameOf(reference string) (name.Tag, error) {
	tag, err := name.NewTag(reference, name.WeakValidation)
	if err != nil {
		return name.Tag{}, fmt.Errorf("reading the name of the image: %w", err)
	}
	if !strings.HasSuffix(reference, ":"+tag.TagStr()) {
		return name.Tag{}, fmt.Errorf("the image name %q has no tag: write it as repository:tag", reference)
	}
	return tag, nil
}

// storedName is the name as containerd and the kubelet write it: always with a registry, and docker.io for Docker Hub.
func storedName(tag name.Tag) string {
	if tag.RegistryStr() == name.DefaultRegistry {
		return "docker.io/" + tag.RepositoryStr() + ":" + tag.TagStr()
	}
	return tag.Name()
}

// writeDockerManifest adds the manifest of docker save to an OCI layout, for stores of images that hold one architecture.
func writeDockerManifest(folder string, tag name.Tag, images map[string]v1.Image) error {
	image, common := images["amd64"]
	if !common {
		image = images[slices.Sorted(maps.Keys(images))[0]]
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	described := tarball.Descriptor{Config: blob(manifest.Config.Digest), RepoTags: []string{tag.String()}}
	for _, layer := range manifest.Layers {
		described.Layers = append(described.Layers, blob(layer.Digest))
	}
	text, err := json.Marshal(tarball.Manifest{described})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "manifest.json"), text, 0o644)
}

// blob is where an OCI layout keeps content.
func blob(digest v1.Hash) string { return path.Join("blobs", digest.Algorithm, digest.Hex) }
