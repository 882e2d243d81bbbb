package reload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/publication"
)

// Server is what a reload asks of the running server; local.Client is one.
type Server interface {
	Settings(ctx context.Context, names []string) (map[string]local.Setting, error)
	Alter(ctx context.Context, changes []local.Change) error
	Look(ctx context.Context, listener publication.Role, identity tls.Certificate) (local.Seen, error)
}

// Options are what a Reloader works with.
type Options struct {
	Server Server
	// Directory is where the server finds its stores; Write puts one there, at
	// once and as a whole.
	Directory string
	Write     func(name string, data []byte) error
	// Tell is called with the publications that the server may come to run on, because
	// it was told to: before it is told, and when it is proven that it has.
	Tell func(loading []publication.Publication)
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

	// started are the listeners of the server as it was started.
	started []stores.Listener
	states  map[publication.Role]State
	files   places
	// held are the sets of anchors that each listener may have loaded: one when that is
	// proven, several while it may be on its way from one to another, none before its
	// settings were read.
	held map[publication.Role][][]*x509.Certificate
	// leaves are those that listeners can be offered, to see which CAs they trust.
	leaves []stores.Identity
	// locations are the effective values of settings when they were last read.
	locations map[string]string
	// unproven are the stores that the server was told to load, without proof, and
	// loading the publications that they belong to.
	unproven []Store
	loading  []publication.Publication
}

