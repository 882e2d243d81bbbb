package authority

import (
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// CheckApart rejects two CAs of one key, or a clients CA below the cluster CA, because nodes would accept
// a user as one of them. It returns the problem and whose CA must change: the one that the domain does not
// trust yet, or else the clients CA. It returns nil when they are apart.
func CheckApart(cluster, clients Input, clusterCA, clientsCA Decision) (of Holders, wrong *Problem) {
	node, user, shared := common(clusterCA, clientsCA, issuersIn(clients.CertSecret))
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
	return changed.Names.Holders, &Problem{
		Object: changed.certObject(),
		Wrong: fmt.Sprintf("the clients CA %q %s the cluster CA %q of %s, so nodes would accept anyone with a user certificate as another node",
			user.Subject, how, node.Subject, other.certObject()),
		Remedy: "use another CA, or allow it by annotating " + changed.Names.Resource + " with " + AllowSharedAnnotation + "=true",
	}
}

// common finds a CA of the cluster's domain that verifies a CA of its users, perhaps by
// way of others.
func common(clusterCA, clientsCA Decision, others []*x509.Certificate) (node, user *x509.Certificate, found bool) {
	for _, node := range clusterCA.wanted() {
		for _, user := range clientsCA.wanted() {
			if sameKey(node, user) || isBelow(user, node, others) {
				return node, user, true
			}
		}
	}
	return nil, nil, false
}

// isBelow reports whether a CA was signed by another, or by one of those between that is
// below it.
func isBelow(cert, root *x509.Certificate, between []*x509.Certificate) bool {
	if pki.SignedBy(cert, root) {
		return true
	}
	for i, issuer := range between {
		rest := slices.Delete(slices.Clone(between), i, i+1)
		if !sameKey(issuer, cert) && pki.SignedBy(cert, issuer) && isBelow(issuer, root, rest) {
			return true
		}
	}
	return false
}

// issuersIn are all certificates that a CA Secret holds. A peer may include any of them in the chain that
// it presents.
func issuersIn(secret Stored) []*x509.Certificate {
	var issuers []*x509.Certificate
	for _, name := range sortedKeys(secret.Data) {
		certs, err := pki.ParseBundle(secret.Data[name])
		if err != nil {
			continue // it is no certificate, or is refused by those who need it
		}
		issuers = append(issuers, certs...)
	}
	return issuers
}

// wanted are the CA certificates that peers are to trust in the end, or are told to
// present certificates of.
func (d Decision) wanted() []*x509.Certificate {
	wanted := slices.Clone(d.Published)
	for _, cert := range append([]*x509.Certificate{d.Certificate, d.Target()}, d.Kept...) {
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
