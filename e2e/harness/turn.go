package harness

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Turned says whether an authority that is none of the outgoing ones leads what
// applications read, and, of a cluster CA, is in use in the place of those.
func (a Authority) Turned(now Trust, outgoing []*x509.Certificate) bool {
	if len(now.Application) == 0 || slices.ContainsFunc(outgoing, now.Leads) {
		return false
	}
	if a == ClientsCA {
		return true // who presents its leaves is for the phase to say
	}
	for _, old := range outgoing {
		if state := now.Anchor(old).State; state != trust.PhaseOut && state != trust.Absent {
			return false
		}
	}
	return now.Anchor(now.Application[0]).State == trust.InUseAll
}

// UntilTurned waits until an authority has turned and nothing is left to be done
// now, and returns what the Kafka resource says of it then.
func (k Kafka) UntilTurned(ctx context.Context, a Authority, outgoing []*x509.Certificate, phases ...rotation.Phase) (string, error) {
	var phase rotation.Phase
	var message string
	err := Poll(ctx, func() (bool, error) {
		resource, err := k.Resource(ctx)
		if err != nil {
			return false, err
		}
		now, err := k.Trust(ctx, a)
		phase, message = a.Phase(resource)
		return err == nil && a.Turned(now, outgoing) && slices.Contains(phases, phase) && Settled(resource), err
	})
	if err != nil {
		return "", fmt.Errorf("waiting until %s of Kafka %s has turned: %w; it is in phase %q: %s", a, k.Name, err, phase, message)
	}
	return string(phase) + ": " + message, nil
}

// SettledPhases are those in which a person waits for nothing any more.
func SettledPhases() []rotation.Phase {
	return slices.DeleteFunc(authorities.Words().Phases(), func(p rotation.Phase) bool { return !authorities.Words().Settled(p) })
}

// MarkTrust makes each change of the Secrets of an authority a phase of the
// account, until it is stopped. changed is told of each, in a few words.
func (l *Load) MarkTrust(ctx context.Context, k Kafka, a Authority, changed func(told string, now Trust)) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		var seen Trust
		ended <- k.FollowTrust(ctx, a, func(now Trust) (bool, error) {
			changes, first := now.Changes(seen), len(seen.Application) == 0
			seen = now
			if told := strings.Join(changes, ", "); !first && told != "" {
				l.SetPhase(told)
				changed(told, now)
			}
			return false, nil
		})
	}()
	return sync.OnceValue(func() error {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}
