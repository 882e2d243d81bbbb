package application

import (
	"crypto/x509"
	"maps"
	"time"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// Account is what became of the client's records and connections since it started.
type Account struct {
	At        time.Time `json:"at"`
	StartedAt time.Time `json:"startedAt"`
	// Final is the account that the client ends with.
	Final bool `json:"final"`
	// Complete says of a final account that the topic was read to its end.
	Complete bool `json:"complete"`
	// Waiting is what the client waits for before it sends its first record.
	Waiting string `json:"waiting,omitempty"`
	// Problem is why no new connection can be opened with what the directory holds.
	Problem string `json:"problem,omitempty"`

	Topic            string   `json:"topic"`
	BootstrapServers []string `json:"bootstrapServers,omitempty"`
	SecurityProtocol string   `json:"securityProtocol,omitempty"`
	// Trusted are the CA certificates that new connections trust, Presented is the
	// client certificate that they present.
	Trusted   []Certificate `json:"trusted,omitempty"`
	Presented *Certificate  `json:"presented,omitempty"`
	// Changes counts how often the directory got other content that can be used.
	Changes   uint64    `json:"changes"`
	ChangedAt time.Time `json:"changedAt,omitzero"`

	Sent         uint64 `json:"sent"`
	Acknowledged uint64 `json:"acknowledged"`
	Received     uint64 `json:"received"`
	// Unread were acknowledged and not received yet. Lost are those of them that will
	// not come: a later record came before, or the topic was read to its end.
	Unread uint64 `json:"unread"`
	Lost   uint64 `json:"lost"`
	// GivenUp were not acknowledged in time, or rejected for good.
	GivenUp        uint64            `json:"givenUp"`
	GivenUpBecause map[string]uint64 `json:"givenUpBecause,omitempty"`
	Duplicated     uint64            `json:"duplicated"`
	OutOfOrder     uint64            `json:"outOfOrder"`
	// Fresh are the connections that the client opens each second. Refused counts them
	// and the connections that it works with, where one side rejected the other.
	Fresh             observe.Tally             `json:"fresh"`
	Refused           uint64                    `json:"refused"`
	RefusedBecause    map[verdict.Reason]uint64 `json:"refusedBecause,omitempty"`
	LongestGapSeconds float64                   `json:"longestGapSeconds"`
	Notes             []string                  `json:"notes,omitempty"`
}

// Certificate names a certificate.
type Certificate struct {
	Subject  string    `json:"subject"`
	SHA256   string    `json:"sha256"`
	NotAfter time.Time `json:"notAfter"`
}

func certificateOf(c *x509.Certificate) Certificate {
	return Certificate{Subject: c.Subject.String(), SHA256: pki.FingerprintOf(c).String(), NotAfter: c.NotAfter.UTC()}
}

// Working says that a record has made the round trip.
func (a *Account) Working() bool { return a.Received > 0 }

// Harmed says that the application lost, gave up, repeated or reordered a record, or was
// refused.
func (a *Account) Harmed() bool {
	return a.Lost+a.GivenUp+a.Duplicated+a.OutOfOrder+a.Refused > 0
}

// describe adds what the directory holds now.
func (a *Account) describe(f *files) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.problem != nil {
		a.Problem = f.problem.Error()
	}
	a.BootstrapServers, a.SecurityProtocol = f.last.addresses, f.last.protocol
	a.Changes, a.ChangedAt = f.changes, f.changedAt
	for _, trusted := range f.last.trusted {
		a.Trusted = append(a.Trusted, certificateOf(trusted))
	}
	if leaf := f.last.certificate.Leaf; leaf != nil {
		presented := certificateOf(leaf)
		a.Presented = &presented
	}
}

// count adds what the running client has seen.
func (a *Account) count(state probe.ClientState) {
	records := state.Records
	a.Sent, a.Acknowledged, a.Received = records.Sent, records.Acknowledged, records.Consumed
	a.Unread, a.Lost = records.Unread, state.Overtaken
	a.GivenUp, a.GivenUpBecause = records.Failed, records.Because
	a.Duplicated, a.OutOfOrder = records.Duplicated, records.OutOfOrder
	a.LongestGapSeconds = records.LongestGap.Length.Seconds()
	fresh := state.Fresh()
	a.Fresh.Accepted += fresh.Accepted
	a.Fresh.Refused += fresh.Refused
	a.Fresh.Interrupted += fresh.Interrupted
	a.Fresh.Unreachable += fresh.Unreachable
	for reason, count := range state.TLSFailures {
		a.refuse(reason, count)
	}
}

// conclude adds what is known once the client has ended.
func (a *Account) conclude(result *probe.Result) {
	a.Complete, a.Notes = result.Complete, result.Notes
	if result.Complete {
		a.Lost = a.Unread
	}
}

func (a *Account) refuse(reason verdict.Reason, count uint64) {
	if a.RefusedBecause == nil {
		a.RefusedBecause = map[verdict.Reason]uint64{}
	}
	a.RefusedBecause[reason] += count
	a.Refused += count
}

// beginning is what was seen before the client could work.
type beginning struct {
	fresh   observe.Tally
	refused map[verdict.Reason]uint64
}

func (b *beginning) add(err error) {
	kind, reason := verdict.Of(err)
	b.fresh = b.fresh.With(kind)
	if kind == verdict.Refused {
		if b.refused == nil {
			b.refused = map[verdict.Reason]uint64{}
		}
		b.refused[reason]++
	}
}

func (b *beginning) clone() beginning {
	return beginning{fresh: b.fresh, refused: maps.Clone(b.refused)}
}
