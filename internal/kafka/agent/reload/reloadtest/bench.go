package reloadtest

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// bench is a subject on which one check works.
type bench struct {
	Subject

	// other is an authority that the server was not started with.
	other pki.Authority
	// dynamic are the settings that the check has made.
	dynamic map[string]string
	files   map[publication.Role]int
}

// location is a store that a listener can be told to load.
type location struct {
	listener             publication.Role
	kind                 stores.Kind
	setting, value, file string
}

func authority(t *testing.T, name string) pki.Authority {
	t.Helper()
	return agenttest.Authority(t, name, time.Now())
}

func (b *bench) listeners() []publication.Role {
	return []publication.Role{b.Clients, b.Open, b.Internal, b.Control}
}

// leaf issues what the server can present.
func (b *bench) leaf(t *testing.T, by pki.Authority) stores.Identity {
	t.Helper()
	return agenttest.Leaf(t, by, "my-cluster-kafka", time.Now(), b.Names...)
}

// client is a client certificate that the listener accepted when it was started.
func (b *bench) client(t *testing.T, listener publication.Role) stores.Identity {
	t.Helper()
	return agenttest.Leaf(t, b.Signers[listener], "client", time.Now())
}

func certificates(list []*x509.Certificate, more ...*x509.Certificate) []*x509.Certificate {
	return append(slices.Clone(list), more...)
}

func (b *bench) keyStore(t *testing.T, listener publication.Role, identity stores.Identity) location {
	t.Helper()
	return b.write(t, listener, stores.KeyStore(), keys(identity))
}

func keys(identity stores.Identity) []byte {
	return stores.Listener{Identity: identity}.PEM(stores.KeyStore())
}

func (b *bench) trustStore(t *testing.T, listener publication.Role, anchors ...*x509.Certificate) location {
	t.Helper()
	return b.write(t, listener, stores.TrustStore(), pki.EncodeBundle(anchors...))
}

// write puts a store into a file of its own.
func (b *bench) write(t *testing.T, listener publication.Role, kind stores.Kind, data []byte) location {
	t.Helper()
	b.files[listener]++
	l := location{
		listener: listener, kind: kind, setting: kind.LocationSetting(listener),
		file: fmt.Sprintf("%s-%s-%d.pem", listener, b.other.Certificate().SerialNumber, b.files[listener]),
	}
	l.value = b.put(t, l, data)
	return l
}

// rewrite puts another key store into the same file.
func (b *bench) rewrite(t *testing.T, l location, identity stores.Identity) {
	t.Helper()
	b.put(t, l, keys(identity))
}

