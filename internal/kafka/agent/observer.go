package agent

import (
	"crypto/x509"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/metrics"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/kafka/agent/status"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// observer joins what is mounted with what the server has loaded. It is safe for
// concurrent use.
type observer struct {
	*status.Node

	reader *mount.Reader

	mu         sync.Mutex
	generation uint64
	facing     stores.Facing
	facingErr  error
	mounted    publication.Publication
	lag        time.Duration

	matching sync.Mutex
	// matched is what matchedGeneration of the mounts means, or matchedErr.
	matchedGeneration uint64
	matched           stores.Matched
	matchedErr        error

	known atomic.Pointer[local.Known]
	// certificates are those that roles may name, by fingerprint.
	certificates map[string][]byte
	reloads      metrics.Reloads
}

func newObserver(reader *mount.Reader) *observer {
	return &observer{Node: &status.Node{}, reader: reader, certificates: map[string][]byte{}}
}

// Facing returns what the agent's own server presents and trusts now. While the
// mounts are between two states it is what it was before.
func (o *observer) Facing() (stores.Facing, error) {
	mounted, generation, err := o.reader.Read()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		return o.facing, o.facingError(err)
	}
	if generation == o.generation {
		return o.facing, o.facingErr
	}
	facing, err := stores.Face(mounted)
	if err != nil {
		o.facingErr = o.facingError(err)
		return o.facing, o.facingErr
	}
	o.generation, o.facing, o.facingErr = generation, facing, nil
	return facing, nil
}

// facingError is an error after which there is no earlier state that can be shown.
func (o *observer) facingError(err error) error {
	if o.facing.Revision > 0 {
		return nil
	}
	return err
}

// TLS adds the agent's own role to the report of the server's, and what is
// mounted. That is read first: a reload begins only while nothing newer is mounted
// than what it says that it loads, so that a report names one or the other.
func (o *observer) TLS() publication.Report {
	matched, unmatched := o.match()
	report := o.Node.TLS()
	if facing, err := o.Facing(); err == nil {
		report.Roles[publication.AgentRole] = facing.Report()
		o.remember(slices.Concat(facing.Identity.Chain, facing.Trusts))
	}
	if unmatched == nil {
		report.Mounted = &matched.Publication
	}
	report.Certificates = o.named(report)
	return report.Fit(contract.OwnRoles())
}

// match returns what is mounted, if it belongs together. It is read again only
// when the mounts have changed.
func (o *observer) match() (stores.Matched, error) {
	mounted, generation, err := o.reader.Read()
	if err != nil {
		return stores.Matched{}, err
	}
	o.matching.Lock()
	defer o.matching.Unlock()
	if generation == o.matchedGeneration {
		return o.matched, o.matchedErr
	}
	o.matched, o.matchedErr = stores.Match(mounted)
	o.matchedGeneration = generation
	if o.matchedErr == nil {
		for _, l := range o.matched.Listeners {
			o.remember(slices.Concat(l.Identity.Chain, l.Trusts, l.Starts))
		}
	}
	return o.matched, o.matchedErr
}

// remember keeps certificates for reports that name them.
func (o *observer) remember(certificates []*x509.Certificate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, certificate := range certificates {
		o.certificates[pki.FingerprintOf(certificate).String()] = certificate.Raw
	}
}

// named returns the certificates that the report names.
func (o *observer) named(report publication.Report) map[string][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	named := map[string][]byte{}
	add := func(fingerprints ...string) {
		for _, fingerprint := range fingerprints {
			if der, ok := o.certificates[fingerprint]; ok {
				named[fingerprint] = der
			}
		}
	}
	for _, role := range report.Roles {
		add(role.Presents)
		add(role.Chain...)
		add(role.Trusts...)
	}
	for _, published := range report.Loading {
		add(slices.Collect(maps.Values(published.Identities))...)
		add(published.Chain...)
	}
	if report.Mounted != nil {
		add(slices.Collect(maps.Values(report.Mounted.Identities))...)
		add(report.Mounted.Chain...)
	}
	return named
}

// reloaded records a reload that was proven.
func (o *observer) reloaded(revision int64, took time.Duration) {
	o.Reloaded(publication.ReloadReport{Revision: revision})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reloads.Loaded++
	o.reloads.Last = took
}

// failed records a reload that was refused or not proven.
func (o *observer) failed(report publication.ReloadReport) {
	o.Reloaded(report)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reloads.Failed++
}

// overtaken records a reload that a newer publication has ended.
func (o *observer) overtaken() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reloads.Overtaken++
}

// settled records that nothing is left to be reloaded, or deleted, for a
// publication: what failed before it does not matter any more.
func (o *observer) settled(revision int64) {
	if last := o.Node.TLS().Reload; last.Failure != "" || last.Revision != revision {
		o.Reloaded(publication.ReloadReport{Revision: revision})
	}
}

// Reloads returns what became of reloads.
func (o *observer) Reloads() metrics.Reloads {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.reloads
}

// Mounted returns the newest publication that was seen.
func (o *observer) Mounted() publication.Publication {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mounted
}

// MountLag returns how long that publication took to be seen.
func (o *observer) MountLag() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lag
}

// look reads the mounted publication, and reports whether it is a new one.
func (o *observer) look(now time.Time) (publication.Publication, bool) {
	mounted, _, err := o.reader.Read()
	if err != nil {
		return publication.Publication{}, false // between two states: the next look sees the new one
	}
	data, found := mounted.Node[agent.PublicationKey]
	if !found {
		return publication.Publication{}, false
	}
	published, err := publication.ParsePublication(data)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || published.Revision <= o.mounted.Revision {
		return publication.Publication{}, false
	}
	first := o.mounted.Revision == 0
	o.mounted, o.lag = published, 0
	// What the agent finds at its start was published before there was a mount.
	if !first && !published.PublishedAt.IsZero() {
		o.lag = max(0, now.Sub(published.PublishedAt))
	}
	return published, true
}
