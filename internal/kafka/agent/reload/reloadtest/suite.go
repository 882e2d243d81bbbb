package reloadtest

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/agent/reload"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// Limits of waiting for what a server does in its own time.
const (
	settleLimit = time.Minute
	settlePause = 100 * time.Millisecond
)

// Subject is a running server that is broker and controller. Only the suite changes
// its settings.
type Subject struct {
	reload.Server

	// Clients asks for certificates of clients, Open for none; Internal is the one that
	// brokers talk over, and Control that of controllers.
	Clients, Open, Internal, Control publication.Role
	// Started is what each of the four was started with.
	Started map[publication.Role]Stores
	// Signers are the authorities whose certificates Started trusts.
	Signers map[publication.Role]pki.Authority
	// Names are those that what the server presents has to bear.
	Names []string
	// Put writes a file, whole and at once, and returns the path that the server knows
	// it by; Remove takes it away.
	Put    func(name string, data []byte) (location string, err error)
	Remove func(name string) error
	// Restart ends the process, and returns when another serves that was started with
	// the same stores.
	Restart func(t *testing.T)
}

// Stores are those of one listener.
type Stores struct {
	Identity stores.Identity
	Trusts   []*x509.Certificate
}

// Run checks a server. It asks for one subject, and leaves it without dynamic
// settings.
func Run(t *testing.T, factory func(t *testing.T) Subject) {
	t.Helper()
	s := factory(t)
	for name, check := range map[string]func(*testing.T, *bench){
		"a start loads what its files hold":                                           startLoadsItsFiles,
		"settings tell what is in effect and what stands in the metadata":             settingsTellBoth,
		"a setting that was not made is not in the answer":                            unsetIsNotTold,
		"a key store is loaded as its file is when it is set":                         keyStoreIsLoaded,
		"a trust store is loaded as its file is when it is set":                       trustStoreIsLoaded,
		"several stores are loaded by one request":                                    severalAreLoaded,
		"a file that changes is read with the next change of a setting":               fileIsReadWithTheNextChange,
		"setting the same file once more reads it":                                    sameFileIsReadAgain,
		"a store that cannot be read is refused, with all that was asked for with it": unreadableIsRefused,
		"stores that do not go with those of before are refused between brokers":      strangersAreRefused,
		"a broker tries the stores of the controller beside it as well":               brokerTriesForItsController,
		"a setting that is deleted is replaced by the file of the start":              deletedFallsBack,
		"a listener names the CAs that it trusts, and rejects other clients":          othersAreRefused,
		"a listener that asks for no certificate names no CA and rejects no client":   openAcceptsAll,
		"settings outlive the process, and the next one reads the files as they are":  settingsOutliveTheProcess,
		"a file that is gone at a start takes all settings with it":                   goneFileDropsAll,
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{Subject: s, other: authority(t, "another ca"), dynamic: map[string]string{}, files: map[publication.Role]int{}}
			t.Cleanup(func() { b.clear(t) })
			check(t, b)
		})
	}
}

func startLoadsItsFiles(t *testing.T, b *bench) {
	for _, listener := range b.listeners() {
		b.shows(t, listener, b.Started[listener])
	}
	settings := b.settings(t)
	for name, setting := range settings {
		if setting.Dynamic != nil || setting.Effective == "" {
			t.Errorf("%s is %+v, want a static value alone", name, setting)
		}
	}
	if len(settings) == 0 {
		t.Error("the server tells no setting")
	}
}

func settingsTellBoth(t *testing.T, b *bench) {
	location := b.trustStore(t, b.Clients, b.other.Certificate())
	before := b.settings(t)
	b.set(t, location)
	got := b.settings(t)[location.setting]
	if got.Effective != location.value || got.Dynamic == nil || *got.Dynamic != location.value {
		t.Errorf("%s is %+v, want %s in effect and in the metadata", location.setting, got, location.value)
	}
	other := stores.KeyStore().LocationSetting(b.Clients)
	if got := b.settings(t)[other]; got != before[other] {
		t.Errorf("%s is %+v, want what it was: %+v", other, got, before[other])
	}
}

func unsetIsNotTold(t *testing.T, b *bench) {
	const nobodys = "listener.name.nobodys-9999.ssl.keystore.location"
	settings, err := b.Settings(t.Context(), []string{nobodys})
	if err != nil {
		t.Fatal(err)
	}
	if got, told := settings[nobodys]; told {
		t.Errorf("it is told: %+v", got)
	}
}

func keyStoreIsLoaded(t *testing.T, b *bench) {
	wanted := b.Started[b.Clients]
	wanted.Identity = b.leaf(t, b.other)
	b.set(t, b.keyStore(t, b.Clients, wanted.Identity))
	b.shows(t, b.Clients, wanted)
}

func trustStoreIsLoaded(t *testing.T, b *bench) {
	wanted := b.Started[b.Clients]
	wanted.Trusts = append(certificates(wanted.Trusts), b.other.Certificate())
	b.set(t, b.trustStore(t, b.Clients, wanted.Trusts...))
	b.shows(t, b.Clients, wanted)
}

