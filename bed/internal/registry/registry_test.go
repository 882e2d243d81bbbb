package registry

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/keyturn/keyturn/bed/internal/images"
)

func TestAnImageIsPulledWithThePasswordAlone(t *testing.T) {
	t.Parallel()
	archive := filepath.Join(t.TempDir(), "image.tar")
	image := images.Image{Name: images.Prefix + "example:1", Layers: [][]images.File{{images.Text("/etc/example", "x")}}}
	if err := image.Pack(archive); err != nil {
		t.Fatal(err)
	}
	private := New(t.TempDir(), "below")
	if err := private.Add(archive); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(private)
	defer server.Close()
	reference, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/below/example:1")
	if err != nil {
		t.Fatal(err)
	}

	for password, isServed := range map[string]bool{private.password: true, "another": false} {
		_, err := remote.Image(reference, remote.WithAuth(&authn.Basic{Username: user, Password: password}))
		if (err == nil) != isServed {
			t.Errorf("served: %t, want %t (%v)", err == nil, isServed, err)
		}
	}
	if _, err := remote.Image(reference); err == nil {
		t.Error("the image is served without a password")
	}
}

func TestTheCredentialsAreThoseOfTheRegistry(t *testing.T) {
	t.Parallel()
	private := New(t.TempDir(), "below")
	text, err := private.DockerConfig()
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	if got := config.Auths[Address]; got.Username != user || got.Password != private.password {
		t.Errorf("the credentials are %+v", got)
	}
}
