package agent

import (
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/kafka/agent/status"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
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
	mounted    contract.Publication
	lag        time.Duration
}

func newObserver(reader *mount.Reader) *observer {
	return &observer{Node: &status.Node{}, reader: reader}
}

// Facing returns what the agent's own server presents and trusts now. While the
// mounts are between two states it is what it was before.
func (o *observer) Facing() (stores.Facing, error) {
	mounted, generation, err := o.reader.Read()
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		return o.facing, o.unlessFacing(err)
	}
	if generation == o.generation {
		return o.facing, o.facingErr
	}
	facing, err := stores.Face(mounted)
	if err != nil {
		o.facingErr = o.unlessFacing(err)
		return o.facing, o.facingErr
	}
	o.generation, o.facing, o.facingErr = generation, facing, nil
	return facing, nil
}

// unlessFacing drops an error when an earlier state can still be shown.
func (o *observer) unlessFacing(err error) error {
	if o.facing.Revision > 0 {
		return nil
	}
	return err
}

// TLS adds the agent's own role to the report of the server's.
func (o *observer) TLS() contract.TLSReport {
	report := o.Node.TLS()
	if facing, err := o.Facing(); err == nil {
		report.Roles[contract.AgentRole] = facing.Report()
	}
	return report
}

// Mounted returns the newest publication that was seen.
func (o *observer) Mounted() contract.Publication {
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
func (o *observer) look(now time.Time) (contract.Publication, bool) {
	mounted, _, err := o.reader.Read()
	if err != nil {
		return contract.Publication{}, false // between two states: the next look sees the new one
	}
	data, found := mounted.Node[contract.PublicationKey]
	if !found {
		return contract.Publication{}, false
	}
	publication, err := contract.ParsePublication(data)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil || publication.Revision <= o.mounted.Revision {
		return contract.Publication{}, false
	}
	first := o.mounted.Revision == 0
	o.mounted, o.lag = publication, 0
	// What the agent finds at its start was published before there was a mount.
	if !first && !publication.PublishedAt.IsZero() {
		o.lag = max(0, now.Sub(publication.PublishedAt))
	}
	return publication, true
}
