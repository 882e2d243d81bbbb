package images

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteArchive writes one image for several architectures, named as Go names them, as an OCI archive: a tar of an OCI
// layout with one entry, which lists the architectures. It has no name; whoever brings it to a registry gives it one.
func WriteArchive(archive string, variants map[string]Image) error {
	scratch, err := os.MkdirTemp(filepath.Dir(archive), "layout-")
	if err != nil {
		return fmt.Errorf("writing the image archive %s: %w", archive, err)
	}
	defer func() { _ = os.RemoveAll(scratch) }() // the archive holds all of it now
	if err := writeArchive(archive, scratch, variants); err != nil {
		return fmt.Errorf("writing the image archive %s: %w", archive, err)
	}
	return nil
}

func writeArchive(archive, scratch string, variants map[string]Image) error {
	list := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range slices.Sorted(maps.Keys(variants)) {
		layers := filepath.Join(scratch, architecture)
		if err := os.Mkdir(layers, 0o755); err != nil {
			return err
		}
		image, err := variants[architecture].assemble(layers, architecture, newCompressedLayer)
		if err != nil {
			return err
		}
		image = mutate.ConfigMediaType(mutate.MediaType(image, types.OCIManifestSchema1), types.OCIConfigJSON)
		list = mutate.AppendManifests(list, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	folder := filepath.Join(scratch, "oci")
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	if err := written.AppendIndex(list); err != nil {
		return err
	}
	return tarFolder(archive, folder)
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
