package agent

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// requestFile holds the request of the key beside it. A signature is made with chance:
// without the file, each start of the container would ask again.
const requestFile = "tls.csr"

// Modes of what is written: the directories hold private keys.
const (
	ownerOnly    = 0o600
	ownerOnlyDir = 0o700
)

// identity is what the agent has of one plane.
type identity struct {
	plane contract.Plane
	dir   string
	key   pki.PrivateKey
	// request is the value of the annotation that asks for a certificate.
	request string
	// chain is what etcd presents, leaf first; nil before the first answer.
	chain []*x509.Certificate
}

// loadIdentity reads the key, the request and the chain that an earlier container of the
// pod has left, and makes the key and the request when there are none. A key that cannot
// be read is an error, and not replaced: something else has damaged the volume.
func loadIdentity(plane contract.Plane, o Options) (*identity, error) {
	id := &identity{plane: plane, dir: o.dir(plane)}
	if err := os.MkdirAll(id.dir, ownerOnlyDir); err != nil {
		return nil, fmt.Errorf("making the directory of the %s plane: %w", plane, err)
	}
	if err := id.loadKey(o.Key); err != nil {
		return nil, err
	}
	if err := id.loadRequest(o.PodName); err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(id.path(contract.CertificateFile)); err == nil {
		// One that cannot be read is replaced by the operator's answer.
		id.chain, _ = pki.ParseChain(text)
	}
	return id, nil
}

func (id *identity) path(name string) string { return filepath.Join(id.dir, name) }

func (id *identity) loadKey(params pki.KeyParams) error {
	text, err := os.ReadFile(id.path(contract.KeyFile))
	switch {
	case err == nil:
		if id.key, err = pki.ParsePrivateKey(text); err != nil {
			return fmt.Errorf("reading the key of the %s plane: %w: delete the pod to have another made", id.plane, err)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("reading the key of the %s plane: %w", id.plane, err)
	}
	if id.key, err = pki.GenerateKey(params); err != nil {
		return fmt.Errorf("making the key of the %s plane: %w", id.plane, err)
	}
	return id.write(contract.KeyFile, id.key.PEM())
}

func (id *identity) loadRequest(podName string) error {
	subject := pki.Subject{CommonName: podName}
	text, err := os.ReadFile(id.path(requestFile))
	if err != nil || !id.asked(text, subject) {
		if text, err = pki.NewRequest(id.key, subject, pki.SANs{}); err != nil {
			return err
		}
		if err := id.write(requestFile, text); err != nil {
			return err
		}
	}
	id.request = base64.StdEncoding.EncodeToString(text)
	return nil
}

// asked reports whether the text is a request for the key under the subject.
func (id *identity) asked(text []byte, subject pki.Subject) bool {
	request, err := pki.ParseRequest(text)
	if err != nil || pki.CheckRequest(request, subject, pki.SANs{}) != nil {
		return false
	}
	public, ok := id.key.Signer().Public().(interface{ Equal(x crypto.PublicKey) bool })
	return ok && public.Equal(request.PublicKey)
}

// present puts the chain where etcd reads it at its next handshake. The key stays: what
// etcd reads of both files at any moment fits together.
func (id *identity) present(chain []*x509.Certificate) error {
	if err := id.write(contract.CertificateFile, pki.EncodeBundle(chain...)); err != nil {
		return err
	}
	id.chain = chain
	return nil
}

// trust puts the anchors where etcd reads them when it starts.
func (id *identity) trust(anchors []*x509.Certificate) error {
	return id.write(contract.AnchorsFile, pki.EncodeBundle(anchors...))
}

// write gives a file of the plane another content, whole or not at all.
func (id *identity) write(name string, data []byte) error {
	path := id.path(name)
	if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, data) {
		return nil
	}
	next := path + ".next"
	if err := os.WriteFile(next, data, ownerOnly); err != nil {
		return fmt.Errorf("writing %s of the %s plane: %w", name, id.plane, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("writing %s of the %s plane: %w", name, id.plane, err)
	}
	return nil
}

// certificate is the identity as crypto/tls wants it.
func (id *identity) certificate() tls.Certificate {
	certificate := tls.Certificate{PrivateKey: id.key.Signer(), Leaf: id.chain[0]}
	for _, c := range id.chain {
		certificate.Certificate = append(certificate.Certificate, c.Raw)
	}
	return certificate
}
