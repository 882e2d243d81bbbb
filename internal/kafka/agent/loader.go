package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/reload"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// loader lets the running server load what is mounted. It belongs to one process
// of the server.
type loader struct {
	*firstProcess

	reloader *reload.Reloader
	server   *local.Client
	// identity is the node's own that the server is known to accept.
	identity stores.Identity
	// revision is the newest publication that was seen whole, since since.
	revision int64
	since    time.Time
	// done is true when nothing is left to do for that revision; checked is when
	// the server was last asked whether that is still so.
	done    bool
	checked time.Time
	// pause grows with each failure; nothing is tried before next.
	pause time.Duration
	next  time.Time
}

func (a *firstProcess) newLoader(started stores.Matched) *loader {
	l := &loader{firstProcess: a, identity: started.Node, server: local.NewClient(a.server(started))}
	l.reloader = reload.New(reload.Options{
		Server:    l.server,
		Directory: a.storesDir(),
		Write:     a.writeStore,
		Tell:      a.observer.Loading,
		Clock:     a.Clock,
		Patience:  proofPatience,
		Pause:     proofPause,
	}, started)
	l.tell(started)
	return l
}

// server is how the started server is reached.
func (a *firstProcess) server(started stores.Matched) local.Server {
	return local.Server{
		Host: a.Host, NodeID: started.Config.NodeID, Roles: started.Config.Roles, Voters: started.Voters(),
		Known: func() local.Known { return *a.observer.known.Load() },
		Dial:  a.Dial, Now: a.Clock.Now, Limit: requestLimit,
	}
}

// run looks at the mounts until the context ends.
func (l *loader) run(ctx context.Context) {
	defer l.close()
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
	if l.done {
		l.check(ctx, now)
	}
	if l.done || now.Before(l.next) || l.waitsForItsTurn(mounted, now) {
		return
	}
	l.tell(mounted)
	outcome := l.reloader.Step(ctx, mounted, l.overtaken)
	if ctx.Err() != nil {
		return // the server is ending
	}
	l.report(outcome)
	if outcome.Complete {
		l.identity = mounted.Node
		l.tell(mounted)
	}
}

// waitsForItsTurn reports whether a reload is to begin, but not yet.
func (l *loader) waitsForItsTurn(mounted stores.Matched, now time.Time) bool {
	return now.Before(l.since.Add(l.Turn(mounted.Config.NodeID))) && l.reloader.Differs(mounted)
}

// overtaken reports whether something else is mounted, or about to be.
func (l *loader) overtaken() bool {
	mounted, err := l.observer.match()
	return err != nil || mounted.Publication.Revision > l.revision
}

// check regularly asks the server whether another client has changed its settings.
func (l *loader) check(ctx context.Context, now time.Time) {
	if now.Before(l.checked.Add(checkPause)) {
		return
	}
	l.checked = now
	same, err := l.reloader.Check(ctx)
	switch {
	case err != nil:
		l.Log.Debug("Asking the server for its settings failed", "error", err)
	case !same:
		l.done = false
		l.Log.Warn("The server uses other certificates than it was given; checking again")
	}
}

func (l *loader) close() {
	if err := l.server.Close(); err != nil {
		l.Log.Debug("Closing the connection to the server failed", "error", err)
	}
}

// report records what came of a step and when to try again.
func (l *loader) report(outcome reload.Outcome) {
	roles := map[publication.Role]*publication.RoleReport{}
	for listener, state := range l.reloader.States() {
		roles[listener] = nil
		if state.Known() {
			roles[listener] = new(state.Report())
			l.observer.remember(slices.Concat(state.Chain, state.Trusts))
		}
	}
	l.observer.Loaded(roles)
	// Complete comes last: a report that contains it also contains the result of the reload.
	if outcome.Complete {
		defer l.observer.Complete(l.revision)
	}
	now := l.Clock.Now()
	l.done, l.checked = outcome.Failure == "", now
	if !l.done {
		l.pause = min(max(2*l.pause, firstRetry), lastRetry)
		l.next = now.Add(l.pause)
	}
	log := l.Log.With("revision", l.revision, "listeners", outcome.Tried, "secondsSinceMount", now.Sub(l.since).Seconds())
	switch {
	case outcome.Failure == "" && len(outcome.Tried) == 0:
		if outcome.Complete {
			l.observer.settled(l.revision)
		}
	case outcome.Failure == "":
		l.observer.reloaded(l.revision, now.Sub(l.since))
		log.Info("Reloaded")
	case outcome.Overtaken:
		l.observer.overtaken()
		log.Info("A reload was overtaken by a newer publication", "because", outcome.Failure)
	case len(outcome.Tried) == 0:
		log.Warn("It is unknown what the server has loaded", "because", outcome.Failure, "nextTryAfter", l.pause.String())
	default:
		l.observer.failed(publication.ReloadReport{Revision: l.revision, Failure: outcome.Failure, Refused: outcome.Refused, Early: outcome.Early})
		log.Warn("A reload failed", "because", outcome.Failure, "nextTryAfter", l.pause.String())
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
func (a *firstProcess) writeStore(name string, data []byte) error {
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
