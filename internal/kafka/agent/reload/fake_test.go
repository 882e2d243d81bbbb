package reload_test

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
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/kafka/admin/mtls"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/reload"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/pki"
)

const (
	directory = "/run/keyturn/stores"
	tlsLow    = contract.Listener("tls-9093")
	// open is a listener that asks for no client certificate.
	open = contract.Listener("scram-9095")
)

var (
	errSilent  = errors.New("nobody answers")
	errMissing = errors.New("no such file")
)

// kafka is a server as far as reloads see it: settings in its metadata, stores
// that it read when it applied them, and files.
type kafka struct {
	static, dynamic, effective map[string]string
	// loaded is what each store of a listener held when it was read.
	loaded map[string][]*x509.Certificate
	files  map[string][]byte
	// pending are applied after so many questions for settings.
	pending []func()
	delay   int
	// stuck settings are taken over, and their stores are not read.
	stuck []string
	// hollow settings are taken over, and of their stores only the names are used:
	// peers are verified by what was read before.
	hollow []string
	// verifies is what peers are verified by; looks are the leaves that were offered.
	verifies map[string][]*x509.Certificate
	looks    []string
	// deaf is the fingerprint of a leaf that nobody answers.
	deaf string
	// ahead is true while the listeners show what the settings do not tell yet.
	ahead bool
	// What becomes of questions.
	settings, lookErr error
	alter             func(apply func()) error
	refused           error
	// log is everything that was asked and written.
	log []string
}

func (k *kafka) Write(name string, data []byte) error {
	k.log = append(k.log, "write "+name)
	k.files[path.Join(directory, name)] = slices.Clone(data)
	return nil
}

func (k *kafka) Settings(_ context.Context, names []string) (map[string]local.Setting, error) {
	if k.settings != nil {
		return nil, k.settings
	}
	if k.delay > 0 {
		k.delay--
	} else {
		for _, apply := range k.pending {
			apply()
		}
		k.pending = nil
	}
	answer := map[string]local.Setting{}
	for _, name := range names {
		setting := local.Setting{Effective: k.effective[name]}
		if k.ahead {
			setting.Effective = k.static[name]
		}
		if value, ok := k.dynamic[name]; ok {
			setting.Dynamic = &value
		}
		answer[name] = setting
	}
	return answer, nil
}

func (k *kafka) Alter(_ context.Context, changes []local.Change) error {
	var words []string
	for _, c := range changes {
		if strings.HasSuffix(c.Name, ".type") {
			continue
		}
		word := "delete " + c.Name
		if c.Value != nil {
			word = "set " + path.Base(*c.Value)
		}
		words = append(words, word)
	}
	k.log = append(k.log, strings.Join(words, ", "))
	apply := func() { k.apply(changes) }
	if k.alter != nil {
		return k.alter(apply)
	}
	k.pending = append(k.pending, apply)
	return nil
}

func (k *kafka) apply(changes []local.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(k.dynamic, c.Name)
			k.effective[c.Name] = k.static[c.Name]
		} else {
			k.dynamic[c.Name], k.effective[c.Name] = *c.Value, *c.Value
		}
		if strings.HasSuffix(c.Name, ".location") {
			k.load(c.Name)
		}
	}
}

// load reads the file that the setting names.
func (k *kafka) load(name string) {
	if slices.Contains(k.stuck, name) {
		return
	}
	data, ok := k.files[k.effective[name]]
	if !ok {
		panic(fmt.Errorf("%s: %w", k.effective[name], errMissing))
	}
	_, certificates, _ := strings.Cut(string(data), "-----BEGIN CERTIFICATE-----")
	certs, err := pki.ParseBundle([]byte("-----BEGIN CERTIFICATE-----" + certificates))
	if err != nil {
		panic(err)
	}
	k.loaded[name] = certs
	if !slices.Contains(k.hollow, name) {
		k.verifies[name] = certs
	}
}

func (k *kafka) Look(_ context.Context, listener contract.Listener, identity tls.Certificate) (local.Seen, error) {
	if k.lookErr != nil {
		return local.Seen{}, k.lookErr
	}
	offered := pki.FingerprintOf(identity.Leaf).String()
	k.looks = append(k.looks, offered)
	if offered == k.deaf {
		return local.Seen{}, errSilent
	}
	seen := local.Seen{Chain: k.loaded[stores.KeyStore().LocationSetting(listener)], Asks: listener != open, Refused: k.refused}
	if !seen.Asks {
		return seen, nil
	}
	for _, anchor := range k.loaded[stores.TrustStore().LocationSetting(listener)] {
		seen.Authorities = append(seen.Authorities, anchor.RawSubject)
	}
	if seen.Refused == nil {
		seen.Refused = k.verify(listener, identity)
	}
	return seen, nil
}

// verify refuses a client as the listener does.
func (k *kafka) verify(listener contract.Listener, identity tls.Certificate) error {
	var chain []*x509.Certificate
	for _, der := range identity.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		chain = append(chain, cert)
	}
	err := pki.Verify(chain, k.verifies[stores.TrustStore().LocationSetting(listener)], time.Now(), pki.ClientAuth)
	if err != nil {
		return &mtls.RefusedError{Address: string(listener), Err: err}
	}
	return nil
}

