package authority

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"

	"github.com/keyturn/keyturn/internal/pki"
)

// Strategy says how those who trust only the outgoing authority get on while its
// key is replaced.
type Strategy string

// The strategies there are.
const (
	// CrossSigned: the outgoing key signs the incoming one, and nodes present the
	// cross certificate with each leaf.
	CrossSigned Strategy = "CrossSigned"
	// Classic: trust in the incoming authority has to reach everybody first.
	Classic Strategy = "Classic"
)

// Replacement is an authority that is going to take the place of another.
type Replacement struct {
	Incoming pki.Authority
	// Cross is nil with Classic.
	Cross    *x509.Certificate
	Strategy Strategy
	// Reason says why the strategy was chosen.
	Reason string
	// Key is the key Secret with the incoming key, its certificate and the cross
	// certificate under their pending names: all of them, or none, are written.
	Key Desired
}

// PrepareReplacement makes the authority that replaces the present one, under
// the next key generation. It changes nothing that is in use.
func PrepareReplacement(in Input, present Decision) (Replacement, error) {
	if in.Spec.Source == UserProvided || present.Authority.IsZero() {
		return Replacement{}, fmt.Errorf("replacing the key of the %s of %s: its key is not Keyturn's to replace", in.Kind, in.Cluster)
	}
	incoming, err := pki.NewCA(pki.CASpec{
		Subject:  in.Kind.subject(present.KeyGeneration + 1),
		Key:      in.Spec.CAKey(),
		Validity: in.Spec.Validity(),
		Now:      in.Now,
	})
	if err != nil {
		return Replacement{}, fmt.Errorf("replacing the key of the %s of %s: %w", in.Kind, in.Cluster, err)
	}
	r := Replacement{Incoming: incoming}
	r.Strategy, r.Reason = chooseStrategy(in, present)
	data := maps.Clone(present.Key.Data)
	data[PendingKeyKey] = incoming.Key().PEM()
	data[PendingCertKey] = pki.EncodeBundle(incoming.Certificate())
	if r.Strategy == CrossSigned {
		if r.Cross, err = pki.CrossSign(present.Authority, incoming.Certificate(), in.Now); err != nil {
			return Replacement{}, fmt.Errorf("replacing the key of the %s of %s: %w", in.Kind, in.Cluster, err)
		}
		if r.Incoming, err = pki.NewAuthority(incoming.Certificate(), incoming.Key(), r.Cross); err != nil {
			return Replacement{}, fmt.Errorf("replacing the key of the %s of %s: %w", in.Kind, in.Cluster, err)
		}
		data[PendingCrossKey] = pki.EncodeBundle(r.Cross)
	}
	r.Key = Desired{Ours: true, Data: data, Annotations: present.Key.Annotations, RemoveAnnotations: present.Key.RemoveAnnotations}
	return r, nil
}

// chooseStrategy allows cross-signing only when every unexpired certificate that
// is known for the outgoing key can carry another CA below it.
func chooseStrategy(in Input, present Decision) (Strategy, string) {
	published := []*x509.Certificate{present.Certificate}
	for _, anchor := range StoredAnchors(in.TrustedCerts) {
		if present.Authority.Key().Matches(anchor.Certificate) {
			published = append(published, anchor.Certificate)
		}
	}
	for _, cert := range published {
		if in.Now.Before(cert.NotAfter) && !pki.CanCrossSign(cert) {
			return Classic, fmt.Sprintf("certificate %s of the outgoing key has path length 0 and is valid until %s", pki.FingerprintOf(cert), cert.NotAfter.UTC().Format(datedLayout))
		}
	}
	if !in.Now.Before(present.Certificate.NotAfter) {
		return Classic, "the outgoing certificate has expired"
	}
	return CrossSigned, "every certificate of the outgoing key can sign its successor"
}

// ReadReplacement returns a replacement that a key Secret holds under its pending
// names, and false when there is none. Half a replacement is an error: it is
// written at once or not at all.
func ReadReplacement(stored Stored) (Replacement, bool, error) {
	keyText, certText := stored.Data[PendingKeyKey], stored.Data[PendingCertKey]
	if len(keyText) == 0 {
		return Replacement{}, false, nil
	}
	if len(certText) == 0 {
		return Replacement{}, false, errors.New("reading a pending replacement: " + PendingKeyKey + " is there without " + PendingCertKey)
	}
	key, err := pki.ParsePrivateKey(keyText)
	if err != nil {
		return Replacement{}, false, fmt.Errorf("reading %s: %w", PendingKeyKey, err)
	}
	cert, err := pki.ParseCertificate(certText)
	if err != nil {
		return Replacement{}, false, fmt.Errorf("reading %s: %w", PendingCertKey, err)
	}
	r := Replacement{Strategy: Classic, Reason: "there is no " + PendingCrossKey}
	var presents []*x509.Certificate
	if crossText := stored.Data[PendingCrossKey]; len(crossText) > 0 {
		if r.Cross, err = pki.ParseCertificate(crossText); err != nil {
			return Replacement{}, false, fmt.Errorf("reading %s: %w", PendingCrossKey, err)
		}
		r.Strategy, r.Reason = CrossSigned, PendingCrossKey+" is there"
		presents = append(presents, r.Cross)
	}
	if r.Incoming, err = pki.NewAuthority(cert, key, presents...); err != nil {
		return Replacement{}, false, fmt.Errorf("reading a pending replacement: %w", err)
	}
	return r, true, nil
}
