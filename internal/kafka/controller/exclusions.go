package controller

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// exclusion is a member that is excluded, or needs attention, and the CAs for which that is so: it is
// reported once.
type exclusion struct {
	trust.Exclusion

	kinds  []string
	remedy string
}

// exclusionWarnings name the members that the rotation of an authority does not wait for,
// and those that are doubted and waited for, because there are no others.
func (c *decided) exclusionWarnings() []wanted {
	var found []exclusion
	add := func(kind authorities.Kind, excluded trust.Exclusion, remedy string) {
		i := slices.IndexFunc(found, func(s exclusion) bool { return s.Member == excluded.Member && s.Reason == excluded.Reason })
		if i < 0 {
			found = append(found, exclusion{Exclusion: excluded, remedy: remedy})
			i = len(found) - 1
		}
		found[i].kinds = append(found[i].kinds, string(kind))
	}
	for _, kind := range kinds() {
		plan := c.domain(kind).Plan
		for _, excluded := range plan.Excluded {
			add(kind, excluded, remedyFor(excluded))
		}
		for _, doubted := range plan.NeedAttention {
			if doubted.Reason == trust.UnknownClaims {
				add(kind, doubted, nobodyElse)
			}
		}
	}
	list := make([]wanted, 0, len(found))
	for _, s := range found {
		claimed := ""
		if s.Reason == trust.UnknownClaims {
			claimed = c.claimed(string(s.Member))
		}
		sentence := ": " + s.What + claimed + s.remedy
		list = append(list, c.about(object{part: "members{" + string(s.Member) + "}", sentence: sentence}, string(s.Reason), strings.Join(s.kinds, ", ")+sentence))
	}
	return list
}

// nobodyElse is the remedy when every node reports a CA that the cluster does not know.
const nobodyElse = ", and so does every other node: nothing changes, because it is unclear whether they or the Secrets are right; " +
	"restore what was lost or replaced in the CA Secrets, or find out who else configures the servers and delete the pods one by one"

func remedyFor(excluded trust.Exclusion) string {
	if excluded.Reason != trust.UnknownClaims {
		return ""
	}
	return "; its claim is ignored, and the other nodes go on without it: find out who else configures " +
		"its server or answers in place of its agent, and delete the pod"
}

// longestSubject is how many characters of a subject a message shows: a process that makes
// a false claim may report any subject.
const longestSubject = 100

// claimed names the unknown CAs that a member claims to use, as far as it reports
// their certificates.
func (c *decided) claimed(member string) string {
	var subjects []string
	for pod := range c.peers() {
		at, accompanies := c.companionOf(pod)
		if pod == member || accompanies && at.Member() == member {
			subjects = append(subjects, c.unknownTo(c.reports[pod].report)...)
		}
	}
	if len(subjects) == 0 {
		return ""
	}
	slices.Sort(subjects)
	return ": " + excerpt.First(slices.Compact(subjects), excerpt.Named, ", ")
}

// unknownTo are the CA certificates of a report that no authority of the cluster knows,
// and the issuers of leaves that none has signed.
func (c *decided) unknownTo(report publication.Report) []string {
	known := slices.Concat(c.clusterCA.Known, c.clientsCA.Known)
	var subjects []string
	for role, reported := range report.Roles {
		for _, fingerprint := range reported.Trusts {
			cert, err := pki.CertificateOf(report.Certificates[fingerprint])
			if err == nil && !slices.ContainsFunc(known, cert.Equal) {
				subjects = append(subjects, fmt.Sprintf("%.*q (%s)", longestSubject, cert.Subject, pki.FingerprintOf(cert).Short()))
			}
		}
		leaf, err := pki.CertificateOf(report.Certificates[reported.Presents])
		signs := func(ca *x509.Certificate) bool { return pki.SignedBy(leaf, ca) }
		if _, custom := c.custom[role]; err == nil && !custom && !slices.ContainsFunc(known, signs) {
			subjects = append(subjects, fmt.Sprintf("%.*q", longestSubject, leaf.Issuer))
		}
	}
	return subjects
}
