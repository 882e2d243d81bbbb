package domain

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Kind is what a kind of server says about one of its CAs.
type Kind struct {
	Name publication.Domain
	// Own is the domain of what members present in it: of one with users, that is another than theirs.
	Own        publication.Domain
	Retirement trust.Retirement
}

// Seen is what is known of a CA and of all who trust it, at one moment. It is not changed, and is to stay as it is while what was
// decided from it is used.
type Seen struct {
	// CA has the Secrets of the CA and what is asked of it. Its time is that of the decision.
	CA authority.Input
	// Members are all who may trust it. Its time, what it owns and who signs are the domain's.
	Members evidence.Cluster
	// Lost are members whose Secret cannot be written again in any domain.
	Lost []trust.MemberID
	// Holders have certificates of the CA besides the members.
	Holders []evidence.Holder
	// Before is the record of the decision before; empty when there is none. Made is when the pod of each member was made.
	Before rotation.Record
	Made   map[trust.MemberID]time.Time
}

// Decided is what becomes of a domain. Where the decision demands something, nothing else of it counts.
type Decided struct {
	authority.Decision

	Snapshot trust.Snapshot
	Plan     trust.Plan
	// Problems are what a person has to put right in the Secrets of the CA. Until then it stands as it is.
	Problems []authority.Problem
	// Known are all CA certificates of the domain.
	Known Known

	of   Kind
	seen Seen
}

// Decide decides about a domain. It is total: what cannot be used stands, with the problems that a person has to solve. An
// error is a fault of the program, or of a key that signs nothing.
func (k Kind) Decide(seen *Seen) (*Decided, error) {
	decision, problems, err := DecideCA(seen.CA)
	if err != nil {
		return nil, err
	}
	if decision.Demand != nil {
		return &Decided{Decision: decision, Problems: problems, of: k, seen: *seen}, nil
	}
	return k.Trust(seen, decision, problems), nil
}

// Trust decides which CAs are trusted and which one signs in a domain. The CA is decided about already,
// with the problems of that.
func (k Kind) Trust(seen *Seen, decision authority.Decision, problems []authority.Problem) *Decided {
	d := &Decided{Decision: decision, Problems: problems, of: k, seen: *seen}
	cluster := seen.Members
	cluster.Now, cluster.Own = seen.CA.Now, k.Own
	cluster.Policy.Issuance = IssuanceOf(seen.CA.Spec, decision)
	of := evidence.Domain{
		Name: k.Name, Authority: decision, Stored: authority.StoredAnchors(seen.CA.TrustedCerts),
		Distrusted: map[string]bool{}, ApplicationSince: seen.applicationSince(decision), Retirement: k.Retirement, Holders: seen.Holders,
	}
	for _, fingerprint := range distrustedBy(seen.CA.TrustedCerts) {
		of.Distrusted[fingerprint] = true
	}
	d.Known = evidence.Known(cluster, of)
	snapshot := evidence.Snapshot(cluster, of, d.Known)
	for i := range snapshot.Members {
		snapshot.Members[i].SecretLost = snapshot.Members[i].SecretLost || slices.Contains(seen.Lost, snapshot.Members[i].ID)
	}
	d.Snapshot = seen.Before.Lasting(snapshot, seen.Made)
	d.Plan = trust.Decide(d.Snapshot)
	if seen.isUserProvided() {
		d.Plan.Application = d.Snapshot.Application.Anchors // it is the user who writes it
	}
	return d
}

// IssuanceOf says who signs by a CA. One with keys at hand that stands in for one that is refused signs by them.
func IssuanceOf(spec authority.Spec, decision authority.Decision) trust.Issuance {
	if spec.Source != authority.Outside || decision.Held && len(decision.Keys) > 0 {
		return trust.Held
	}
	return trust.Offered
}

func (s *Seen) isUserProvided() bool { return s.CA.Spec.Source == authority.UserProvided }

// applicationSince is when what applications read has changed last.
func (s *Seen) applicationSince(decision authority.Decision) time.Time {
	if decision.Held {
		return RememberedSince(s.CA.TrustedCerts)
	}
	return ApplicationSince(s.CA.TrustedCerts, decision.Published, s.CA.Now)
}

// DecideCA decides about a CA alone. One that cannot be used, or of which problems are known already, stands as it is, with the
// problems that a person has to solve.
func DecideCA(in authority.Input, known ...authority.Problem) (authority.Decision, []authority.Problem, error) {
	if len(known) == 0 {
		decision, err := authority.Decide(in)
		invalid, isInvalid := errors.AsType[*authority.InvalidResourceError](err)
		if err != nil && !isInvalid {
			return authority.Decision{}, nil, fmt.Errorf("deciding about %s: %w", in.Names.Authority, err)
		}
		if !isInvalid {
			return decision, nil, nil
		}
		known = invalid.Problems
	}
	decision, err := authority.Freeze(in)
	if err != nil {
		return authority.Decision{}, nil, fmt.Errorf("deciding how %s stands: %w", in.Names.Authority, err)
	}
	return decision, known, nil
}
