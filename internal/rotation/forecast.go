package rotation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/keyturn/keyturn/internal/trust"
)

// Forecast is the course that a domain takes from where a record found it, if every member loads what it
// is told to. The reconciler's own function computes it.
type Forecast struct {
	Phase   Phase  `json:"phase"`
	Message string `json:"message"`
	// Strategy is the way, with its reason; empty when there is nothing to do, or only
	// one CA.
	Strategy trust.StrategyKind `json:"strategy,omitempty"`
	Reason   string             `json:"reason,omitempty"`
	Stages   []Stage            `json:"stages"`
	// Blocked is what does not go away by itself, in words.
	Blocked []string `json:"blocked,omitempty"`
	// Afterwards is what only time brings.
	Afterwards []string `json:"afterwards,omitempty"`
	// Nodes counts what is done to each node.
	Nodes []NodeWork `json:"nodes,omitempty"`
	// Clients says of each kind of client what it would notice.
	Clients []Outlook `json:"clients,omitempty"`
	// Duration is how long it takes until only restarts are left that the rotation does not wait for.
	// Remainder is how long those take, with what they allow. Neither counts what has no measure yet: see
	// Unmeasured.
	Duration  Seconds `json:"seconds"`
	Remainder Seconds `json:"remainderSeconds,omitempty"`
	// Unmeasured names what there is no measured time for.
	Unmeasured []string `json:"unmeasured,omitempty"`
}

// Seconds is a length of time as JSON carries it, to a tenth.
type Seconds float64

// tenths forgets what is finer than any of the measured times.
func tenths(seconds float64) Seconds { return Seconds(math.Round(seconds*10) / 10) }

// Stage is what happens together.
type Stage struct {
	// After says in words who has to be waited for before.
	After []string `json:"after,omitempty"`
	Steps []Step   `json:"steps"`
	// Duration is the expected time. Remainder is true of restarts that the rotation does not wait for, and
	// of what comes after them.
	Duration  Seconds `json:"seconds"`
	Remainder bool    `json:"remainder,omitempty"`
}

// Step is one thing that is done.
type Step struct {
	Kind trust.StepKind `json:"kind"`
	// Text says it in words.
	Text    string           `json:"text"`
	Anchor  trust.AnchorID   `json:"anchor,omitempty"`
	Members []trust.MemberID `json:"members,omitempty"`
	How     trust.How        `json:"how,omitempty"`
	Reason  string           `json:"reason,omitempty"`
}

// NodeWork counts what is done to one node.
type NodeWork struct {
	Node     trust.MemberID `json:"node"`
	Reloads  int            `json:"reloads"`
	Restarts int            `json:"restarts"`
	// Later counts restarts that the rotation does not wait for.
	Later int `json:"later"`
}

// Change is something that might be done to an authority.
type Change uint8

// The changes that can be asked about.
const (
	// Replace gives the authority a new key.
	Replace Change = iota
	// Renew gives it a new certificate for its key.
	Renew
	// ReplaceCompromised gives it a new key, and distrusts every other certificate.
	ReplaceCompromised
)

// errNoAuthority is a domain in which nothing can be replaced.
var errNoAuthority = errors.New("there is no CA certificate that could be replaced, or it is refused")

// hypothetical stands for what does not exist yet.
const hypothetical = "new"

// defaultValidity is assumed of a new authority where that of the present one is
// not known.
const defaultValidity = 365 * 24 * time.Hour

// Ahead is the course from now on. Now matters where time decides; it never goes
// back behind the record.
func (r Record) Ahead(now time.Time) Forecast {
	s := r.Snapshot
	if now.After(s.Now) {
		s.Now = now
	}
	plan := r.planFor(s)
	f := Forecast{Phase: r.Words.PhaseOf(s, plan), Message: r.Words.Message(s, plan, r.Subject()) + Refusal(r.Refused), Stages: []Stage{}}
	projection := trust.Project(s)
	// With one CA there is no way from one to another.
	if len(projection.Stages) > 0 && len(newView(r.Words, s, plan).others()) > 0 {
		f.Strategy, f.Reason = projection.Stages[0].Strategy.Kind, projection.Stages[0].Strategy.Reason
	}
	w := newWork(r, s)
	for _, stage := range projection.Stages {
		stage.Steps = r.ownSteps(stage.Steps)
		if len(stage.Steps) > 0 {
			f.Stages = append(f.Stages, w.stage(stage))
		}
	}
	f.Blocked = Waiting(slices.DeleteFunc(slices.Clone(projection.Blocked), retires), s.Members)
	f.Afterwards = Waiting(slices.DeleteFunc(slices.Clone(projection.Blocked), func(b trust.Blocker) bool { return !retires(b) }), s.Members)
	if f.Phase == AuthorityMissing {
		f.Blocked = unusable(r.Refused)
	}
	f.Nodes, f.Duration, f.Remainder, f.Unmeasured = w.nodes(), w.duration, w.remainder, w.unmeasured()
	f.Clients = outlooks(r, s, cmp.Or(f.Strategy, plan.Strategy.Kind), w)
	return f
}

