package images

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteArchive writes one image for several architectures, named as Go names them, as an OCI archive: a tar of an OCI
// layout with one entry, which carries the image's name and lists the architectures. Beside it is the manifest of docker save.
func WriteArchive(archive, reference string, variants map[string]Image) error {
	if len(variants) == 0 {
		return fmt.Errorf("writing the image archive %s: it holds no architecture: give at least one program", archive)
	}
	tag, err := nameOf(reference)
	if err != nil {
		return fmt.Errorf("writing the image archive %s: %w", archive, err)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(archive), "layout-")
	if err != nil {
		return fmt.Errorf("writing the image archive %s: %w", archive, err)
	}
	defer func() { _ = os.RemoveAll(scratch) }() // the archive holds all of it now
	if err := writeArchive(archive, scratch, tag, variants); err != nil {
		return fmt.Errorf("writing the image archive %s: %w", archive, err)
	}
	return nil
}

func writeArchive(archive, scratch string, tag name.Tag, variants map[string]Image) error {
	folder := filepath.Join(scratch, "oci")
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	list := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	packed := map[string]v1.Image{}
	for architecture, variant := range variants {
		if packed[architecture], err = assembleOCI(filepath.Join(scratch, architecture), architecture, variant); err != nil {
			return err
		}
	}
	for _, architecture := range slices.Sorted(maps.Keys(packed)) {
		list = mutate.AppendManifests(list, mutate.IndexAddendum{
			Add: packed[architecture], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	if err := written.AppendIndex(list, layout.WithAnnotations(map[string]string{
		annotationName: storedName(tag), annotationTag: tag.TagStr(),
	})); err != nil {
		return err
	}
	if err := writeDockerManifest(folder, tag, packed); err != nil {
		return err
	}
	return tarFolder(archive, folder)
}

func assembleOCI(layers, architecture string, variant Image) (v1.Image, error) {
	if err := os.Mkdir(layers, 0o755); err != nil {
		return nil, err
	}
	image, err := variant.assemble(layers, architecture, newCompressedLayer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON), nil
}

// tarFolder packs what is below a folder, for everybody to read.
func tarFolder(archive, folder string) error {
	files, err := Tree("/", folder)
	if err != nil {
		return err
	}
	for i := range files {
		if !files[i].Mode.IsDir() {
			files[i].Mode = 0o644
		}
	}
	unfinished := archive + ".unfinished"
	out, err := os.Create(unfinished)
	if err != nil {
		return err
	}
	if err := errors.Join(writeTar(out, files), out.Close()); err != nil {
		return err
	}
	return os.Rename(unfinished, archive)
}

// newCompressedLayer writes the entries to a tar file, which travels compressed.
func newCompressedLayer(path string, files []File) (v1.Layer, error) {
	if _, err := newLayer(path, files); err != nil {
		return nil, err
	}
	return tarball.LayerFromFile(path, tarball.WithMediaType(types.OCILayer))
}
