package authority

import (
	"crypto/x509"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/pki"
)

// Names are the names of an authority and of everything about it. The operator of its servers passes them
// in.
type Names struct {
	// Authority tells it from the other authorities of its cluster, for example "peer-ca".
	// It is the common name of its certificates but for the generation of the key.
	Authority string
	// Cluster is whose authority it is.
	Cluster string
	// Holders says which kind of holders it signs for.
	Holders Holders
	// Organization is that of its subject.
	Organization string
	// Leaf is the subject of what it signs for members, or that of any user.
	Leaf pki.Subject
	// KeySecret has the private key, CertSecret the certificate, which applications
	// read, and TrustedCertsSecret the anchors, which pods mount.
	KeySecret, CertSecret, TrustedCertsSecret string
	// Field is the part of a resource that configures it, and Resource that resource as
	// people call it, for example "the Cluster".
	Field, Resource string
	// Source is the field that is false where the CA is the user's own, Bundle the one that refers to the CAs of an
	// Outside authority, and Windows the one with the maintenance windows.
	Source, Bundle, Windows string
	// Labels are those of its Secrets, as people write them.
	Labels string
	// KeyReplaced is the reason of the event that the pending authority took the place
	// of the present one.
	KeyReplaced TransitionKind
	// CertGeneration and KeyGeneration are annotations of the certificate Secret and of
	// the key Secret, with their numbers.
	CertGeneration, KeyGeneration string
	// CertHash is an annotation of the certificate Secret of an Outside authority: the SHA-256, in lower-case hex, over
	// the sorted DER of the certificates that were copied into it.
	CertHash string
	// ForceRenew is an annotation of the certificate Secret that asks for a new
	// certificate of the same key, ForceReplace one of the key Secret that asks for a
	// new key. The prefix of the second is that of all annotations that may be requests.
	ForceRenew, ForceReplace string
}

// Holders tells who has the certificates that an authority signs.
type Holders string

// The two kinds of holders.
const (
	// Members accept connections and open them.
	Members Holders = "Members"
	// Users only open connections, and receive their certificates elsewhere.
	Users Holders = "Users"
)

// usages are what the certificates of the holders are for.
func (h Holders) usages() []pki.Usage {
	if h == Users {
		return []pki.Usage{pki.ClientAuth}
	}
	return pki.BothUsages()
}

// subject carries the generation of the key, so that an outgoing and an incoming
// CA have different names.
func (n *Names) subject(key Generation) pki.Subject {
	return pki.Subject{Organization: n.Organization, CommonName: n.Authority + " v" + key.String()}
}

// generation is that of the key in the name of a CA that was made for these names, none
// for any other. It identifies nothing; it tells which of two was made later.
func (n *Names) generation(cert *x509.Certificate) Generation {
	return n.GenerationIn(cert.Subject.CommonName)
}

// GenerationIn is that in the common name of such a CA, and -1 in any other.
func (n *Names) GenerationIn(commonName string) Generation {
	text, found := strings.CutPrefix(commonName, n.Authority+" v")
	if n, err := strconv.Atoi(text); found && err == nil && n >= 0 {
		return Generation(n)
	}
	return none
}

// Keys of the CA Secrets.
const (
	// KeyKey holds the private key in the key Secret.
	KeyKey = "ca.key"
	// CertKey holds the certificate in the certificate Secret.
	CertKey = "ca.crt"
	// StoreKey holds the PKCS#12 trust store in the certificate Secret.
	StoreKey = "ca.p12"
	// PasswordKey holds the password of StoreKey.
	PasswordKey = "ca.password"
	// CrossKey holds, in the key Secret, the unexpired cross certificates for the
	// present key and for retired ones.
	CrossKey = "ca-cross.crt"
	// PendingKeyKey, PendingCertKey and PendingCrossKey hold, in the key Secret,
	// the key, the certificate and the cross certificates of an authority that is
	// going to replace the present one. They enter in one write.
	PendingKeyKey   = "next-ca.key"
	PendingCertKey  = "next-ca.crt"
	PendingCrossKey = "next-ca-cross.crt"
)

// Annotations of the CA Secrets that have the same names everywhere.
const (
	// AbortReplaceAnnotation on the key Secret asks for the end of a replacement
	// and for the authority that was to be replaced.
	AbortReplaceAnnotation = keyturnDomain + "/abort-replace"
	// DistrustAnnotation on the key Secret, with the value DistrustNow, says that
	// every anchor but the target is compromised.
	DistrustAnnotation = keyturnDomain + "/distrust"
	// TemplateAnnotation on the certificate Secret remembers which labels and annotations
	// of it come from a template.
	TemplateAnnotation = keyturnDomain + "/template"
	// AllowSharedAnnotation on the resource, with the value "true", allows a CA of users
	// that members accept as theirs.
	AllowSharedAnnotation = keyturnDomain + "/allow-shared-ca"
	// DistrustNow is the one value of DistrustAnnotation.
	DistrustNow = "now"

	// keyturnDomain is the prefix of annotations that are Keyturn's.
	keyturnDomain = "keyturn.dev"
)

// Generation counts certificates or keys of one authority for people and tools.
// It never goes backwards, and it identifies nothing.
type Generation int

// MaxGeneration is the highest number that is believed. The operator cannot reach it by counting.
const MaxGeneration Generation = 1 << 30

// String returns the decimal number as annotations carry it.
func (g Generation) String() string { return strconv.Itoa(int(g)) }

const (
	datedPrefix = "ca-"
	certSuffix  = ".crt"
	keySuffix   = ".key"
	stateSuffix = ".state"
)
