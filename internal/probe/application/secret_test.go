package application

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// secret is the content of a Secret as the access operator writes it.
type secret map[string]string

// with is the Secret with other values; an empty one takes a key away.
func (s secret) with(values secret) secret {
	changed := maps.Clone(s)
	for name, value := range values {
		changed[name] = value
		if value == "" {
			delete(changed, name)
		}
	}
	return changed
}

func makeCA(t *testing.T, commonName string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: commonName}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 24 * time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// issue returns a certificate and its key as PEM.
func issue(t *testing.T, ca pki.Authority, commonName string, usage pki.Usage, names ...string) (certificate, key string) {
	t.Helper()
	private, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	sans, err := pki.NewSANs(names...)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(private.Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: commonName}, SANs: sans, Usages: []pki.Usage{usage}, Validity: time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeBundle(leaf)), string(private.PEM())
}

// mutual is the Secret of a user with a certificate.
func mutual(t *testing.T, trusted, signer pki.Authority, addresses string) secret {
	t.Helper()
	certificate, key := issue(t, signer, "my-user", pki.ClientAuth)
	return secret{
		fileBootstrap: addresses, fileProtocol: protocolTLS, fileTruststore: string(pki.EncodeBundle(trusted.Certificate())),
		fileKeystore: certificate, fileKey: key,
	}
}

// write writes files into a directory.
func (s secret) write(t *testing.T, directory string) {
	t.Helper()
	if err := os.MkdirAll(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range s {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// mount puts the Secret where a kubelet would: the files of each version lie in a
// directory of their own, and one link leads to the present one.
func (s secret) mount(t *testing.T, directory, version string) {
	t.Helper()
	s.write(t, filepath.Join(directory, version))
	before, _ := os.Readlink(filepath.Join(directory, current))
	next := filepath.Join(directory, "..data_tmp")
	if err := os.Symlink(version, next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(directory, current)); err != nil {
		t.Fatal(err)
	}
	for name := range s {
		link := filepath.Join(directory, name)
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join(current, name), link); err != nil {
			t.Fatal(err)
		}
	}
	if before != "" && before != version {
		if err := os.RemoveAll(filepath.Join(directory, before)); err != nil {
			t.Fatal(err)
		}
	}
}
