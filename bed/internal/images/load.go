package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// namespace is where the kubelet's side of containerd looks for images.
const namespace = "k8s.io"

// snapshotter keeps the unpacked layers; it must be the one that containerd's configuration names.
const snapshotter = "overlayfs"

// Store is a running containerd.
type Store struct {
	client     *containerd.Client
	connection *grpc.ClientConn
}

// Connect reaches the containerd behind a socket. The client's own way to dial gives newer gRPC an address that it
// refuses, so the connection is made here.
func Connect(socket string) (*Store, error) {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connecting to containerd at %s: %w", socket, err)
	}
	client, err := containerd.NewWithConn(connection, containerd.WithDefaultNamespace(namespace))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connecting to containerd at %s: %w", socket, err), connection.Close())
	}
	return &Store{client: client, connection: connection}, nil
}

// Close ends the connection.
func (s *Store) Close() error { return s.connection.Close() }

// Load brings the image in an archive into the store and unpacks it. It returns the image's name and whether the store
// needed it: an image whose configuration, and thus whose layers, are the same is left as it is.
func (s *Store) Load(ctx context.Context, archive string) (string, bool, error) {
	image, config, err := inspect(archive)
	if err != nil {
		return "", false, err
	}
	ctx = namespaces.WithNamespace(ctx, namespace)
	if present, err := s.present(ctx, image, config); err != nil || present {
		return image, false, err
	}
	_, err = s.Import(ctx, archive)
	return image, true, err
}

// Import brings the images in an archive into the store by the names that it carries, whatever the store has by these
// names, and unpacks them. It returns the names. The archive has the form of docker save or of OCI.
func (s *Store) Import(ctx context.Context, archive string) ([]string, error) {
	ctx = namespaces.WithNamespace(ctx, namespace)
	file, err := os.Open(archive)
	if err != nil {
		return nil, fmt.Errorf("opening the image archive: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	imported, err := s.client.Import(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("importing %s: %w", archive, err)
	}
	names := make([]string, 0, len(imported))
	for _, one := range imported {
		if err := containerd.NewImage(s.client, one).Unpack(ctx, snapshotter); err != nil {
			return nil, fmt.Errorf("unpacking the image %s: %w", one.Name, err)
		}
		names = append(names, one.Name)
	}
	return names, nil
}

// Tag gives an image of the store a further name.
func (s *Store) Tag(ctx context.Context, image, further string) error {
	ctx = namespaces.WithNamespace(ctx, namespace)
	service := s.client.ImageService()
	stored, err := service.Get(ctx, image)
	if err != nil {
		return fmt.Errorf("looking for the image %s: %w", image, err)
	}
	stored.Name = further
	_, err = service.Create(ctx, stored)
	if errdefs.IsAlreadyExists(err) {
		_, err = service.Update(ctx, stored)
	}
	if err != nil {
		return fmt.Errorf("naming the image %s also %s: %w", image, further, err)
	}
	return nil
}

// NameIn is the name of the image in an archive.
func NameIn(archive string) (string, error) {
	name, _, err := inspect(archive)
	return name, err
}

// inspect reads an archive's image name and the digest of its configuration.
func inspect(archive string) (string, string, error) {
	open := tarball.Opener(func() (io.ReadCloser, error) { return os.Open(archive) })
	manifest, err := tarball.LoadManifest(open)
	if err != nil {
		return "", "", fmt.Errorf("reading the image archive %s: %w", archive, err)
	}
	if len(manifest) != 1 || len(manifest[0].RepoTags) != 1 {
		return "", "", fmt.Errorf("the image archive %s holds not exactly one image with one name", archive)
	}
	tag, err := name.NewTag(manifest[0].RepoTags[0])
	if err != nil {
		return "", "", fmt.Errorf("reading the name of the image in %s: %w", archive, err)
	}
	return tag.Name(), manifest[0].Config, nil
}

// present compares configurations: the store makes its own manifest for an archive, but keeps the configuration.
func (s *Store) present(ctx context.Context, image, config string) (bool, error) {
	stored, err := s.client.GetImage(ctx, image)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the image %s: %w", image, err)
	}
	descriptor, err := stored.Config(ctx)
	if errdefs.IsNotFound(err) {
		return false, nil // half of an image, as an import leaves it that was broken off
	}
	if err != nil {
		return false, fmt.Errorf("looking at the image %s: %w", image, err)
	}
	unpacked, err := stored.IsUnpacked(ctx, snapshotter)
	if err != nil {
		return false, fmt.Errorf("looking at the image %s: %w", image, err)
	}
	return unpacked && descriptor.Digest.String() == config, nil
}