func (b *bench) put(t *testing.T, l location, data []byte) string {
	t.Helper()
	path, err := b.Put(l.file, data)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func changes(locations []location) []local.Change {
	list := make([]local.Change, 0, 2*len(locations))
	for _, l := range locations {
		list = append(list, local.Change{Name: l.kind.TypeSetting(l.listener), Value: new(stores.StoreType)}, local.Change{Name: l.setting, Value: &l.value})
	}
	return list
}

// alter makes the settings, and remembers to delete them.
func (b *bench) alter(t *testing.T, locations ...location) {
	t.Helper()
	b.remember(locations...)
	if err := b.Alter(t.Context(), changes(locations)); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) remember(locations ...location) {
	for _, c := range changes(locations) {
		b.dynamic[c.Name] = *c.Value
	}
}

// set lets listeners load stores, and waits until they are in effect.
func (b *bench) set(t *testing.T, locations ...location) {
	t.Helper()
	b.alter(t, locations...)
	b.settle(t, locations...)
}

// settle waits until the listeners have loaded the stores, by the server's own words.
func (b *bench) settle(t *testing.T, locations ...location) {
	t.Helper()
	var names []string
	for _, l := range locations {
		names = append(names, l.setting)
	}
	b.until(t, "the settings are in effect", func() error {
		settings, err := b.Settings(t.Context(), names)
		if err != nil {
			return err
		}
		for _, l := range locations {
			if got := settings[l.setting]; got.Effective != l.value {
				return notYet("%s is %+v, want %s", l.setting, got, l.value)
			}
		}
		return nil
	})
}

// clear deletes everything that the check has set.
func (b *bench) clear(t *testing.T) {
	t.Helper()
	if len(b.dynamic) == 0 {
		return
	}
	var forget []local.Change
	for _, name := range slices.Sorted(maps.Keys(b.dynamic)) {
		forget = append(forget, local.Change{Name: name})
	}
	ctx := context.WithoutCancel(t.Context())
	if err := b.Alter(ctx, forget); err != nil {
		t.Fatal(err)
	}
	b.until(t, "the settings are gone", func() error {
		settings, err := b.Settings(ctx, slices.Collect(maps.Keys(b.dynamic)))
		if err != nil {
			return err
		}
		for name, value := range b.dynamic {
			if got := settings[name]; got.Dynamic != nil || got.Effective == value && value != stores.StoreType {
				return notYet("%s is %+v", name, got)
			}
		}
		return nil
	})
	clear(b.dynamic)
}

// settings are those of all stores.
func (b *bench) settings(t *testing.T) map[string]local.Setting {
	t.Helper()
	var names []string
	for _, listener := range b.listeners() {
		for _, kind := range stores.Kinds() {
			names = append(names, kind.TypeSetting(listener), kind.LocationSetting(listener))
		}
	}
	settings, err := b.Settings(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	return settings
}

func (b *bench) look(t *testing.T, listener publication.Role, identity stores.Identity) local.Seen {
	t.Helper()
	seen, err := b.Look(t.Context(), listener, server.Certificate(identity))
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// shows fails unless the listener presents and accepts what it should.
func (b *bench) shows(t *testing.T, listener publication.Role, wanted Stores) {
	t.Helper()
	if err := b.compare(t, listener, wanted); err != nil {
		t.Error(err)
	}
}

// comesToShow waits for that.
func (b *bench) comesToShow(t *testing.T, listener publication.Role, wanted Stores) {
	t.Helper()
	b.until(t, "the listener shows what was loaded", func() error { return b.compare(t, listener, wanted) })
}

func (b *bench) compare(t *testing.T, listener publication.Role, wanted Stores) error {
	t.Helper()
	seen := b.look(t, listener, b.client(t, listener))
	if !slices.EqualFunc(seen.Chain, wanted.Identity.Chain, (*x509.Certificate).Equal) {
		return notYet("%s presents %v, want %v", listener, agenttest.Fingerprints(seen.Chain...), agenttest.Fingerprints(wanted.Identity.Chain...))
	}
	if listener == b.Open {
		return nil
	}
	names := make([][]byte, 0, len(wanted.Trusts))
	for _, anchor := range wanted.Trusts {
		names = append(names, anchor.RawSubject)
	}
	slices.SortFunc(names, bytes.Compare)
	if got := slices.SortedFunc(slices.Values(seen.Authorities), bytes.Compare); !seen.Asks || !slices.EqualFunc(got, names, bytes.Equal) {
		return notYet("%s names %d authorities, want the %d that it trusts", listener, len(got), len(names))
	}
	return nil
}

func isRefusal(err error) bool {
	_, refused := errors.AsType[*mtls.RefusedError](err)
	return refused
}

// waiting says what does not hold yet.
type waiting struct{ problem string }

func (w *waiting) Error() string { return w.problem }

func notYet(format string, args ...any) error { return &waiting{problem: fmt.Sprintf(format, args...)} }

// until asks again and again. A server applies a change a moment after it has taken it.
func (b *bench) until(t *testing.T, what string, holds func() error) {
	t.Helper()
	over := time.NewTimer(settleLimit)
	defer over.Stop()
	tick := time.NewTicker(settlePause)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-over.C:
			t.Fatalf("not within %s: %s: %v", settleLimit, what, err)
		case <-tick.C:
		}
	}
}
