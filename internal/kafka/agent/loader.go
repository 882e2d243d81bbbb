package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/reload"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
)

// loader lets the running server load what is mounted. It belongs to one process
// of the server.
type loader struct {
	*agent

	reloader *reload.Reloader
	// identity is the node's own that the server is known to accept.
	identity stores.Identity
	// revision is the newest publication that was seen whole, since since.
	revision int64
	since    time.Time
	// done is true when nothing is left to do for that revision.
	done bool
	// pause grows with each failure; nothing is tried before next.
	pause time.Duration
	next  time.Time
}

func (a *agent) newLoader(started stores.Matched) *loader {
	l := &loader{agent: a, identity: started.Node}
	l.reloader = reload.New(reload.Options{
		Server:    a.server(started),
		Directory: a.storesDir(),
		Write:     a.writeStore,
		Clock:     a.Clock,
		Patience:  proofPatience,
		Pause:     proofPause,
	}, started)
	l.tell(started)
	return l
}

// server is how the started server is reached.
func (a *agent) server(started stores.Matched) local.Server {
	s := local.Server{
		Host: a.Host, NodeID: started.Config.NodeID, Listener: contract.ControlPlaneListener,
		Voters: started.Voters(),
		Known:  func() local.Known { return *a.observer.known.Load() },
		Dial:   a.Dial, Now: a.Clock.Now, Limit: requestLimit,
	}
	if started.Config.HasRole(contract.RoleBroker) {
		s.Listener = contract.ReplicationListener
	}
	return s
}

// run looks at the mounts until the context ends.
func (l *loader) run(ctx context.Context) {
	for {
		if l.observer.Readiness().Ready {
			l.step(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.Clock.After(watchPause):
		}
	}
}

// step does what there is to do for the mounted publication, if it is time.
func (l *loader) step(ctx context.Context) {
	mounted, err := l.observer.match()
	if err != nil || mounted.Publication.Revision < l.revision {
		return // between two states
	}
	now := l.Clock.Now()
	if revision := mounted.Publication.Revision; revision > l.revision {
		l.revision, l.since, l.done, l.pause, l.next = revision, now, false, 0, time.Time{}
	}
	if l.done || now.Before(l.next) {
		return
	}
	l.tell(mounted)
	outcome := l.reloader.Step(ctx, mounted, func() bool { return l.observer.Mounted().Revision > l.revision })
	if ctx.Err() != nil {
		return // the server is ending
	}
	l.report(outcome)
	if outcome.Complete {
		l.identity = mounted.Node
		l.tell(mounted)
	}
}

// report records what came of a step and when to try again.
func (l *loader) report(outcome reload.Outcome) {
	roles := map[contract.Listener]*contract.RoleReport{}
	for listener, state := range l.reloader.States() {
		roles[listener] = nil
		if state.Known() {
			roles[listener] = new(state.Report())
			l.observer.remember(state.Chain)
		}
	}
	l.observer.Loaded(roles)
	if outcome.Complete {
		l.observer.Complete(l.revision)
	}
	l.done = outcome.Failure == ""
	if !l.done {
		l.pause = min(max(2*l.pause, firstRetry), lastRetry)
		l.next = l.Clock.Now().Add(l.pause)
	}
	took := l.Clock.Since(l.since)
	switch {
	case len(outcome.Tried) == 0 && outcome.Failure != "":
		l.Log.Warn("What the server has loaded is not known", "revision", l.revision, "because", outcome.Failure)
	case len(outcome.Tried) == 0:
		l.observer.Settled(l.revision)
	case outcome.Failure != "":
		l.observer.reloaded(l.revision, outcome.Failure, took)
		l.Log.Warn("A reload failed", "revision", l.revision, "listeners", outcome.Tried, "because", outcome.Failure, "nextTryAfter", l.pause.String())
	default:
		l.observer.reloaded(l.revision, "", took)
		l.Log.Info("Reloaded", "revision", l.revision, "listeners", outcome.Tried, "secondsSinceMount", took.Seconds())
	}
}

// tell says by which leaves the server is recognised from now on, and which
// identities it may accept.
func (l *loader) tell(mounted stores.Matched) {
	var known local.Known
	for _, identity := range []stores.Identity{l.identity, mounted.Node} {
		if leaf := identity.Fingerprint(); !slices.Contains(known.Leaves, leaf) {
			known.Leaves = append(known.Leaves, leaf)
			known.Identities = append(known.Identities, server.Certificate(identity))
		}
	}
	for _, state := range l.reloader.States() {
		if len(state.Chain) > 0 {
			known.Leaves = append(known.Leaves, pki.FingerprintOf(state.Chain[0]).String())
		}
		known.Anchors = append(known.Anchors, state.Trusts...)
	}
	for _, listener := range mounted.Listeners {
		known.Anchors = append(known.Anchors, listener.Trusts...)
	}
	l.observer.known.Store(&known)
}

// writeStore puts a store where the server reads it: it never sees half of one.
func (a *agent) writeStore(name string, data []byte) error {
	target := filepath.Join(a.storesDir(), name)
	half := target + ".new"
	if err := os.WriteFile(half, data, ownerOnly); err != nil {
		return fmt.Errorf("writing a store: %w", err)
	}
	if err := os.Rename(half, target); err != nil {
		return fmt.Errorf("putting a store in its place: %w", err)
	}
	return nil
}
