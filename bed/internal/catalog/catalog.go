package catalog

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/keyturn/keyturn/bed/internal/build"
	"github.com/keyturn/keyturn/bed/internal/images"
	"github.com/keyturn/keyturn/bed/internal/node"
	"github.com/keyturn/keyturn/bed/internal/versions"
)

// Names of the images that the bed itself needs.
const (
	CoreDNS     = images.Prefix + "coredns:" + versions.CoreDNS
	CertManager = images.Prefix + "cert-manager:" + versions.CertManager
)

// nobody is the user of programs that need no right at all, as in the usual base images.
const nobody = "65532:65532"

// recipe describes how one image comes to be.
type recipe struct {
	name     string
	describe func(context.Context, build.Builder) (images.Image, error)
}

func recipes() []recipe {
	return []recipe{
		{node.PauseImage, pause},
		{CoreDNS, coreDNS},
		{CertManager, certManager},
		{images.Prefix + "etcd:" + versions.EtcdNew, etcd("etcd36")},
		{images.Prefix + "etcd:" + versions.EtcdOld, etcd("etcd35")},
		{images.Prefix + "kafka:" + versions.KafkaNew, kafka(versions.KafkaNew)},
		{images.Prefix + "kafka:" + versions.KafkaOld, kafka(versions.KafkaOld)},
	}
}

// All builds and packs every image that is not yet there and returns the archives.
func All(ctx context.Context, builder build.Builder) ([]string, error) {
	var archives []string
	for _, r := range recipes() {
		archive, err := r.make(ctx, builder)
		if err != nil {
			return nil, err
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// Kafka builds and packs the image of a version of Kafka and returns the archive.
func Kafka(ctx context.Context, builder build.Builder, version string) (string, error) {
	return recipe{images.Prefix + "kafka:" + version, kafka(version)}.make(ctx, builder)
}

func (r recipe) make(ctx context.Context, builder build.Builder) (string, error) {
	image, err := r.describe(ctx, builder)
	if err != nil {
		return "", fmt.Errorf("making the image %s: %w", r.name, err)
	}
	image.Name = r.name
	return pack(ctx, builder, image)
}

// pack keeps the archive under a key of the whole description; what the sources contain is told by their paths, which
// carry the keys of the steps that made them.
func pack(ctx context.Context, builder build.Builder, image images.Image) (string, error) {
	const archive = "image.tar"
	short := strings.NewReplacer("/", "-", ":", "-").Replace(strings.TrimPrefix(image.Name, images.Prefix))
	dir, err := builder.Do(ctx, build.Step{
		Name:   "image-" + short,
		Inputs: []string{fmt.Sprintf("%+v", image)},
		Make:   func(_ context.Context, dir string) error { return image.Pack(filepath.Join(dir, archive)) },
	})
	return filepath.Join(dir, archive), err
}

func pause(ctx context.Context, builder build.Builder) (images.Image, error) {
	dir, err := builder.Own(ctx, "pause")
	return images.Image{
		Layers:     [][]images.File{{images.Program("/pause", filepath.Join(dir, "pause"))}},
		Entrypoint: []string{"/pause"},
		User:       nobody,
	}, err
}

// coreDNS runs as root because it listens on port 53; its pod takes every other right away.
func coreDNS(ctx context.Context, builder build.Builder) (images.Image, error) {
	dir, err := builder.CoreDNS(ctx)
	return images.Image{
		Layers:     [][]images.File{{images.Program("/coredns", filepath.Join(dir, "coredns"))}},
		Entrypoint: []string{"/coredns"},
	}, err
}

func certManager(ctx context.Context, builder build.Builder) (images.Image, error) {
	dir, err := builder.CertManager(ctx)
	return images.Image{
		Layers:     [][]images.File{{images.Program("/certmanager", filepath.Join(dir, "certmanager")), images.Directory("/tmp", 0o777)}},
		Entrypoint: []string{"/certmanager"},
		User:       nobody,
	}, err
}

// etcd follows the official image: the three programs in /usr/local/bin, the data in /var/etcd or where flags say.
func etcd(part string) func(context.Context, build.Builder) (images.Image, error) {
	return func(ctx context.Context, builder build.Builder) (images.Image, error) {
		dir, err := builder.Etcd(ctx, part)
		const programs = "/usr/local/bin"
		files := []images.File{
			images.Program(programs+"/etcd", filepath.Join(dir, "etcd")),
			images.Program(programs+"/etcdctl", filepath.Join(dir, "etcdctl")),
			images.Program(programs+"/etcdutl", filepath.Join(dir, "etcdutl")),
			images.Directory("/var/etcd", 0o755),
			images.Directory("/var/lib/etcd", 0o755),
			images.Directory("/tmp", 0o777),
		}
		return images.Image{
			Layers:      [][]images.File{files},
			Entrypoint:  []string{"/usr/local/bin/etcd"},
			Environment: map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		}, err
	}
}

// Released is the operator's image for registries, under a name of their own.
func Released(programs, repository, tag string) images.Image {
	image := Keyturn(programs, tag)
	image.Name = repository + ":" + tag
	image.Labels = map[string]string{
		"org.opencontainers.image.title":    "keyturn",
		"org.opencontainers.image.version":  tag,
		"org.opencontainers.image.source":   "https://github.com/keyturn/keyturn",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	return image
}

// Keyturn packs the static programs of the operator and of the agent, which are in one folder.
func Keyturn(programs, tag string) images.Image {
	return images.Image{
		Name: images.Prefix + "keyturn:" + tag,
		Layers: [][]images.File{{
			images.Program("/keyturn", filepath.Join(programs, "keyturn")),
			images.Program("/keyturn-agent", filepath.Join(programs, "keyturn-agent")),
			images.Directory("/tmp", 0o777),
			images.Text("/etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nkeyturn:x:65532:65532:keyturn:/:/sbin/nologin\n"),
			images.Text("/etc/group", "root:x:0:\nkeyturn:x:65532:\n"),
		}},
		Entrypoint: []string{"/keyturn"},
		User:       nobody,
	}
}
