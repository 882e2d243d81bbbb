package reload

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

// Server is what a reload asks of the running server; local.Server is one.
type Server interface {
	Settings(ctx context.Context, names []string) (map[string]local.Setting, error)
	Validate(ctx context.Context, changes []local.Change) error
	Alter(ctx context.Context, changes []local.Change) error
	Look(ctx context.Context, listener contract.Listener, identity tls.Certificate) (local.Seen, error)
}

// Options are what a Reloader works with.
type Options struct {
	Server Server
	// Directory is where the server finds its stores; Write puts one there, at
	// once and as a whole.
	Directory string
	Write     func(name string, data []byte) error
	// Clock measures the pauses and judges certificates.
	Clock clock.Clock
	// Patience is how long a server may take until it shows what it was told to
	// load; Pause lies between two looks.
	Patience, Pause time.Duration
}

// Reloader changes what one running server has loaded, and knows what that is.
// It is not for concurrent use.
type Reloader struct {
	Options

	started []stores.Listener
	states  map[contract.Listener]State
	files   places
	// doubt is set while the last look at what was to be changed has not shown
	// everything as expected.
	doubt bool
}

// New makes a reloader for a server that was started with the stores. It knows
// the listeners that the server listens on, and no others.
func New(options Options, started stores.Matched) *Reloader {
	r := &Reloader{Options: options, states: map[contract.Listener]State{}, files: places{}}
	for _, l := range started.Listeners {
		if !started.Config.ListensOn(l.Name) {
			continue
		}
		start := l.AtStart()
		r.started = append(r.started, start)
		for _, kind := range stores.Kinds() {
			r.files[path.Join(r.Directory, start.File(kind))] = start.Certificates(kind)
			for _, slot := range stores.Slots() {
				r.files[path.Join(r.Directory, kind.Slot(l.Name, slot))] = l.Certificates(kind)
			}
		}
	}
	return r
}

// States returns what each listener has loaded, as far as that is known.
func (r *Reloader) States() map[contract.Listener]State { return maps.Clone(r.states) }

// wanted returns what the listeners of the running server should have loaded. A
// listener that is configured since is none of its listeners yet; one that is
// not configured any more is left alone.
func (r *Reloader) wanted(mounted stores.Matched) []stores.Listener {
	return slices.DeleteFunc(slices.Clone(mounted.Listeners), func(l stores.Listener) bool {
		return !slices.ContainsFunc(r.started, func(s stores.Listener) bool { return s.Name == l.Name })
	})
}

// Outcome is what became of a step.
type Outcome struct {
	// Complete is true when every listener has loaded what is mounted.
	Complete bool
	// Tried lists the listeners whose stores were to be changed.
	Tried []contract.Listener
	// Failure is one sentence for people; empty when nothing failed.
	Failure string
}

// Step brings the server to what is mounted, if that is wanted and not so
// already. It gives up waiting for proof when superseded says that something
// newer is mounted.
func (r *Reloader) Step(ctx context.Context, mounted stores.Matched, superseded func() bool) Outcome {
	wanted := r.wanted(mounted)
	if err := r.examine(ctx, mounted, wanted); err != nil {
		return Outcome{Failure: sentence(err)}
	}
	if mounted.Publication.Loading == contract.LoadByRestart {
		return r.forget(ctx, mounted, wanted, superseded)
	}
	changed := Changed(r.states, wanted)
	if len(changed) == 0 {
		return Outcome{Complete: !r.doubt}
	}
	settings, err := r.Server.Settings(ctx, names(wanted))
	if err != nil {
		return Outcome{Tried: listenersOf(changed), Failure: sentence(err)}
	}
	err = r.carryOut(ctx, loading(r.Directory, wanted, changed, settings), mounted, superseded)
	return Outcome{Complete: err == nil, Tried: listenersOf(changed), Failure: sentence(err)}
}

