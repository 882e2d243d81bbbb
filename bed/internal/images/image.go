package images

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Prefix stands before the name of every image of the bed. It is not the name of a registry: nothing is ever pulled.
const Prefix = "keyturn.dev/"

// Image describes an image to pack.
type Image struct {
	// Name is the full name with its version, such as keyturn.dev/kafka:4.3.1.
	Name string
	// Layers are packed in this order.
	Layers [][]File
	// Entrypoint and Command are what runs.
	Entrypoint, Command []string
	// User is the numeric user, and group after a colon; empty means root.
	User string
	// Environment holds the variables.
	Environment map[string]string
	// Labels describe the image.
	Labels map[string]string
	// WorkingDirectory is where it runs; empty means the root.
	WorkingDirectory string
}

// Pack writes the image as an archive that Load understands.
func (i Image) Pack(archive string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(archive), "layers-")
	if err != nil {
		return fmt.Errorf("packing the image %s: %w", i.Name, err)
	}
	defer func() { _ = os.RemoveAll(scratch) }() // the archive holds the layers now
	image, err := i.assemble(scratch, runtime.GOARCH, newLayer)
	if err != nil {
		return fmt.Errorf("packing the image %s: %w", i.Name, err)
	}
	tag, err := name.NewTag(i.Name, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("packing the image %s: %w", i.Name, err)
	}
	unfinished := archive + ".unfinished"
	if err := tarball.WriteToFile(unfinished, tag, image); err != nil {
		return fmt.Errorf("packing the image %s: %w", i.Name, err)
	}
	return os.Rename(unfinished, archive)
}

// assemble puts the image together for an architecture, as Go calls it, out of layers that pack has written to files.
func (i Image) assemble(scratch, architecture string, pack func(path string, files []File) (v1.Layer, error)) (v1.Image, error) {
	image := empty.Image
	for index, files := range i.Layers {
		packed, err := pack(filepath.Join(scratch, strconv.Itoa(index)), files)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, packed); err != nil {
			return nil, err
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", architecture
	file.Config.Entrypoint, file.Config.Cmd = i.Entrypoint, i.Command
	file.Config.User, file.Config.WorkingDir = i.User, i.WorkingDirectory
	file.Config.Labels = i.Labels
	for _, variable := range slices.Sorted(maps.Keys(i.Environment)) {
		file.Config.Env = append(file.Config.Env, variable+"="+i.Environment[variable])
	}
	return mutate.ConfigFile(image, file)
}
