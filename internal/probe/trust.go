package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
)

// Kinds of client that the probe knows by name.
const (
	// KindPinned reads ca.crt at its start and never again.
	KindPinned = "pinned"
	// KindBundle re-reads ca.crt, all of its entries.
	KindBundle = "ca.crt"
	// KindFirst re-reads ca.crt and takes only its first entry, as many readers do.
	KindFirst = "ca.crt-first"
	// KindAll re-reads every key that ends in .crt.
	KindAll = "all-crt"
	// KindMTLS is KindAll with a client certificate that it keeps.
	KindMTLS = "mtls"
	// KindReissued is KindAll with a client certificate that is always one of the
	// authority that signs at the moment.
	KindReissued = "mtls-reissued"
	// KindSCRAM is KindAll with user and password.
	KindSCRAM = "scram"
	// KindPlain uses no TLS at all.
	KindPlain = "plain"
)

// Trust says which authorities a client accepts servers by, at this moment.
type Trust func(ctx context.Context) (*x509.CertPool, error)

// Credential is the certificate a client presents, at this moment.
type Credential func(ctx context.Context) (*tls.Certificate, error)

// Source is the content of a Secret with a version that changes with it.
type Source func(ctx context.Context) (data map[string][]byte, version string, err error)

// Choice picks, out of a Secret, the PEM texts that a client trusts.
type Choice func(data map[string][]byte) [][]byte

// Bundle takes every entry of ca.crt.
func Bundle(data map[string][]byte) [][]byte { return [][]byte{data["ca.crt"]} }

// First takes only the first entry of ca.crt.
func First(data map[string][]byte) [][]byte {
	block, _ := pem.Decode(data["ca.crt"])
	if block == nil {
		return nil
	}
	return [][]byte{pem.EncodeToMemory(block)}
}

// All takes every key that ends in .crt, in the order of the keys.
func All(data map[string][]byte) [][]byte {
	var keys []string
	for key := range data {
		if strings.HasSuffix(key, ".crt") {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	texts := make([][]byte, 0, len(keys))
	for _, key := range keys {
		texts = append(texts, data[key])
	}
	return texts
}

// errNoAuthority is trust without a certificate in it.
var errNoAuthority = errors.New("no certificate in it")

// Reread trusts what a Secret says at each dial; it parses only what changed.
func Reread(source Source, choose Choice) Trust {
	var (
		mu      sync.Mutex
		pool    *x509.CertPool
		current string
	)
	return func(ctx context.Context) (*x509.CertPool, error) {
		data, version, err := source(ctx)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if pool != nil && version == current {
			return pool, nil
		}
		fresh, err := poolOf(choose(data))
		if err != nil {
			return nil, err
		}
		pool, current = fresh, version
		return pool, nil
	}
}

// Pin reads a Secret now and trusts that for ever.
func Pin(ctx context.Context, source Source, choose Choice) (Trust, error) {
	data, _, err := source(ctx)
	if err != nil {
		return nil, err
	}
	return Fixed(choose(data)...)
}

// Fixed trusts the certificates of some PEM texts, whatever the cluster says.
func Fixed(texts ...[]byte) (Trust, error) {
	pool, err := poolOf(texts)
	if err != nil {
		return nil, err
	}
	return func(context.Context) (*x509.CertPool, error) { return pool, nil }, nil
}

func poolOf(texts [][]byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	found := false
	for _, text := range texts {
		found = pool.AppendCertsFromPEM(text) || found
	}
	if !found {
		return nil, errNoAuthority
	}
	return pool, nil
}

// Present presents one certificate for ever, given as PEM chain and key.
func Present(chain, key []byte) (Credential, error) {
	certificate, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("reading client certificate: %w", err)
	}
	return func(context.Context) (*tls.Certificate, error) { return &certificate, nil }, nil
}

// PresentFrom presents what a Secret holds under two keys at each dial, as a
// client does whose certificate is renewed for it.
func PresentFrom(source Source, chainKey, keyKey string) Credential {
	var (
		mu          sync.Mutex
		certificate *tls.Certificate
		current     string
	)
	return func(ctx context.Context) (*tls.Certificate, error) {
		data, version, err := source(ctx)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if certificate != nil && version == current {
			return certificate, nil
		}
		fresh, err := tls.X509KeyPair(data[chainKey], data[keyKey])
		if err != nil {
			return nil, fmt.Errorf("reading client certificate of %s and %s: %w", chainKey, keyKey, err)
		}
		certificate, current = &fresh, version
		return certificate, nil
	}
}