// New makes a reloader for a server that was started with the stores. It knows
// the listeners that the server listens on, and no others.
func New(options Options, started stores.Matched) *Reloader {
	r := &Reloader{
		Options: options, states: map[publication.Role]State{}, files: places{}, locations: map[string]string{},
		held: map[publication.Role][][]*x509.Certificate{},
	}
	for _, l := range started.Listeners {
		if !started.Config.ListensOn(l.Name) {
			continue
		}
		l = l.Loadable()
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
func (r *Reloader) States() map[publication.Role]State { return maps.Clone(r.states) }

// Outcome is what became of a step.
type Outcome struct {
	// Complete is true when every listener has loaded what is mounted.
	Complete bool
	// Tried lists the listeners whose stores were to be changed.
	Tried []publication.Role
	// Failure is one sentence for people; empty when nothing failed.
	Failure string
	// Refused is true when the server itself was the reason of the failure: it does
	// not accept the stores, or shows others than it was told to load.
	Refused bool
	// Early is true when nothing was loaded, because a certificate that would have to be
	// presented is not valid yet.
	Early bool
	// Overtaken is true when a newer publication has ended the wait for proof:
	// that is no failure.
	Overtaken bool
}

// Step brings the server to what is mounted, if that is wanted and not so
// already. It gives up waiting for proof when overtaken says that something
// newer is mounted.
func (r *Reloader) Step(ctx context.Context, mounted stores.Matched, overtaken func() bool) Outcome {
	wanted := r.wanted(mounted)
	r.collect(mounted)
	if _, err := r.Check(ctx); err != nil {
		return Outcome{Failure: sentence(err)}
	}
	if err := r.examine(ctx, mounted, wanted); err != nil {
		return Outcome{Failure: sentence(err)}
	}
	planned := r.load
	if mounted.Publication.Loading == publication.LoadByRestart {
		planned, wanted = r.forget, atStart(wanted)
	}
	p, err := planned(ctx, wanted)
	tried := namesOf(p.expectations)
	switch {
	case err != nil:
		tried = listenersIn(Changed(r.states, wanted))
	case len(p.changes) > 0:
		err = r.carryOut(ctx, p, mounted, overtaken)
	}
	return Outcome{
		Complete:  err == nil && len(Changed(r.states, wanted)) == 0,
		Tried:     tried,
		Failure:   sentence(err),
		Refused:   isRefusal(err),
		Early:     isEarly(err),
		Overtaken: err != nil && overtaken(),
	}
}

// isRefusal reports whether the server has said or shown that it does not load
// what it was told to.
func isRefusal(err error) bool {
	_, invalid := errors.AsType[*local.InvalidError](err)
	_, unproven := errors.AsType[*UnprovenError](err)
	return invalid || unproven
}

func isEarly(err error) bool {
	_, early := errors.AsType[*EarlyError](err)
	return early
}

// Check reports whether the server still has the settings of the last check. If another
// client has changed them, Check forgets what the listeners have loaded.
func (r *Reloader) Check(ctx context.Context) (same bool, err error) {
	before := maps.Clone(r.locations)
	if _, err := r.settings(ctx, r.started); err != nil {
		return true, err
	}
	if len(before) == 0 || maps.Equal(before, r.locations) {
		return true, nil
	}
	clear(r.states)
	for _, l := range r.started {
		r.mayHold(l.Name, r.offered(l)...)
	}
	return false, nil
}

// Differs reports whether something else is mounted than the server is known to
// have loaded, or, as long as that is not known, than it was started with.
func (r *Reloader) Differs(mounted stores.Matched) bool {
	return slices.ContainsFunc(r.wanted(mounted), func(l stores.Listener) bool {
		if !r.states[l.Name].Known() {
			return !slices.ContainsFunc(r.started, func(start stores.Listener) bool { return sameStores(start, l.AtStart()) })
		}
		return len(Changed(r.states, []stores.Listener{l})) > 0
	})
}

// wanted returns what the listeners of the running server should have loaded. A
// listener that is configured since is none of its listeners yet; one that is
// not configured any more is left alone.
func (r *Reloader) wanted(mounted stores.Matched) []stores.Listener {
	return slices.DeleteFunc(slices.Clone(mounted.Listeners), func(l stores.Listener) bool {
		return !slices.ContainsFunc(r.started, func(s stores.Listener) bool { return s.Name == l.Name })
	})
}

// load plans to load what has changed, and once more what was never proven.
func (r *Reloader) load(ctx context.Context, wanted []stores.Listener) (plan, error) {
	changed := slices.Concat(Changed(r.states, wanted), r.unproven)
	if len(changed) == 0 {
		return plan{}, nil
	}
	if err := r.early(wanted); err != nil {
		return plan{}, err
	}
	settings, err := r.settings(ctx, wanted)
	if err != nil {
		return plan{}, err
	}
	for _, l := range wanted {
		// A controller would take the setting over without looking into the store.
		if len(l.Loadable().Identity.Chain) < len(l.Identity.Chain) {
			return plan{}, unproven("%s cannot present %s: Kafka loads only chains in which each certificate is followed by its issuer's",
				l.Name, described(l.Identity.Chain))
		}
	}
	return loading(r.Directory, wanted, changed, settings), nil
}

// EarlyError says that a listener would come to present what is not valid yet, by the
// clock of this machine.
type EarlyError struct {
	Listener publication.Role
	// Certificate is the first of its chain that is not valid yet.
	Certificate *x509.Certificate
	Now         time.Time
}

func (e *EarlyError) Error() string {
	return fmt.Sprintf("%s is not given another leaf yet: certificate %q is valid from %s, and the clock of this machine says %s; the operator's clock is ahead or this one is behind",
		e.Listener, e.Certificate.Subject, e.Certificate.NotBefore.UTC().Format(time.RFC3339), e.Now.UTC().Format(time.RFC3339))
}

// early says which chain that is to be loaded is not valid yet: what is presented now
// serves better.
func (r *Reloader) early(wanted []stores.Listener) error {
	now := r.Clock.Now()
	for _, l := range wanted {
		if r.states[l.Name].has(stores.KeyStore(), l) {
			continue
		}
		for _, cert := range l.Identity.Chain {
			if now.Before(cert.NotBefore) {
				return &EarlyError{Listener: l.Name, Certificate: cert, Now: now}
			}
		}
	}
	return nil
}

// forget plans to delete the settings of earlier reloads, if the server was
// started with exactly what is mounted.
func (r *Reloader) forget(ctx context.Context, wanted []stores.Listener) (plan, error) {
	if !r.anyDynamic() || !slices.EqualFunc(wanted, r.started, sameStores) {
		return plan{}, nil
	}
	settings, err := r.settings(ctx, wanted)
	if err != nil {
		return plan{}, err
	}
	return forgetting(r.Directory, wanted, settings), nil
}

func atStart(listeners []stores.Listener) []stores.Listener {
	list := make([]stores.Listener, 0, len(listeners))
	for _, l := range listeners {
		list = append(list, l.AtStart())
	}
	return list
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

// settings asks for the listeners' settings, and remembers what is effective.
func (r *Reloader) settings(ctx context.Context, listeners []stores.Listener) (map[string]local.Setting, error) {
	settings, err := r.Server.Settings(ctx, names(listeners))
	if err != nil {
		return nil, err
	}
	for _, l := range listeners {
		for _, kind := range stores.Kinds() {
			name := kind.LocationSetting(l.Name)
			r.locations[name] = settings[name].Effective
		}
	}
	return settings, nil
}

// examine finds out what the listeners have loaded, as far as that is not known.
func (r *Reloader) examine(ctx context.Context, mounted stores.Matched, wanted []stores.Listener) error {
	unknown := slices.DeleteFunc(slices.Clone(wanted), func(l stores.Listener) bool { return r.states[l.Name].Known() })
	if len(unknown) == 0 {
		return nil
	}
	settings, err := r.settings(ctx, unknown)
	if err != nil {
		return err
	}
	for _, l := range unknown {
		if len(r.held[l.Name]) == 0 {
			// Nothing was written since the server has read what it was started with.
			current, _ := r.current(l.Name, settings)
			r.mayHold(l.Name, current)
		}
		if start, ok := r.asStarted(l.Name, settings); ok {
			r.states[l.Name] = start
			r.holds(l.Name)
			continue
		}
		if _, err := r.see(ctx, l, settings, mounted.Node); err != nil {
			return err
		}
	}
	return nil
}

// asStarted is the state of a listener that runs on the files its server was
// started with, if it does.
func (r *Reloader) asStarted(listener publication.Role, settings map[string]local.Setting) (State, bool) {
	i := slices.IndexFunc(r.started, func(l stores.Listener) bool { return l.Name == listener })
	start := r.started[i]
	for _, kind := range stores.Kinds() {
		if settings[kind.LocationSetting(listener)].Effective != path.Join(r.Directory, start.File(kind)) {
			return State{}, false
		}
	}
	if len(contested(append(slices.Clone(r.held[listener]), start.Trusts))) > 0 {
		return State{}, false // it may have gone on to others of the same names
	}
	return State{Chain: start.Identity.Chain, Trusts: start.Trusts, Dynamic: isDynamic(listener, settings)}, true
}

// longest bounds a sentence; what servers say may be long.
const longest = 500

// sentence makes one line of an error, and nothing of none.
func sentence(err error) string {
	if err == nil {
		return ""
	}
	line := strings.Join(strings.Fields(fmt.Sprint(err)), " ")
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + "…"
	}
	return line
}
