package reload

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/publication"
)

// errOvertaken is why a reload is not begun.
var errOvertaken = errors.New("something newer is mounted")

// carryOut writes, sets and proves.
func (r *Reloader) carryOut(ctx context.Context, p plan, mounted stores.Matched, overtaken func() bool) error {
	for _, s := range p.slots {
		if err := r.write(s); err != nil {
			return err
		}
	}
	before := r.loading
	r.tell(with(before, mounted.Publication))
	if overtaken() {
		r.tell(before)
		return errOvertaken
	}
	r.unproven = p.stores()
	unanswered := r.Server.Alter(ctx, p.changes)
	if _, invalid := errors.AsType[*local.InvalidError](unanswered); invalid {
		r.unproven = nil
		r.tell(before)
		return notAccepted(p, unanswered)
	}
	for _, l := range listenersOf(p.expectations) {
		r.mayHold(l.Name, l.Trusts)
	}
	// Without an answer it may have been done all the same: the listeners tell.
	if err := r.prove(ctx, p.expectations, mounted, overtaken); err != nil {
		return errors.Join(unanswered, err)
	}
	r.unproven = nil
	for _, name := range namesOf(p.expectations) {
		r.holds(name)
	}
	if err := r.settle(p); err != nil {
		return err
	}
	r.tell(nil)
	return nil
}

// tell says, before the server can know of it, what it may come to run on.
func (r *Reloader) tell(loading []publication.Publication) {
	r.loading = loading
	r.Tell(loading)
}

// with adds a publication that is not in the list yet.
func with(list []publication.Publication, p publication.Publication) []publication.Publication {
	others := slices.DeleteFunc(slices.Clone(list), func(known publication.Publication) bool { return known.Revision == p.Revision })
	return append(others, p)
}

func notAccepted(p plan, err error) error {
	words := make([]string, 0, len(p.expectations))
	for _, name := range namesOf(p.expectations) {
		words = append(words, string(name))
	}
	return fmt.Errorf("the server does not accept other stores for %s: %w", strings.Join(words, ", "), err)
}

// settle writes what was loaded into the other slots as well. When both hold the
// same, a request that was given up and arrives late changes nothing.
func (r *Reloader) settle(p plan) error {
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
func (r *Reloader) prove(ctx context.Context, open []expectation, mounted stores.Matched, overtaken func() bool) error {
	end := r.Clock.Now().Add(r.Patience)
	for {
		last := overtaken() || !r.Clock.Now().Before(end)
		look := r.glance
		if last {
			look = r.look
		}
		var err error
		if open, err = look(ctx, open, mounted); err == nil || last {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.Clock.After(r.Pause):
		}
	}
}

// glance looks at the listeners once the server says that it has taken over what
// it was told: before, handshakes would only fail.
func (r *Reloader) glance(ctx context.Context, expectations []expectation, mounted stores.Matched) ([]expectation, error) {
	settings, err := r.settings(ctx, listenersOf(expectations))
	if err == nil {
		err = taken(expectations, settings)
	}
	if err != nil {
		return expectations, err
	}
	return r.compare(ctx, expectations, settings, mounted)
}

// look looks at the listeners, whatever the server says.
func (r *Reloader) look(ctx context.Context, expectations []expectation, mounted stores.Matched) ([]expectation, error) {
	settings, err := r.settings(ctx, listenersOf(expectations))
	if err != nil {
		r.lose(expectations)
		return expectations, err
	}
	return r.compare(ctx, expectations, settings, mounted)
}

// lose forgets what the listeners have loaded: they were configured with other stores,
// and it is unknown whether they have loaded them.
func (r *Reloader) lose(expectations []expectation) {
	for _, e := range expectations {
		r.states[e.listener.Name] = State{Dynamic: r.states[e.listener.Name].Dynamic}
	}
}

// compare updates the states from what the listeners show. It returns those that
// do not show what is expected, and why the first of them does not.
func (r *Reloader) compare(
	ctx context.Context, expectations []expectation, settings map[string]local.Setting, mounted stores.Matched,
) (open []expectation, first error) {
	for _, e := range expectations {
		seen, err := r.see(ctx, e.listener, settings, mounted.Node)
		if err == nil {
			err = e.compare(seen, settings, mounted.Node.Chain, r.Clock.Now())
		}
		if err != nil {
			open = append(open, e)
		}
		if first == nil {
			first = err
		}
	}
	return open, first
}

// see shakes hands with one listener and updates its state.
func (r *Reloader) see(ctx context.Context, l stores.Listener, settings map[string]local.Setting, own stores.Identity) (sight, error) {
	seen, err := r.Server.Look(ctx, l.Name, server.Certificate(own))
	if err != nil {
		// It may have anything loaded.
		r.states[l.Name] = State{Dynamic: isDynamic(l.Name, settings)}
		return sight{}, err
	}
	tried := sight{Seen: seen, trial: r.try(ctx, l.Name, seen, settings)}
	r.states[l.Name] = r.conclude(l, tried, settings)
	if len(r.unproven) == 0 {
		r.holds(l.Name)
	}
	return tried, nil
}