// ownSteps are those that the operator takes: the owner of a user-provided CA writes the application
// bundle.
func (r Record) ownSteps(steps []trust.Step) []trust.Step {
	if !r.UserProvided {
		return steps
	}
	return slices.DeleteFunc(slices.Clone(steps), func(s trust.Step) bool {
		return s.Kind == trust.Announce || s.Kind == trust.Lead || s.Kind == trust.Retire
	})
}

// WithChange is the record as it would be right after an authority was changed.
func (r Record) WithChange(change Change, now time.Time) (Record, error) {
	s := r.Snapshot
	if now.After(s.Now) {
		s.Now = now
	}
	at := slices.IndexFunc(s.Anchors, func(a trust.Anchor) bool { return a.ID == s.Issuing })
	if at < 0 {
		return Record{}, fmt.Errorf("the %s of %s: %w: see condition %s of %s", r.Domain, r.Cluster, errNoAuthority, r.Words.Problem, r.Words.Resource)
	}
	s.Anchors = slices.Clone(s.Anchors)
	if change == ReplaceCompromised {
		distrust(s.Anchors)
	}
	present := s.Anchors[at]
	incoming := trust.Anchor{ID: hypothetical, Name: hypothetical, Key: hypothetical, NotAfter: s.Now.Add(r.validity(present.ID))}
	name := AnchorName{CommonName: r.Anchors[present.ID].CommonName, SHA1: hypothetical, NotBefore: s.Now, NotAfter: incoming.NotAfter}
	if change == Renew {
		incoming.Key, incoming.Cross = present.Key, present.Cross
	} else {
		name.CommonName = successor(name.CommonName)
		incoming.Cross, incoming.NoCross = r.crossSigners(s, incoming.NotAfter)
	}
	s.Issuing = incoming.ID
	s.Anchors = append(s.Anchors, incoming)
	r.Snapshot = s
	names := map[trust.AnchorID]AnchorName{incoming.ID: name}
	maps.Copy(names, r.Anchors)
	r.Anchors = names
	return r, nil
}

// distrust says of all anchors that their keys are compromised.
func distrust(anchors []trust.Anchor) {
	for i := range anchors {
		anchors[i].Compromised = true
	}
}

// retires reports whether only time is waited for.
func retires(b trust.Blocker) bool { return b.Guard == trust.GuardRetired }

func (r Record) validity(id trust.AnchorID) time.Duration {
	name := r.Anchors[id]
	if length := name.NotAfter.Sub(name.NotBefore); !name.NotBefore.IsZero() && length > 0 {
		return length
	}
	return defaultValidity
}

// crossSigners are the cross certificates that the authorities before would sign, and
// why one of them cannot.
func (r Record) crossSigners(s trust.Snapshot, notAfter time.Time) (cross []trust.Cross, noCross string) {
	refused := map[trust.KeyID]bool{}
	for _, a := range s.Anchors {
		if why := r.Anchors[a.ID].CrossSignBlocked; why != "" && s.Now.Before(a.NotAfter) {
			refused[a.Key], noCross = true, why
		}
	}
	for _, a := range s.Anchors {
		known := slices.ContainsFunc(cross, func(c trust.Cross) bool { return c.Issuer == a.Key })
		if known || refused[a.Key] || !s.Now.Before(a.NotAfter) {
			continue
		}
		end := notAfter
		if a.NotAfter.Before(end) {
			end = a.NotAfter
		}
		cross = append(cross, trust.Cross{Issuer: a.Key, NotAfter: end, Distrusted: a.Compromised})
	}
	return cross, noCross
}

// successor is the common name that the next key will have: the generation of the
// key is part of it.
func successor(name string) string {
	parts := regexp.MustCompile(`^(.* v)(\d{1,9})$`).FindStringSubmatch(name)
	if parts == nil {
		return "the new CA"
	}
	generation, err := strconv.Atoi(parts[2])
	if err != nil {
		return "the new CA"
	}
	return parts[1] + strconv.Itoa(generation+1)
}
