package stores

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// StoreType is the type of all stores, in Kafka's words.
const StoreType = "PEM"

// nameDigits is how much of a digest stands in a file name: enough that no two
// stores of a node ever share a name.
const nameDigits = 32

// Kind is one of the two stores of a listener.
type Kind struct {
	file, setting string
}

// KeyStore holds what a listener presents, with the private key.
func KeyStore() Kind { return Kind{file: "key", setting: "keystore"} }

// TrustStore holds the anchors that a listener accepts peers by.
func TrustStore() Kind { return Kind{file: "trust", setting: "truststore"} }

// Kinds are both stores of a listener.
func Kinds() []Kind { return []Kind{KeyStore(), TrustStore()} }

// LocationSetting is the name of the setting that says where the store is.
func (k Kind) LocationSetting(l publication.Role) string {
	return fmt.Sprintf("listener.name.%s.ssl.%s.location", l, k.setting)
}

// TypeSetting is the name of the setting that says in which form the store is.
func (k Kind) TypeSetting(l publication.Role) string {
	return fmt.Sprintf("listener.name.%s.ssl.%s.type", l, k.setting)
}

// Slot names one of the two files that a store is reloaded from in turn: the one
// that the server has not set is free to be written. Their names never change,
// so that a server finds the file that its metadata names after every start.
type Slot string

// Slots are both slots of a store.
func Slots() []Slot { return []Slot{"a", "b"} }

// Slot is the name of the file of a listener's store in a slot.
func (k Kind) Slot(l publication.Role, slot Slot) string {
	return fmt.Sprintf("%s-%s-%s.pem", l, k.file, slot)
}

// Loadable is the listener without what Kafka cannot load with its leaf: a key
// store holds one chain, in which each certificate is followed by one with its
// issuer's name, and none stands twice (the JDK's PKCS12KeyStore.validateChain).
// A server that was started with another would end at once.
func (l Listener) Loadable() Listener {
	chain := l.Identity.Chain
	end := min(1, len(chain))
	for end < len(chain) && bytes.Equal(chain[end-1].RawIssuer, chain[end].RawSubject) &&
		!slices.ContainsFunc(chain[:end], chain[end].Equal) {
		end++
	}
	l.Identity.Chain = chain[:end]
	return l
}

// File is the name of the file that the server is started with. It follows from
// the certificates in it.
func (l Listener) File(k Kind) string {
	return fmt.Sprintf("%s-%s-%s.pem", l.Name, k.file, digest(l.Certificates(k)))
}

// Certificates are those in the store, in their order.
func (l Listener) Certificates(k Kind) []*x509.Certificate {
	if k == KeyStore() {
		return l.Identity.Chain
	}
	return l.Trusts
}

// PEM is the content of the store. That of a key store holds the private key.
func (l Listener) PEM(k Kind) []byte {
	bundle := pki.EncodeBundle(l.Certificates(k)...)
	if k == KeyStore() {
		return slices.Concat(l.Identity.Key.PEM(), bundle)
	}
	return bundle
}

func digest(certs []*x509.Certificate) string {
	sum := sha256.New()
	for _, cert := range certs {
		fingerprint := pki.FingerprintOf(cert)
		sum.Write(fingerprint[:])
	}
	return hex.EncodeToString(sum.Sum(nil))[:nameDigits]
}