func severalAreLoaded(t *testing.T, b *bench) {
	wanted := Stores{Identity: b.leaf(t, b.other), Trusts: certificates(b.Started[b.Clients].Trusts, b.other.Certificate())}
	b.set(
		t,
		b.keyStore(t, b.Clients, wanted.Identity), b.trustStore(t, b.Clients, wanted.Trusts...),
		b.keyStore(t, b.Control, wanted.Identity), b.trustStore(t, b.Control, wanted.Trusts...),
	)
	b.shows(t, b.Clients, wanted)
	b.shows(t, b.Control, wanted)
	b.shows(t, b.Open, b.Started[b.Open])
}

// networkThreads are more than a listener has. Each takes connections in turn and reads the stores itself, some of them a moment after
// the setting is in effect.
const networkThreads = 12

func fileIsReadWithTheNextChange(t *testing.T, b *bench) {
	first := b.Started[b.Clients]
	first.Identity = b.leaf(t, b.other)
	location := b.keyStore(t, b.Clients, first.Identity)
	b.set(t, location)
	for range networkThreads {
		b.comesToShow(t, b.Clients, first)
	}
	second := first
	second.Identity = b.leaf(t, b.other)
	b.rewrite(t, location, second.Identity)
	b.settings(t)
	b.shows(t, b.Clients, first)
	b.set(t, b.keyStore(t, b.Open, b.leaf(t, b.other)))
	b.comesToShow(t, b.Clients, second)
}

func sameFileIsReadAgain(t *testing.T, b *bench) {
	wanted := b.Started[b.Clients]
	wanted.Identity = b.leaf(t, b.other)
	location := b.keyStore(t, b.Clients, wanted.Identity)
	b.set(t, location)
	wanted.Identity = b.leaf(t, b.other)
	b.rewrite(t, location, wanted.Identity)
	b.set(t, location)
	b.comesToShow(t, b.Clients, wanted)
}

func deletedFallsBack(t *testing.T, b *bench) {
	b.set(t, b.keyStore(t, b.Clients, b.leaf(t, b.other)), b.trustStore(t, b.Clients, b.other.Certificate()))
	b.clear(t)
	b.shows(t, b.Clients, b.Started[b.Clients])
	for name, setting := range b.settings(t) {
		if setting.Dynamic != nil {
			t.Errorf("%s is %+v, want nothing in the metadata", name, setting)
		}
	}
}

func othersAreRefused(t *testing.T, b *bench) {
	stranger := b.leaf(t, b.other)
	for _, listener := range []publication.Role{b.Clients, b.Internal, b.Control} {
		seen := b.look(t, listener, stranger)
		if !isRefusal(seen.Refused) || len(seen.Chain) == 0 {
			t.Errorf("%s: answered %v and presented %d certificates, want a refusal after its own chain", listener, seen.Refused, len(seen.Chain))
		}
	}
	b.set(t, b.trustStore(t, b.Clients, b.other.Certificate()))
	if seen := b.look(t, b.Clients, stranger); seen.Refused != nil {
		t.Errorf("refused although it trusts the signer now: %v", seen.Refused)
	}
	if seen := b.look(t, b.Clients, b.client(t, b.Clients)); !isRefusal(seen.Refused) {
		t.Errorf("answered %v, want a refusal of who is not trusted any more", seen.Refused)
	}
}

func openAcceptsAll(t *testing.T, b *bench) {
	seen := b.look(t, b.Open, b.leaf(t, b.other))
	if seen.Asks || len(seen.Authorities) > 0 || seen.Refused != nil {
		t.Errorf("it asks: %t, names %d authorities, refuses: %v; want none of it", seen.Asks, len(seen.Authorities), seen.Refused)
	}
	wanted := b.Started[b.Open]
	wanted.Identity = b.leaf(t, b.other)
	b.set(t, b.keyStore(t, b.Open, wanted.Identity))
	b.shows(t, b.Open, wanted)
}

func settingsOutliveTheProcess(t *testing.T, b *bench) {
	wanted := b.Started[b.Clients]
	wanted.Identity = b.leaf(t, b.other)
	location := b.keyStore(t, b.Clients, wanted.Identity)
	b.set(t, location)
	wanted.Identity = b.leaf(t, b.other)
	b.rewrite(t, location, wanted.Identity)
	b.Restart(t)
	b.settle(t, location)
	b.shows(t, b.Clients, wanted)
	b.shows(t, b.Internal, b.Started[b.Internal])
}

func goneFileDropsAll(t *testing.T, b *bench) {
	static := b.settings(t)
	gone := b.keyStore(t, b.Clients, b.leaf(t, b.other))
	b.set(t, gone, b.keyStore(t, b.Open, b.leaf(t, b.other)))
	if err := b.Remove(gone.file); err != nil {
		t.Fatal(err)
	}
	b.Restart(t)
	for _, listener := range []publication.Role{b.Clients, b.Open} {
		setting := stores.KeyStore().LocationSetting(listener)
		if got := b.settings(t)[setting]; got.Dynamic == nil || got.Effective != static[setting].Effective {
			t.Errorf("%s is %+v, want it in the metadata, and the static value %s in effect", setting, got, static[setting].Effective)
		}
		b.shows(t, listener, b.Started[listener])
	}
}
