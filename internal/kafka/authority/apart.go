package authority

import (
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// CheckApart refuses two authorities of one key, or a clients CA below the cluster CA:
// nodes would accept whoever has a certificate of a user as one of them. It returns
// whose authority must not be taken as it is: that of the domain which does not trust
// the CA yet, or else the clients CA, and what is wrong with it; nil when they are
// apart. The inputs are those of the decisions.
func CheckApart(cluster, clients Input, clusterCA, clientsCA Decision) (Kind, *Problem) {
	node, user, shared := common(clusterCA, clientsCA)
	if !shared {
		return "", nil
	}
	changed, other := clients, cluster
	if trustsKey(clients, user) && !trustsKey(cluster, node) {
		changed, other = cluster, clients
	}
	how := "has the key of"
	if !sameKey(node, user) {
		how = "was signed by"
	}
	return changed.Kind, &Problem{
		Object: changed.certObject(),
		Wrong: fmt.Sprintf("the clients CA %q %s the cluster CA %q of %s, so that nodes would accept whoever has a certificate of a user as one of them",
			user.Subject, how, node.Subject, other.certObject()),
		Remedy: "use another CA, or allow it by annotating the Kafka with " + AllowSharedAnnotation + "=true",
	}
}

// common finds a CA of the cluster's domain that verifies a CA of its users.
func common(clusterCA, clientsCA Decision) (node, user *x509.Certificate, found bool) {
	for _, node := range clusterCA.wanted() {
		for _, user := range clientsCA.wanted() {
			if sameKey(node, user) || pki.SignedBy(user, node) {
				return node, user, true
			}
		}
	}
	return nil, nil, false
}

// wanted are the CA certificates that peers are to trust in the end, or are told to
// present certificates of.
func (d Decision) wanted() []*x509.Certificate {
	wanted := slices.Clone(d.Published)
	for _, cert := range []*x509.Certificate{d.Certificate, d.Target()} {
		if cert != nil && !contains(wanted, cert) {
			wanted = append(wanted, cert)
		}
	}
	return wanted
}

func trustsKey(in Input, cert *x509.Certificate) bool {
	return slices.ContainsFunc(StoredAnchors(in.TrustedCerts), func(a Anchor) bool { return sameKey(a.Certificate, cert) })
}

func sameKey(a, b *x509.Certificate) bool { return pki.KeyIDOf(a) == pki.KeyIDOf(b) }