// hurried is a clock on which every wait is over at once.
type hurried struct {
	*clocktesting.FakeClock
}

func (c hurried) After(d time.Duration) <-chan time.Time {
	over := c.FakeClock.After(d)
	c.Step(d)
	return over
}

// world is a server with its reloader, and what can be published to it.
type world struct {
	*kafka
	*reload.Reloader

	old, coming pki.Authority
	cross       *x509.Certificate
	leaf, next  stores.Identity
	roles       []string
	clock       hurried
	// revision is that of the last publication, told those that the reloader says the
	// server may come to run on.
	revision int64
	told     []int64
	// toldNothing is how much had been done when it said last that there is none.
	toldNothing int
}

// newWorld starts a server with the stores of wish.
func newWorld(t *testing.T, wish func(*world) stores.Matched, roles ...string) *world {
	t.Helper()
	now := time.Now()
	w := &world{old: agenttest.Authority(t, "ca v0", now), coming: agenttest.Authority(t, "ca v1", now), roles: roles}
	if len(roles) == 0 {
		w.roles = []string{contract.RoleBroker, contract.RoleController}
	}
	var err error
	if w.cross, err = pki.CrossSign(w.old, w.coming.Certificate(), now); err != nil {
		t.Fatal(err)
	}
	w.leaf = agenttest.Leaf(t, w.old, "my-cluster-kafka", now)
	w.next = agenttest.Leaf(t, w.coming, "my-cluster-kafka", now)
	w.next.Chain = append(w.next.Chain, w.cross)
	w.kafka = &kafka{
		static: map[string]string{}, dynamic: map[string]string{}, effective: map[string]string{},
		loaded: map[string][]*x509.Certificate{}, files: map[string][]byte{},
		verifies: map[string][]*x509.Certificate{},
	}
	w.restart(wish(w))
	return w
}

// restart starts the server with the stores; settings in the metadata stay.
func (w *world) restart(started stores.Matched) {
	rendered := started.Render(directory)
	for name, data := range rendered.Files {
		w.files[path.Join(directory, name)] = data
	}
	w.static = map[string]string{}
	for line := range strings.Lines(string(rendered.Properties)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		w.static[name] = value
	}
	w.effective = maps.Clone(w.static)
	maps.Copy(w.effective, w.dynamic)
	for name := range w.effective {
		if strings.HasSuffix(name, ".location") {
			w.load(name)
		}
	}
	w.log = nil
	w.clock = hurried{clocktesting.NewFakeClock(time.Now())}
	w.Reloader = reload.New(reload.Options{
		Server: w.kafka, Directory: directory, Write: w.Write,
		Tell: func(loading []contract.Publication) {
			w.told, w.toldNothing = nil, len(w.log)
			for _, p := range loading {
				w.told = append(w.told, p.Revision)
			}
		},
		Clock:    w.clock,
		Patience: 10 * time.Second, Pause: time.Second,
	}, started)
}

// publish is what is mounted when the listeners present the identity and trust
// the anchors.
func (w *world) publish(identity stores.Identity, trusts ...*x509.Certificate) stores.Matched {
	slices.SortFunc(trusts, func(a, b *x509.Certificate) int { return pki.FingerprintOf(a).Compare(pki.FingerprintOf(b)) })
	m := stores.Matched{Node: identity, Config: contract.Config{Roles: w.roles}, ServerConfig: []byte("node.id=0\n")}
	w.revision++
	m.Publication.Revision = w.revision
	names := []contract.Listener{contract.ControlPlaneListener}
	if slices.Contains(w.roles, contract.RoleBroker) {
		names = append(names, contract.ReplicationListener, open, tlsLow)
	}
	for _, name := range names {
		m.Listeners = append(m.Listeners, stores.Listener{Name: name, Identity: identity, Trusts: trusts, Starts: trusts})
	}
	return m
}

func (w *world) before() *x509.Certificate { return w.old.Certificate() }
func (w *world) after() *x509.Certificate  { return w.coming.Certificate() }

// first is what servers are started with here, unless said otherwise.
func first(w *world) stores.Matched { return w.publish(w.leaf, w.before()) }

func (w *world) step(t *testing.T, mounted stores.Matched) reload.Outcome {
	t.Helper()
	return w.Step(t.Context(), mounted, func() bool { return false })
}

// runsOn fails unless every listener has loaded what is mounted, and is known to.
func (w *world) runsOn(t *testing.T, mounted stores.Matched) {
	t.Helper()
	for _, l := range mounted.Listeners {
		if !mounted.Config.ListensOn(l.Name) {
			continue
		}
		state := w.States()[l.Name]
		for _, kind := range stores.Kinds() {
			has, said := w.loaded[kind.LocationSetting(l.Name)], state.Trusts
			if kind == stores.KeyStore() {
				said = state.Chain
			}
			if !slices.EqualFunc(has, l.Certificates(kind), (*x509.Certificate).Equal) || !slices.EqualFunc(said, has, (*x509.Certificate).Equal) {
				t.Errorf("%s: %d certificates loaded, %d known to be, want the %d mounted", kind.LocationSetting(l.Name), len(has), len(said), len(l.Certificates(kind)))
			}
		}
	}
}
