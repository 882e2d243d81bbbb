package reloadtest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
)

// What a server does with stores that it cannot work with.

func unreadableIsRefused(t *testing.T, b *bench) {
	good := b.keyStore(t, b.Open, b.leaf(t, b.other))
	missing := b.trustStore(t, b.Clients, b.other.Certificate())
	if err := b.Remove(missing.file); err != nil {
		t.Fatal(err)
	}
	garbled := b.write(t, b.Clients, stores.KeyStore(), []byte("-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n"))
	for name, bad := range map[string]location{"a file that is not there": missing, "a file without a key": garbled} {
		b.isRefused(t, name, good, bad)
	}
}

func strangersAreRefused(t *testing.T, b *bench) {
	started := b.Started[b.Internal]
	stranger := b.leaf(t, b.other)
	b.isRefused(t, "a leaf that no listener trusts yet", b.keyStore(t, b.Internal, stranger))
	b.isRefused(t, "trust that does not accept the leaf", b.trustStore(t, b.Internal, b.other.Certificate()))
	b.isRefused(
		t, "a leaf and its trust, which the leaf of before does not share",
		b.keyStore(t, b.Internal, stranger), b.trustStore(t, b.Internal, b.other.Certificate()),
	)
	both := certificates(started.Trusts, b.other.Certificate())
	b.set(t, b.trustStore(t, b.Internal, both...))
	b.set(t, b.keyStore(t, b.Internal, stranger))
	b.shows(t, b.Internal, Stores{Identity: stranger, Trusts: both})
	b.set(t, b.keyStore(t, b.Internal, started.Identity))
}

// isRefused fails unless the server refuses the locations for what they hold, and
// everything stays as it was started.
func (b *bench) isRefused(t *testing.T, name string, asked ...location) {
	t.Helper()
	before := b.settings(t)
	err := b.Alter(t.Context(), changes(asked))
	if _, invalid := errors.AsType[*local.InvalidError](err); !invalid {
		b.remember(asked...)
		t.Errorf("%s: error %v, want an InvalidError", name, err)
	}
	if diff := cmp.Diff(before, b.settings(t)); diff != "" {
		t.Errorf("%s: settings (-before +after):\n%s", name, diff)
	}
	for _, listener := range b.listeners() {
		b.shows(t, listener, b.Started[listener])
	}
}

func brokerTriesForItsController(t *testing.T, b *bench) {
	missing := b.trustStore(t, b.Control, b.other.Certificate())
	if err := b.Remove(missing.file); err != nil {
		t.Fatal(err)
	}
	b.isRefused(t, "a file of the control plane that is not there", missing, b.keyStore(t, b.Clients, b.leaf(t, b.other)))
}
