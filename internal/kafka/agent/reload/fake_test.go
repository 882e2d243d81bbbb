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

	"github.com/twmb/franz-go/pkg/kerr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/reload"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

const (
	directory = "/run/keyturn/stores"
	tlsLow    = publication.Role("tls-9093")
	// open is a listener that asks for no client certificate.
	open = publication.Role("scram-9095")
)

var (
	errSilent  = errors.New("nobody answers")
	errMissing = errors.New("no such file")
)

// kafka is a server as far as reloads see it: settings in its metadata, stores
// that it read when it applied them, and files. It fulfils the contract of package
// reloadtest.
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

func newKafka() *kafka {
	return &kafka{
		static: map[string]string{}, dynamic: map[string]string{}, effective: map[string]string{},
		loaded: map[string][]*x509.Certificate{}, files: map[string][]byte{},
		verifies: map[string][]*x509.Certificate{},
	}
}

// start starts a process with the stores and the configuration; settings in the
// metadata stay.
func (k *kafka) start(rendered stores.Rendered) {
	for name, data := range rendered.Files {
		k.files[path.Join(directory, name)] = data
	}
	k.static = map[string]string{}
	for line := range strings.Lines(string(rendered.Properties)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		k.static[name] = value
	}
	k.effective = maps.Clone(k.static)
	clear(k.loaded)
	for _, half := range halves() {
		k.load(half)
		k.takeOver(half)
	}
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
		value, isDynamic := k.dynamic[name]
		effective, isSet := k.effective[name]
		if !isDynamic && !isSet {
			continue
		}
		setting := local.Setting{Effective: effective}
		if k.ahead {
			setting.Effective = k.static[name]
		}
		if isDynamic {
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
	coming := maps.Clone(k.dynamic)
	change(coming, changes)
	// A broker tries the stores of both halves; a node that is a controller alone tries none.
	if _, isBroker := k.static[stores.KeyStore().LocationSetting(contract.ReplicationListener)]; isBroker {
		for _, half := range halves() {
			if err := k.unacceptable(half, k.wanted(half, coming)); err != nil {
				return &local.InvalidError{Err: kerr.InvalidRequest, Message: err.Error()}
			}
		}
	}
	k.pending = append(k.pending, apply)
	return nil
}

func change(settings map[string]string, changes []local.Change) {
	for _, c := range changes {
		if c.Value == nil {
			delete(settings, c.Name)
		} else {
			settings[c.Name] = *c.Value
		}
	}
}

// half is the broker or the controller of a node: each has a configuration of its own,
// and takes a change over as a whole or not at all.
type half string

const (
	broker     half = contract.RoleBroker
	controller half = contract.RoleController
)

func halves() []half { return []half{broker, controller} }

func (h half) has(setting string) bool {
	return strings.HasPrefix(setting, "listener.name."+string(contract.ControlPlaneListener)+".") == (h == controller)
}

// apply changes the metadata, and what each half of the server makes of them.
func (k *kafka) apply(changes []local.Change) {
	change(k.dynamic, changes)
	for _, half := range halves() {
		k.takeOver(half)
	}
}

// wanted are the values that the metadata mean for a half.
func (k *kafka) wanted(h half, dynamic map[string]string) map[string]string {
	values := maps.Clone(k.static)
	maps.Copy(values, dynamic)
	maps.DeleteFunc(values, func(name, _ string) bool { return !h.has(name) })
	return values
}

// takeOver brings a half to what stands in the metadata, if it can work with that. With
// each change, it reads all its files again.
func (k *kafka) takeOver(h half) {
	wanted := k.wanted(h, k.dynamic)
	if k.unacceptable(h, wanted) == nil {
		maps.DeleteFunc(k.effective, func(name, _ string) bool { return h.has(name) })
		maps.Copy(k.effective, wanted)
	}
	k.load(h)
}

func isLocation(setting string) bool { return strings.HasSuffix(setting, ".location") }

// unacceptable says why a half of the server cannot work with the values, if it cannot.
// Brokers talk to each other while some have the stores of before.
func (k *kafka) unacceptable(h half, values map[string]string) error {
	for name, value := range values {
		if !isLocation(name) || k.effective[name] == value {
			continue
		}
		if _, err := k.read(value); err != nil {
			return err
		}
	}
	key, trust := stores.KeyStore().LocationSetting(contract.ReplicationListener), stores.TrustStore().LocationSetting(contract.ReplicationListener)
	if h == controller || k.effective[key] == values[key] && k.effective[trust] == values[trust] {
		return nil
	}
	chain, err := k.read(values[key])
	if err != nil {
		return err
	}
	anchors, err := k.read(values[trust])
	if err != nil {
		return err
	}
	return errors.Join(
		pki.Verify(chain, k.loaded[trust], time.Now(), pki.BothUsages()...),
		pki.Verify(k.loaded[key], anchors, time.Now(), pki.BothUsages()...),
	)
}

// read reads the certificates of a store.
func (k *kafka) read(file string) ([]*x509.Certificate, error) {
	data, ok := k.files[file]
	if !ok {
		return nil, fmt.Errorf("%s: %w", file, errMissing)
	}
	_, certificates, _ := strings.Cut(string(data), "-----BEGIN CERTIFICATE-----")
	return pki.ParseBundle([]byte("-----BEGIN CERTIFICATE-----" + certificates))
}

// load reads the files that the settings of a half name. What cannot be read any more
// stays as it was.
func (k *kafka) load(h half) {
	for name, file := range k.effective {
		if !isLocation(name) || !h.has(name) || slices.Contains(k.stuck, name) {
			continue
		}
		certs, err := k.read(file)
		if err != nil {
			continue
		}
		k.loaded[name] = certs
		if !slices.Contains(k.hollow, name) {
			k.verifies[name] = certs
		}
	}
}

func (k *kafka) Look(_ context.Context, listener publication.Role, identity tls.Certificate) (local.Seen, error) {
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
func (k *kafka) verify(listener publication.Role, identity tls.Certificate) error {
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
	w.kafka = newKafka()
	w.restart(wish(w))
	return w
}

// restart starts the server with the stores; settings in the metadata stay.
func (w *world) restart(started stores.Matched) {
	w.start(started.Render(directory))
	w.log = nil
	w.clock = hurried{clocktesting.NewFakeClock(time.Now())}
	w.Reloader = reload.New(reload.Options{
		Server: w.kafka, Directory: directory, Write: w.Write,
		Tell: func(loading []publication.Publication) {
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
	names := []publication.Role{contract.ControlPlaneListener}
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
