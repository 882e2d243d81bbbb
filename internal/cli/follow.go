package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/rotation"
)

// glance is how often a watch looks.
const glance = time.Second

// grace is how long what the operator writes down may lag behind what it did.
const grace = 30 * time.Second

// errUnserved is a request that the operator took off without acting on it.
var errUnserved = errors.New("the operator removed the request without acting on it: the events of the Kafka say why")

// errLeft is a watch that ended before what it watched.
var errLeft = errors.New("stopped watching; the operator carries on without the watch")

// watching is what a watch has to know of the time before it.
type watching struct {
	request

	kafka  *kafkav1.Kafka
	before rotation.Record
}

// follow tells what becomes of a request until nothing is left to do.
func (o *rotateOptions) follow(ctx context.Context, c cluster, w watching, out io.Writer) error {
	begin, gone, last := c.clock.Now(), time.Time{}, ""
	return c.repeat(ctx, func() (bool, error) {
		record, err := c.record(ctx, w.kafka, w.domain)
		if err != nil {
			return false, err
		}
		plan := record.Plan()
		phase := record.Words.PhaseOf(record.Snapshot, plan)
		passed := ago(c.clock.Since(begin))
		if line := fmt.Sprintf("%s: %s", phase, record.Words.Message(record.Snapshot, plan, record.Subject())); line != last {
			last = line
			if _, err := fmt.Fprintf(out, "%6s  %s\n", passed, line); err != nil {
				return false, err
			}
		}
		taken, err := c.taken(ctx, w.request)
		if err != nil || !taken {
			gone = time.Time{}
			return false, err
		}
		if gone.IsZero() {
			gone = c.clock.Now()
		}
		if !o.acted(w, record) {
			if c.clock.Since(gone) >= grace {
				return false, errUnserved
			}
			return false, nil
		}
		if !w.isOver(record.Words, phase) {
			return false, nil
		}
		_, err = fmt.Fprintf(out, "Done after %s.\n", passed)
		return true, err
	})
}

// isOver reports whether nothing is left to follow once a request was taken. A withdrawal
// leaves the replacement that goes on as it is.
func (w watching) isOver(words *rotation.Words, phase rotation.Phase) bool {
	return w.withdraws || words.Settled(phase)
}

// acted reports whether what the operator has written down is the consequence of a
// request: another certificate shall stay, or nothing is left of what was distrusted. Of a
// request that was withdrawn before anything was done there is nothing to write down.
func (o *rotateOptions) acted(w watching, after rotation.Record) bool {
	if w.withdraws {
		return true
	}
	if o.distrust && !o.replace {
		return len(otherKeys(after.Snapshot)) == 0
	}
	return after.Snapshot.Issuing != w.before.Snapshot.Issuing
}

// taken reports whether the operator has taken the annotations of a request off,
// which it does when it acts on them.
func (c connection) taken(ctx context.Context, r request) (bool, error) {
	secret, err := c.secret(ctx, r.secret)
	if apierrors.IsNotFound(err) {
		return false, nil // it is being recreated
	}
	if err != nil {
		return false, err
	}
	for annotation := range r.annotations {
		if _, waits := secret.Annotations[annotation]; waits {
			return false, nil
		}
	}
	return true, nil
}

// repeat looks at once and then again and again, until it has seen enough.
func (c connection) repeat(ctx context.Context, look func() (enough bool, err error)) error {
	ticker := c.clock.NewTicker(glance)
	defer ticker.Stop()
	for {
		enough, err := look()
		if ctx.Err() != nil {
			return errLeft
		}
		if err != nil || enough {
			return err
		}
		select {
		case <-ctx.Done():
			return errLeft
		case <-ticker.C():
		}
	}
}
