package authority

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/pki"
)

// A user's CA may come back with its key and another subject. To OpenSSL and the JVM
// it is another authority then, and the key that both have can cross-sign it.

// crossSign has the present CA cross-signed by all CAs that its key was known as before, in one row from
// the last to the first. What nodes present already stays, even if its issuer is unknown.
func (u *userCA) crossSign() error {
	if u.in.Names.Holders != Members {
		return nil // users send nothing along
	}
	u.crosses = u.sentAlong()
	of := u.chain[0]
	for _, by := range u.formers() {
		if why := u.whyApart(by, of); why != "" {
			u.lacks(why)
			continue
		}
		l := link{by: by, key: u.key, of: of}
		known := u.crossOf(l)
		cross, why, err := u.in.crossSign(l, known)
		if err != nil {
			return err
		}
		if cross == nil {
			u.lacks(why)
			continue
		}
		u.crosses, of = exchange(u.crosses, known, cross), by[0]
	}
	return nil
}

func (u *userCA) lacks(why string) {
	if u.noCross == "" {
		u.noCross = why
	}
}

// sentAlong are the unexpired cross certificates that nodes receive already, of any signer. Peers that
// rely on a CA replaced before the user took over still need them. The last to expire come first, because
// each of two operators may have signed one, and the next must choose the same.
func (u *userCA) sentAlong() []*x509.Certificate {
	found := slices.DeleteFunc(u.in.sentAlong(), func(cert *x509.Certificate) bool {
		return contains(u.chain, cert) || !u.mayBeSent(cert)
	})
	slices.SortFunc(found, endsLater)
	return found
}

// mayBeSent tells cross certificates from intermediates. Servers load one unbroken
// chain, so that a CA below others, which are sent along, has none.
func (u *userCA) mayBeSent(cert *x509.Certificate) bool {
	return isSelfIssued(u.chain[0]) || !isSameAuthority(cert, u.chain[0])
}

// sentAlong are the unexpired certificates that nodes send along with their leaves.
func (in Input) sentAlong() []*x509.Certificate {
	var sent []*x509.Certificate
	for _, cert := range in.Evidence.Included {
		if !isSelfIssued(cert) && in.Now.Before(cert.NotAfter) && !contains(sent, cert) {
			sent = append(sent, cert)
		}
	}
	return sent
}

// crossOf is the cross certificate of a link that is known and does not outlast either
// side; nil when there is none.
func (u *userCA) crossOf(l link) *x509.Certificate {
	for _, cross := range u.crosses {
		outlasts := cross.NotAfter.After(l.by[0].NotAfter) || cross.NotAfter.After(l.of.NotAfter)
		if isSameAuthority(cross, l.of) && pki.IssuedBy(cross, l.by[0]) && !outlasts {
			return cross
		}
	}
	return nil
}

// formers are the unexpired certificates of the present key under other names or key
// identifiers, by authority, the one that was made last first; those of an authority in
// the order of their end, the last one first.
func (u *userCA) formers() [][]*x509.Certificate {
	byID := map[pki.AuthorityID][]*x509.Certificate{}
	for _, cert := range u.others() {
		id := pki.AuthorityIDOf(cert)
		former := pki.KeyIDOf(cert) == pki.KeyIDOf(u.chain[0]) && !isSameAuthority(cert, u.chain[0])
		if former && pki.CheckCA(cert) == nil && u.in.Now.Before(cert.NotAfter) && !contains(byID[id], cert) {
			byID[id] = append(byID[id], cert)
		}
	}
	formers := make([][]*x509.Certificate, 0, len(byID))
	for _, certs := range byID {
		slices.SortFunc(certs, endsLater)
		formers = append(formers, certs)
	}
	slices.SortFunc(formers, func(a, b []*x509.Certificate) int {
		if c := b[0].NotBefore.Compare(a[0].NotBefore); c != 0 {
			return c
		}
		return endsLater(a[0], b[0])
	})
	return formers
}

// whyApart says why no cross certificate could lead from one authority of the key to
// another; empty when one can.
func (u *userCA) whyApart(by []*x509.Certificate, of *x509.Certificate) string {
	old := by[0]
	switch {
	case bytes.Equal(old.RawSubject, of.RawSubject):
		return fmt.Sprintf("CA %q came back with its key and another subject key identifier, and a cross certificate for that would name itself as issuer, which the JVM refuses: keep the identifier %x when you renew it",
			of.Subject, old.SubjectKeyId)
	case slices.ContainsFunc(append(slices.Clone(by), of), func(cert *x509.Certificate) bool { return !isSelfIssued(cert) }):
		return fmt.Sprintf("CA %q came back as %q with the same key, and one of the two is below another CA: nodes can send one unbroken chain along, and that is the one to the root",
			old.Subject, of.Subject)
	default:
		return ""
	}
}

// formerAuthorities are those of the present key under other names: as long as nodes
// have leaves of theirs, others may need one. What nodes send along with a leaf of one
// below another CA is not known here, so that theirs stay as they are.
func (u *userCA) formerAuthorities() ([]pki.Authority, error) {
	if u.key.IsZero() {
		return nil, nil
	}
	var former []pki.Authority
	for _, certs := range u.formers() {
		if !isSelfIssued(certs[0]) {
			continue
		}
		ca, err := pki.NewAuthority(certs[0], u.key)
		if err != nil {
			return nil, fmt.Errorf("signing as %q: %w", certs[0].Subject, err)
		}
		former = append(former, ca)
	}
	return former, nil
}

func isSameAuthority(a, b *x509.Certificate) bool {
	return pki.AuthorityIDOf(a) == pki.AuthorityIDOf(b)
}
