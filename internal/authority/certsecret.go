package authority

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
)

// settleCertSecret is a function of who is present and what the plan publishes,
// so that a crash before this write leaves nothing to remember.
func (w *writer) settleCertSecret() error {
	stored := w.in.CertSecret.Data
	if w.beginning {
		stored = nil
	}
	bundle := w.application()
	data := map[string][]byte{CertKey: keepText(stored[CertKey], bundle...)}
	for _, cert := range bundle {
		if key := DatedCertKey(cert); w.isOutgoing(cert) && data[key] == nil {
			data[key] = keepFirst(stored[key], cert)
		}
	}
	entries := trustEntries(bundle)
	for _, key := range w.addedKeys(stored) {
		cert, err := pki.FirstCertificate(stored[key])
		if err != nil || w.in.Now.After(cert.NotAfter) {
			continue
		}
		data[key] = stored[key]
		if !contains(bundle, cert) {
			entries = append(entries, pki.TrustEntry{Alias: key, Certificate: cert})
		}
	}
	keepForeignStores(data, stored)
	if w.in.Stores == WithStores {
		store, password, err := keepStore(stored, entries)
		if err != nil {
			return w.storeProblem(err)
		}
		data[StoreKey], data[PasswordKey] = store, password
	}
	w.noteRemoved(stored, data, bundle)
	w.out.Cert = Desired{
		Ours:        true,
		Data:        data,
		Annotations: map[string]string{w.in.Names.CertGeneration: w.out.CertGeneration.String()},
	}
	w.out.Cert.settleRequests(w.in.Names, w.in.CertSecret, requestState{annotation: w.in.Names.ForceRenew, open: w.waits(RenewAct)})
	if _, copied := w.in.CertSecret.Annotations[w.in.Names.CertHash]; copied { // from the issuer before
		w.out.Cert.RemoveAnnotations = append(w.out.Cert.RemoveAnnotations, w.in.Names.CertHash)
	}
	return nil
}

// application is what the plan publishes. The present certificate is in it
// whatever the plan says: it is what the next decision knows ca.key by.
func (w *writer) application() []*x509.Certificate {
	bundle := w.plan.Application
	if contains(bundle, w.out.Certificate) || w.out.Authority.IsZero() && len(bundle) > 0 {
		return bundle
	}
	return append(slices.Clip(bundle), w.out.Certificate)
}

// isOutgoing tells whether a certificate that is still published is filed under
// its dated name: it belongs to another key than the present and the pending one.
func (w *writer) isOutgoing(cert *x509.Certificate) bool {
	key := pki.KeyIDOf(cert)
	isPending := w.pending != nil && w.pending.Incoming.Key().ID() == key
	return key != pki.KeyIDOf(w.out.Certificate) && !isPending && w.in.Now.Before(cert.NotAfter)
}

// addedKeys lists the certificate entries that a person added, sorted.
func (w *writer) addedKeys(stored map[string][]byte) []string {
	var keys []string
	for _, key := range sortedKeys(stored) {
		if key != CertKey && strings.HasSuffix(key, certSuffix) && !IsDatedCertKey(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// noteRemoved tells about filed certificates that go, unless they are present
// again.
func (w *writer) noteRemoved(stored, data map[string][]byte, bundle []*x509.Certificate) {
	for _, cert := range w.o.bundle {
		if !w.beginning && !contains(bundle, cert) && w.o.isStranger(cert) && !sameCertificate(cert, w.d.Certificate) {
			w.note(OldRemoved, cert, "it was added to "+CertKey+" by hand, and its purpose is unknown")
		}
	}
	for _, key := range sortedKeys(datedIn(stored)) {
		cert := w.o.dated[key]
		switch {
		case data[key] != nil:
		case w.in.Now.After(cert.NotAfter):
			w.note(OldRemoved, cert, key+" has expired")
		case !contains(bundle, cert):
			w.note(OldRemoved, cert, key+" is no longer needed")
		}
	}
}

// trustEntries names the entries of a PKCS#12 store: the leading certificate as in
// the Secret, others by their end, as those that are retired are named there.
func trustEntries(bundle []*x509.Certificate) []pki.TrustEntry {
	entries := make([]pki.TrustEntry, 0, len(bundle))
	taken := map[string]bool{}
	for i, cert := range bundle {
		alias := DatedCertKey(cert)
		switch {
		case i == 0:
			alias = CertKey
		case taken[alias]:
			alias = pki.SHA1Name(cert) + certSuffix
		}
		taken[alias] = true
		entries = append(entries, pki.TrustEntry{Alias: alias, Certificate: cert})
	}
	return entries
}

// keepFirst returns a stored text while its first certificate is this one.
func keepFirst(stored []byte, cert *x509.Certificate) []byte {
	if first, err := pki.FirstCertificate(stored); err == nil && sameCertificate(first, cert) {
		return stored
	}
	return pki.EncodeBundle(cert)
}

// storeProblem: a person may have put a password there that no store can have.
func (w *writer) storeProblem(err error) error {
	return invalid(Problem{
		Object: w.in.certObject(), Wrong: fmt.Sprintf("%s: %s", StoreKey, err),
		Remedy: "remove " + PasswordKey + " from the Secret: Keyturn then makes a new one",
	})
}
