package authority

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
)

// Ignored names the entries of the certificate Secret that nodes do not trust although a person may think
// so. It says what each is, why it counts for nothing, and what to do, sorted by entry. Entries that
// cannot be read are rejected elsewhere.
func Ignored(in Input) []Remark {
	var remarks []Remark
	issuing, _ := pki.FirstCertificate(in.CertSecret.Data[CertKey])
	for _, entry := range sortedKeys(in.CertSecret.Data) {
		if slices.Contains([]string{CertKey, StoreKey, PasswordKey}, entry) {
			continue
		}
		cert, err := pki.FirstCertificate(in.CertSecret.Data[entry])
		if err != nil || issuing != nil && sameCertificate(cert, issuing) {
			continue
		}
		if why := ignored(in, entry, cert); why != "" {
			remarks = append(remarks, Remark{
				Secret: in.Names.CertSecret, Part: entryPart(entry),
				Text: fmt.Sprintf("nodes do not trust %q of entry %s, because %s", cert.Subject, entry, why),
			})
		}
	}
	return remarks
}

// ignored says why nodes do not trust what an entry holds, and what can be done; nothing
// of an entry that counts. What Keyturn does not keep in a Secret of its own is gone with
// the next write.
func ignored(in Input, entry string, cert *x509.Certificate) string {
	named, own := strings.HasSuffix(entry, certSuffix), in.Spec.Source != UserProvided
	switch {
	case own && (!named || IsDatedCertKey(entry) || !in.Now.Before(cert.NotAfter)):
		return ""
	case own:
		return "this CA is maintained by Keyturn, and other entries reach only applications: remove it" + in.ifOwnable(", or set %s to false to use your own CAs")
	case !in.Now.Before(cert.NotAfter):
		return "it expired at " + cert.NotAfter.UTC().Format(time.RFC3339) + ": remove it"
	case !named:
		return "only entries that end in " + certSuffix + " are read: rename it, or remove it"
	case IsDatedCertKey(entry):
		return ""
	}
	if err := pki.CheckCA(cert); err != nil {
		return "it is not a CA (" + err.Error() + "): remove it"
	}
	if in.Names.Holders == Users {
		return ""
	}
	return "in the Secret of your own cluster CA only " + CertKey + " and dated entries are used: rename it to " + DatedCertKey(cert) +
		" if nodes should trust it while they change over to " + CertKey + ", or remove it"
}
