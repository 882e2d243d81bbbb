package domain

import (
	"errors"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Kind is what a kind of server says about one of its CAs.
type Kind struct {
	Name       publication.Domain
	Retirement trust.Retirement
}

// Seen is what is known of a CA and of all who trust it, at one moment. It is not changed, and is to stay as it is while what was
// decided from it is used.
type Seen struct {
	// CA has the Secrets of the CA and what is asked of it. Its time is that of the decision.
	CA authority.Input
	// Members are all who may trust it. Its time and what it owns are the domain's.
	Members evidence.Cluster
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

	seen  *Seen
	known Known
}

// Decide decides about a domain. It is total: what cannot be used stands, with the problems that a person has to solve. An
// error is a fault of the program, or of a key that signs nothing.
func (k Kind) Decide(seen *Seen) (*Decided, error) {
	decision, problems, err := decideCA(seen.CA)
	if err != nil {
		return nil, err
	}
	d := &Decided{Decision: decision, Problems: problems, seen: seen}
	if decision.Demand != nil {
		return d, nil
	}
	cluster := seen.Members
	cluster.Now, cluster.Own = seen.CA.Now, k.Name
	of := evidence.Domain{
		Name: k.Name, Authority: decision, Stored: authority.StoredAnchors(seen.CA.TrustedCerts),
		ApplicationSince: seen.applicationSince(decision), Retirement: k.Retirement, Holders: seen.Holders,
	}
	d.known = evidence.Known(cluster, of)
	d.Snapshot = seen.Before.Lasting(evidence.Snapshot(cluster, of, d.known), seen.Made)
	d.Plan = trust.Decide(d.Snapshot)
	return d, nil
}

// applicationSince is when what applications read has changed last.
func (s *Seen) applicationSince(decision authority.Decision) time.Time {
	if decision.Held {
		return RememberedSince(s.CA.TrustedCerts)
	}
	return ApplicationSince(s.CA.TrustedCerts, decision.Published, s.CA.Now)
}

// decideCA decides about the CA alone. One that cannot be used stands as it is.
func decideCA(in authority.Input) (authority.Decision, []authority.Problem, error) {
	decision, err := authority.Decide(in)
	invalid, isInvalid := errors.AsType[*authority.InvalidResourceError](err)
	if !isInvalid {
		if err != nil {
			return authority.Decision{}, nil, fmt.Errorf("deciding about %s: %w", in.Names.Authority, err)
		}
		return decision, nil, nil
	}
	if decision, err = authority.Stand(in); err != nil {
		return authority.Decision{}, nil, fmt.Errorf("deciding how %s stands: %w", in.Names.Authority, err)
	}
	return decision, invalid.Problems, nil
}
