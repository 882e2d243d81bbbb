package registry

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/keyturn/keyturn/bed/internal/images"
)

// Address is where the node finds the registry: containerd talks to its own machine without TLS.
const Address = "localhost:5000"

const user = "bed"

// Registry has images, and a password of its own.
type Registry struct {
	images   http.Handler
	under    string
	password string
}

// New makes a registry that keeps its images in a folder. Its images have names below a path.
func New(folder, under string) Registry {
	return Registry{registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(folder))), under, rand.Text()}
}

// Add takes the image of an archive, under its name with Address and the path in place of images.Prefix.
func (r Registry) Add(archive string) error {
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return fmt.Errorf("reading the image archive %s: %w", archive, err)
	}
	tag, err := images.NameIn(archive)
	if err != nil {
		return err
	}
	server := httptest.NewServer(r.images) // on loopback, and only for as long as it takes
	defer server.Close()
	reference, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/" + r.under + "/" + strings.TrimPrefix(tag, images.Prefix))
	if err != nil {
		return fmt.Errorf("naming the image %s: %w", tag, err)
	}
	if err := remote.Write(reference, image); err != nil {
		return fmt.Errorf("adding the image %s: %w", tag, err)
	}
	return nil
}

// ServeHTTP serves requests with the password.
func (r Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	name, password, _ := request.BasicAuth()
	if name != user || subtle.ConstantTimeCompare([]byte(password), []byte(r.password)) != 1 {
		w.Header().Set("WWW-Authenticate", `Basic realm="bed"`)
		http.Error(w, "the registry requires a password", http.StatusUnauthorized)
		return
	}
	r.images.ServeHTTP(w, request)
}

// DockerConfig is what a Secret of the type kubernetes.io/dockerconfigjson has.
func (r Registry) DockerConfig() ([]byte, error) {
	return json.Marshal(map[string]any{"auths": map[string]any{
		Address: map[string]string{"username": user, "password": r.password},
	}})
}
