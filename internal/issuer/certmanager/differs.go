package certmanager

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// Differs says in what a leaf is not what was requested, and why that may be; nothing when it is. A life shorter than
// requested is no difference, see [issuer.Request.Shortfall].
func Differs(request issuer.Request, leaf *x509.Certificate) string {
	var differences []string
	for _, difference := range []string{
		subjectDiffers(request.Subject, leaf), namesDiffer(request.SANs, leaf), usagesDiffer(request.Usages, leaf), keyDiffers(request.Key, leaf),
	} {
		if difference != "" {
			differences = append(differences, difference)
		}
	}
	return strings.Join(differences, "; ")
}

func subjectDiffers(wanted pki.Subject, leaf *x509.Certificate) string {
	if pki.HasSubject(leaf, wanted) {
		return ""
	}
	cause := "the policy of the issuer sets another subject"
	switch {
	case len(leaf.Subject.Names) == 0:
		cause = "ACME issuers drop the subject and cannot be used here"
	case wanted.Organization != "" && len(leaf.Subject.Organization) == 0:
		cause = "a Vault role drops the organization unless its field organization sets it"
	}
	return fmt.Sprintf("its subject is %q, requested was %q (%s)", leaf.Subject, wanted, cause)
}

func namesDiffer(wanted pki.SANs, leaf *x509.Certificate) string {
	have := pki.SANsOf(leaf)
	var parts []string
	if lacking := have.Lacks(wanted); len(lacking) > 0 {
		parts = append(parts, fmt.Sprintf("it lacks the names %q (a Vault role drops names unless allowed_domains and use_csr_sans allow them)", lacking))
	}
	if more := wanted.Lacks(have); len(more) > 0 {
		parts = append(parts, fmt.Sprintf("it has the names %q that were not requested", more))
	}
	if count := generalNames(leaf) - len(leaf.DNSNames) - len(leaf.IPAddresses); count != 0 {
		parts = append(parts, fmt.Sprintf("it has %d e-mail addresses, URIs or other names that were not requested", count))
	}
	return strings.Join(parts, "; ")
}

// generalNames counts subject alternative names of all kinds, also of those that crypto/x509 leaves out.
func generalNames(leaf *x509.Certificate) int {
	for i := range leaf.Extensions {
		if !leaf.Extensions[i].Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		var names []asn1.RawValue
		if _, err := asn1.Unmarshal(leaf.Extensions[i].Value, &names); err == nil {
			return len(names)
		}
	}
	return 0
}

func usagesDiffer(wanted []pki.Usage, leaf *x509.Certificate) string {
	have, want := usagesOf(leaf), make([]string, 0, len(wanted))
	for _, usage := range wanted {
		want = append(want, string(usage))
	}
	slices.Sort(have)
	slices.Sort(want)
	switch {
	case leaf.IsCA || leaf.KeyUsage&x509.KeyUsageCertSign != 0:
		return "it is a CA certificate (the issuer must issue leaves)"
	case leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return "its key must not sign, which TLS 1.3 needs (the issuer must allow the usage digital signature)"
	case !slices.Equal(slices.Compact(have), slices.Compact(want)):
		return fmt.Sprintf("its usages are %q, requested were %q (a Vault role sets them with server_flag and client_flag)", have, want)
	default:
		return ""
	}
}

func usagesOf(leaf *x509.Certificate) []string {
	var usages []string
	for _, usage := range leaf.ExtKeyUsage {
		switch usage {
		case x509.ExtKeyUsageServerAuth:
			usages = append(usages, string(pki.ServerAuth))
		case x509.ExtKeyUsageClientAuth:
			usages = append(usages, string(pki.ClientAuth))
		default:
			usages = append(usages, fmt.Sprintf("usage %d", usage))
		}
	}
	for _, usage := range leaf.UnknownExtKeyUsage {
		usages = append(usages, usage.String())
	}
	return usages
}

func keyDiffers(wanted pki.KeyParams, leaf *x509.Certificate) string {
	have := pki.KeyParams{}
	switch public := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		have = pki.KeyParams{Algorithm: pki.RSA, Size: public.N.BitLen()}
	case *ecdsa.PublicKey:
		have = pki.KeyParams{Algorithm: pki.ECDSA, Size: public.Curve.Params().BitSize}
	}
	if have == wanted {
		return ""
	}
	return fmt.Sprintf("its key is %s, requested was %s (a policy changes privateKey of the Certificate)", have, wanted)
}
