package model

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// Reasons for a CA that cannot be used.
const (
	CALost        Reason = "CALost"
	CAUnusable    Reason = "CAUnusable"
	ForeignObject Reason = "ForeignObject"
	BadLedger     Reason = "LedgerUnreadable"
	RoleBound     Reason = "RoleBoundElsewhere"
)

// Standing is what becomes of a cluster of which a CA cannot be used.
const Standing = "Certificates of members are renewed where their CA can sign, and nothing else of this cluster is changed."

// BoundElsewhere is a RoleBinding that would give others the right to the pod of a member or a backup, and with it to its certificates.
func BoundElsewhere(role, binding string) *Problem {
	return &Problem{RoleBound, fmt.Sprintf("RoleBinding %s gives Role %s to others than its ServiceAccount. The Role is not written, and pod %s is not created. "+
		"Find out who created the RoleBinding, and delete it.", binding, role, role)}
}

// UnreadableLedger is a ledger that another process has changed. Without it, a key could be signed for a second pod.
func UnreadableLedger(namespace, name string, err error) *Problem {
	return &Problem{BadLedger, fmt.Sprintf("ConfigMap %s/%s cannot be read: %s. Members keep their certificates, and nothing of this cluster is changed. Correct the ConfigMap, or delete it to have it written again from the certificates in use.", namespace, name, err)}
}

// StoredCA is what the Secrets of a CA hold, nil where there is none.
type StoredCA struct {
	// Key and Cert make the CA, and Trusted has the certificates of all CAs that members may trust besides.
	Key, Cert, Trusted map[string][]byte
}

// known are the CA certificates in the Secrets.
func (s StoredCA) known() []*x509.Certificate {
	return slices.Concat(authority.PublishedCAs(s.Cert), authority.PublishedCAs(s.Trusted))
}

// CAAct is what happens to a CA: UseCA, MakeCA, CertifyCA or HoldCA.
type CAAct interface{ isCAAct() }

// UseCA is a CA that signs.
type UseCA struct{ CA pki.Authority }

// MakeCA is a CA that does not exist: its key is made and stored first.
type MakeCA struct{ Spec pki.CASpec }

// CertifyCA is a key without a certificate: the operator was cut off between its two writes.
type CertifyCA struct {
	Key  pki.PrivateKey
	Spec pki.CASpec
}

// HoldCA is a CA that a person has to restore.
type HoldCA struct{ Problem Problem }

func (UseCA) isCAAct()     {}
func (MakeCA) isCAAct()    {}
func (CertifyCA) isCAAct() {}
func (HoldCA) isCAAct()    {}

// DecideCA says what happens to the CA of a plane. A lost one is not made again while members trust it, and another one is not used
// in its place.
func (c Cluster) DecideCA(plane contract.Plane, stored StoredCA, trusted Trusted, now time.Time) CAAct {
	key, cert := c.Names.CAKeySecret(plane), c.Names.CACertSecret(plane)
	switch {
	case stored.Key != nil && stored.Cert != nil:
		ca, err := authority.Signer(stored.Cert[authority.CertKey], stored.Key, now)
		if err != nil {
			return HoldCA{Problem{CAUnusable, fmt.Sprintf("The %s CA cannot sign: %s. %s Correct the Secrets %s and %s in the operator's namespace.", plane, err, Standing, key, cert)}}
		}
		if trusted.isAnother(authority.PublishedCAs(stored.Cert)) || trusted.isReplaced(c.Names.CAName(plane), ca.Certificate(), stored.known(), now) {
			return HoldCA{c.changed(plane, ca, trusted.without(stored.known()))}
		}
		return UseCA{ca}
	case trusted.exists() || stored.Cert != nil:
		missing := cert
		if stored.Key == nil {
			missing = key
		}
		return HoldCA{Problem{CALost, fmt.Sprintf("Secret %s does not exist in the operator's namespace, and members trust its CA. %s Restore the Secret.", missing, Standing)}}
	case stored.Key != nil:
		private, err := pki.ParsePrivateKey(stored.Key[authority.KeyKey])
		if err != nil {
			return HoldCA{Problem{CAUnusable, fmt.Sprintf("%s in Secret %s cannot be read: %s. Nothing of this cluster is changed. Delete the Secret: a new CA is created.", authority.KeyKey, key, err)}}
		}
		return CertifyCA{private, c.caSpec(plane, now)}
	default:
		return MakeCA{c.caSpec(plane, now)}
	}
}

// caSpec is a CA for the names of this cluster. Its own name is that of package authority, whose successors count on from v0.
func (c Cluster) caSpec(plane contract.Plane, now time.Time) pki.CASpec {
	return pki.CASpec{
		Subject:  pki.Subject{Organization: c.Names.Namespace, CommonName: c.Names.CAName(plane) + " v0"},
		Key:      pki.DefaultCAKey(c.TLS.Algorithm),
		Validity: c.TLS.CAValidity[plane],
		Now:      now,

		PermittedDNS: c.Domains(plane),
	}
}

// Entries of the Secret with the operator's certificate as a client of the cluster.
const (
	OperatorCertEntry    = "tls.crt"
	OperatorKeyEntry     = "tls.key"
	OperatorAnchorsEntry = "ca.crt"
)

// DecideOperator says whether the operator's certificate stays. Every certificate of a cluster is renewed after two
// thirds of its life.
func (c Cluster) DecideOperator(ca pki.Authority, stored map[string][]byte, now time.Time) authority.LeafDecision {
	want := c.OperatorLeaf(now)
	decision := authority.DecideLeaf(authority.LeafInput{
		Stored: authority.StoredLeaf{Certificates: stored[OperatorCertEntry], Key: stored[OperatorKeyEntry]},
		Want: authority.WantedLeaf{
			Subject: want.Subject, Key: c.OperatorKey(), Authority: ca, Chain: ca.Presents(), Validity: want.Validity, Renewal: c.OperatorRenewal(),
		},
		Window: authority.Window{Open: true}, Now: now,
	})
	if leaf, err := pki.FirstCertificate(stored[OperatorCertEntry]); err == nil && pki.BeginsLate(leaf, ca.Certificate(), now) {
		decision.Act = authority.ReissueLeaf
	}
	return decision
}

// OperatorRenewal is how long before its end the operator's certificate is renewed.
func (c Cluster) OperatorRenewal() time.Duration { return c.TLS.LeafValidity / 3 }

// OperatorKey is what key the operator has.
func (c Cluster) OperatorKey() pki.KeyParams { return pki.DefaultLeafKey(c.TLS.Algorithm) }

// OperatorLeaf is the operator's certificate as a client of the cluster.
func (c Cluster) OperatorLeaf(now time.Time) pki.LeafSpec {
	return pki.LeafSpec{
		Subject:  pki.Subject{Organization: contract.OperatorOrganization, CommonName: agent.OperatorCommonName},
		Usages:   []pki.Usage{pki.ClientAuth},
		Validity: c.TLS.LeafValidity,
		Now:      now,
	}
}