// examine finds out what the listeners have loaded, unless that is known.
func (r *Reloader) examine(ctx context.Context, mounted stores.Matched, wanted []stores.Listener) error {
	var unknown []expectation
	for _, l := range wanted {
		if r.doubt || !r.states[l.Name].Known() {
			unknown = append(unknown, expectation{listener: l})
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	// What is not as it should be is for the next step.
	err := r.look(ctx, unknown, mounted)
	r.doubt = r.doubt && err != nil
	for _, e := range unknown {
		if _, seen := r.states[e.listener.Name]; !seen {
			return err
		}
	}
	return nil
}

// forget deletes the settings of earlier reloads, if the server was started with
// exactly what is mounted.
func (r *Reloader) forget(ctx context.Context, mounted stores.Matched, wanted []stores.Listener, superseded func() bool) Outcome {
	complete := len(Changed(r.states, wanted)) == 0
	start := make([]stores.Listener, 0, len(wanted))
	for _, l := range wanted {
		start = append(start, l.AtStart())
	}
	if !r.anyDynamic() || !slices.EqualFunc(start, r.started, sameStores) {
		return Outcome{Complete: complete}
	}
	settings, err := r.Server.Settings(ctx, names(wanted))
	if err != nil {
		return Outcome{Tried: namesOf(wanted), Failure: sentence(err)}
	}
	p := forgetting(r.Directory, start, settings)
	if len(p.changes) == 0 {
		return Outcome{Complete: complete}
	}
	err = r.carryOut(ctx, p, mounted, superseded)
	return Outcome{Complete: len(Changed(r.states, wanted)) == 0, Tried: p.listeners(), Failure: sentence(err)}
}

func (r *Reloader) anyDynamic() bool {
	for _, s := range r.states {
		if s.Dynamic {
			return true
		}
	}
	return false
}

func sameStores(a, b stores.Listener) bool {
	return a.Name == b.Name && sameCertificates(a.Identity.Chain, b.Identity.Chain) && sameCertificates(a.Trusts, b.Trusts)
}

// carryOut writes, validates, sets and proves.
func (r *Reloader) carryOut(ctx context.Context, p plan, mounted stores.Matched, superseded func() bool) error {
	for _, s := range p.slots {
		if err := r.write(s); err != nil {
			return err
		}
	}
	if err := r.Server.Validate(ctx, p.changes); err != nil {
		return fmt.Errorf("the server does not accept other stores for %s: %w", listed(p.listeners()), err)
	}
	unanswered := r.Server.Alter(ctx, p.changes)
	if _, invalid := errors.AsType[*local.InvalidError](unanswered); invalid {
		return fmt.Errorf("the server does not accept other stores for %s: %w", listed(p.listeners()), unanswered)
	}
	// Without an answer it may have been done all the same: the listeners tell.
	if err := r.prove(ctx, p, mounted, superseded); err != nil {
		return errors.Join(err, unanswered)
	}
	// Now that both slots of a store hold the same, a request that was given up
	// and arrives late changes nothing.
	for _, written := range p.slots {
		for _, s := range stores.Slots() {
			other := slot{listener: written.listener, kind: written.kind, name: written.kind.Slot(written.listener.Name, s)}
			if other.name == written.name {
				continue
			}
			if err := r.write(other); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Reloader) write(s slot) error {
	r.files[path.Join(r.Directory, s.name)] = s.listener.Certificates(s.kind)
	return r.Write(s.name, s.listener.PEM(s.kind))
}

// prove looks until everything is as expected or time is over.
func (r *Reloader) prove(ctx context.Context, p plan, mounted stores.Matched, superseded func() bool) error {
	r.doubt = true
	end := r.Clock.Now().Add(r.Patience)
	for {
		err := r.look(ctx, p.expectations, mounted)
		r.doubt = err != nil
		if err == nil || !r.Clock.Now().Before(end) || superseded() {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.Clock.After(r.Pause):
		}
	}
}

// look updates the states from what the server says and what its listeners show.
// The error is the first thing that is not as expected.
func (r *Reloader) look(ctx context.Context, expectations []expectation, mounted stores.Matched) error {
	listeners := make([]stores.Listener, 0, len(expectations))
	for _, e := range expectations {
		listeners = append(listeners, e.listener)
	}
	settings, err := r.Server.Settings(ctx, names(listeners))
	if err != nil {
		return err
	}
	var first error
	for _, e := range expectations {
		name := e.listener.Name
		seen, err := r.Server.Look(ctx, name, server.Certificate(mounted.Node))
		if err != nil {
			// It may have anything loaded.
			r.states[name] = State{Dynamic: isDynamic(name, settings)}
		} else {
			r.states[name] = conclude(r.states[name], e.listener, seen, settings, r.files)
			err = e.compare(seen, settings, mounted.Node.Chain, r.Clock.Now())
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func namesOf(listeners []stores.Listener) []contract.Listener {
	list := make([]contract.Listener, 0, len(listeners))
	for _, l := range listeners {
		list = append(list, l.Name)
	}
	return list
}

func listenersOf(changed []Store) []contract.Listener {
	var list []contract.Listener
	for _, s := range changed {
		list = append(list, s.Listener)
	}
	return slices.Compact(list)
}

func listed(listeners []contract.Listener) string {
	words := make([]string, 0, len(listeners))
	for _, l := range listeners {
		words = append(words, string(l))
	}
	return strings.Join(words, ", ")
}

// longest bounds a sentence; what servers say may be long.
const longest = 500

// sentence makes one line of an error, and nothing of none.
func sentence(err error) string {
	if err == nil {
		return ""
	}
	line := strings.Join(strings.Fields(err.Error()), " ")
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + "…"
	}
	return line
}
