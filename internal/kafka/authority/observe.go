package authority

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
)

// observed is what the Secrets of a generated authority mean.
type observed struct {
	// key is zero when the key Secret is not there.
	key pki.PrivateKey
	// cert is nil when there is no certificate.
	cert *x509.Certificate
	// pending is the certificate of a replacement that was started, or nil.
	pending *x509.Certificate
	// trusted are the anchors that pods mount.
	trusted  []*x509.Certificate
	certGen  Generation
	keyGen   Generation
	warnings []string
}

// observe reads the Secrets of a generated authority. It reports all problems
// together.
func observe(in Input) (observed, []Problem) {
	var o observed
	var problems []Problem
	report := func(p *Problem) {
		if p != nil {
			problems = append(problems, *p)
		}
	}
	report(o.readKey(in))
	report(o.readCert(in))
	report(o.readGenerations(in))
	o.readTrusted(in)
	if len(problems) == 0 {
		report(o.checkPair(in))
	}
	if len(problems) == 0 {
		report(o.checkKnown(in))
	}
	return o, problems
}

func (o *observed) readKey(in Input) *Problem {
	if !in.KeySecret.Exists {
		return nil
	}
	data, found := in.KeySecret.Data[KeyKey]
	if !found || len(data) == 0 {
		return &Problem{
			Object: in.keyObject(), Wrong: "the key " + KeyKey + " is missing",
			Remedy: "put the private key of the CA back, or delete the whole Secret if the key is lost: Keyturn then replaces it",
		}
	}
	key, err := pki.ParsePrivateKey(data)
	if err != nil {
		return &Problem{
			Object: in.keyObject(), Wrong: KeyKey + ": " + err.Error(),
			Remedy: "put the private key of the CA back as unencrypted PKCS#8",
		}
	}
	o.key = key
	if pending, err := pki.ParseCertificate(in.KeySecret.Data[PendingCertKey]); err == nil {
		o.pending = pending
	}
	return nil
}

func (o *observed) readCert(in Input) *Problem {
	data := in.CertSecret.Data[CertKey]
	if !in.CertSecret.Exists || len(data) == 0 {
		return nil
	}
	certs, err := pki.ParseBundle(data)
	if err != nil {
		return &Problem{
			Object: in.certObject(), Wrong: CertKey + ": " + err.Error(),
			Remedy: "put the CA certificate back, or remove " + CertKey + " from the Secret: Keyturn then makes it anew from the same key",
		}
	}
	if len(certs) > 1 {
		return &Problem{
			Object: in.certObject(), Wrong: fmt.Sprintf("%s holds %d certificates, but a generated CA has one", CertKey, len(certs)),
			Remedy: "leave only the certificate that belongs to " + KeyKey + ", or set " + in.Kind.field() + ".generateCertificateAuthority to false to use a chain of your own",
		}
	}
	if err := pki.CheckCA(certs[0]); err != nil {
		return &Problem{
			Object: in.certObject(), Wrong: CertKey + ": " + err.Error(),
			Remedy: "put the CA certificate back",
		}
	}
	o.cert = certs[0]
	return nil
}

func (o *observed) readGenerations(in Input) *Problem {
	certGen, certFound, err := in.CertSecret.generation(CertGenerationAnnotation)
	if err != nil {
		return generationProblem(in.certObject(), err)
	}
	keyGen, keyFound, err := in.KeySecret.generation(KeyGenerationAnnotation)
	if err != nil {
		return generationProblem(in.keyObject(), err)
	}
	if o.cert != nil && !certFound {
		o.warnings = append(o.warnings, missingGeneration(in.certObject(), CertGenerationAnnotation))
	}
	if !o.key.IsZero() && !keyFound {
		o.warnings = append(o.warnings, missingGeneration(in.keyObject(), KeyGenerationAnnotation))
	}
	if len(in.Evidence.Dependants) > 0 {
		certGen = max(certGen, in.Evidence.CertGeneration)
		keyGen = max(keyGen, in.Evidence.KeyGeneration)
	}
	o.certGen, o.keyGen = certGen, keyGen
	return nil
}

func missingGeneration(object, annotation string) string {
	return object + " has no annotation " + annotation + ": it counts as 0"
}

func generationProblem(object string, err error) *Problem {
	return &Problem{Object: object, Wrong: err.Error(), Remedy: "set it to the number it had, which grows by one with each change"}
}

// readTrusted reads what pods mount. Damaged entries say nothing about the
// authority and are left to DecideTrust.
func (o *observed) readTrusted(in Input) {
	for _, key := range sortedKeys(in.TrustedCerts.Data) {
		if !strings.HasSuffix(key, certSuffix) {
			continue
		}
		if cert, err := pki.ParseCertificate(in.TrustedCerts.Data[key]); err == nil {
			o.trusted = append(o.trusted, cert)
		}
	}
}

func (o *observed) checkPair(in Input) *Problem {
	if o.key.IsZero() || o.cert == nil || o.key.Matches(o.cert) || o.replacementStarted() {
		return nil
	}
	return &Problem{
		Object: in.certObject(), Wrong: CertKey + " does not belong to " + KeyKey + " of " + in.keyObject(),
		Remedy: "put back the certificate and the key that belong together",
	}
}

// replacementStarted tells the crash between the writes of a replacement from a
// pair that somebody mixed up: the key Secret then says which certificate its
// key is going to have.
func (o *observed) replacementStarted() bool {
	return o.pending != nil && o.key.Matches(o.pending)
}

// checkKnown refuses a pair that fits together but is not the one that runs:
// taking it over would cut off every peer at once.
func (o *observed) checkKnown(in Input) *Problem {
	if o.key.IsZero() || len(o.trusted) == 0 || len(in.Evidence.Dependants) == 0 {
		return nil
	}
	known := append(slices.Clone(o.trusted), o.pendingList()...)
	if slices.ContainsFunc(known, o.key.Matches) || o.retainsTrusted(in) {
		return nil
	}
	return &Problem{
		Object: in.keyObject(), Wrong: "it holds the key of a foreign CA: no anchor that the cluster trusts has this key",
		Remedy: "put back the CA of the cluster; to get a new key, annotate Secret " + in.Kind.KeySecret(in.Cluster) + " with " + ForceReplaceAnnotation + "=true; to use a CA of your own, set " + in.Kind.field() + ".generateCertificateAuthority to false",
	}
}

func (o *observed) pendingList() []*x509.Certificate {
	if o.pending == nil {
		return nil
	}
	return []*x509.Certificate{o.pending}
}

// retainsTrusted tells whether the certificate Secret still keeps a trusted
// anchor under a dated name, as a replacement leaves it.
func (o *observed) retainsTrusted(in Input) bool {
	for _, cert := range retainedIn(in.CertSecret.Data) {
		key := pki.KeyIDOf(cert)
		if slices.ContainsFunc(o.trusted, func(t *x509.Certificate) bool { return pki.KeyIDOf(t) == key }) {
			return true
		}
	}
	return false
}
