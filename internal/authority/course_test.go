package authority_test

import (
	"crypto/x509"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// move is what happens to a cluster, and how far everybody is in the pass after it.
type move struct {
	says   string
	change func(w *world)
	at     stage
}

func nothing(*world) {}

func asks(annotation, value string) func(w *world) {
	return func(w *world) { w.asks(annotation, value) }
}

func losesKeys(w *world)  { w.in.KeySecret = authority.Stored{} }
func losesCerts(w *world) { w.in.CertSecret = authority.Stored{} }
func losesBoth(w *world)  { losesKeys(w); losesCerts(w) }

func later(days int) func(w *world) {
	return func(w *world) { w.in.Now = w.in.Now.AddDate(0, 0, days) }
}

// courses are the lives of an authority that matter, move by move. Each ends at
// rest.
func courses() map[string][]move {
	replace := asks(authorities.ForceReplaceAnnotation, "true")
	abort := asks(authority.AbortReplaceAnnotation, "true")
	return map[string][]move{
		"replacement": {
			{"a new key is asked for", replace, hold},
			{"everybody trusts it", nothing, hold},
			{"every node presents it", nothing, turn},
			{"nothing happens", nothing, turn},
			{"nobody trusts the old one", nothing, finish},
			{"nothing happens", nothing, finish},
		},
		"both-requests": {
			{"renewal and a new key are asked for at once", func(w *world) { replace(w); w.asks(authorities.ForceRenewAnnotation, "true") }, hold},
			{"every node presents it", nothing, turn},
			{"nobody trusts the old one", nothing, finish},
		},
		"second-replacement": {
			{"a new key is asked for", replace, hold},
			{"another one is asked for", replace, hold},
			{"every node presents the first", nothing, turn},
			{"the second starts while the old one is still trusted", nothing, hold},
			{"every node presents the second", nothing, turn},
			{"nobody trusts anything else", nothing, finish},
			{"the first of all has expired", later(360), finish},
			{"the next one, too", later(10), finish},
		},
		"abort-before": {
			{"a new key is asked for", replace, hold},
			{"it is given up", abort, hold},
			{"nobody trusts it any more", nothing, finish},
			{"the next attempt", replace, hold},
			{"every node presents it", nothing, turn},
			{"nobody trusts the old one", nothing, finish},
		},
		"abort-at-once": {
			{"a new key is asked for", replace, hold},
			{"another one is asked for, and given up at once", func(w *world) { abort(w); replace(w) }, hold},
			{"it is given up, too", abort, hold},
			{"nobody trusts it any more", nothing, finish},
		},
		"abort-after": {
			{"a new key is asked for", replace, hold},
			{"every node presents it", nothing, turn},
			{"it is given up", abort, hold},
			{"giving up is asked for once more", abort, hold},
			{"every node presents the old one again", nothing, turn},
			{"nobody trusts the new one", nothing, finish},
			{"the next attempt", replace, hold},
			{"every node presents it", nothing, turn},
		},
		"abort-too-late": {
			{"a new key is asked for", replace, hold},
			{"every node presents it", nothing, turn},
			{"nobody trusts the old one", nothing, finish},
			{"it is given up", abort, finish},
		},
		"lost-key": {
			{"the key Secret is lost", losesKeys, hold},
			{"renewal is asked for, which nobody can sign", func(w *world) { w.asks(authorities.ForceRenewAnnotation, "true") }, hold},
			{"every node presents the new one", nothing, turn},
			{"renewal is carried out", nothing, turn},
			{"nobody trusts the old one", nothing, finish},
		},
		"lost-key-in-the-middle": {
			{"a new key is asked for", replace, hold},
			{"the key Secret is lost", losesKeys, hold},
			{"every node presents the third", nothing, turn},
			{"nobody trusts anything else", nothing, finish},
		},
		"lost-key-after-promotion": {
			{"a new key is asked for", replace, hold},
			{"every node presents it", nothing, turn},
			{"the key Secret is lost", losesKeys, hold},
			{"every node presents the third", nothing, turn},
			{"nobody trusts anything else", nothing, finish},
		},
		"lost-certificate-in-the-middle": {
			{"a new key is asked for", replace, hold},
			{"the certificate Secret is lost", losesCerts, hold},
			{"every node presents the new one", nothing, turn},
			{"the certificate Secret is lost again", losesCerts, turn},
			{"nobody trusts the old one", nothing, finish},
		},
		"lost-both": {
			{"both Secrets are lost", losesBoth, hold},
			{"every node presents the new one", nothing, turn},
			{"nobody trusts the old one", nothing, finish},
		},
		"lost-both-in-the-middle": {
			{"a new key is asked for", replace, hold},
			{"both Secrets are lost", losesBoth, hold},
			{"every node presents the third", nothing, turn},
			{"nobody trusts anything else", nothing, finish},
		},
		"lost-everything": {
			{"all three Secrets are lost", func(w *world) { losesBoth(w); w.in.TrustedCerts = authority.Stored{} }, hold},
			{"nothing happens", nothing, hold},
		},
		"compromised": {
			{"the key is compromised", func(w *world) { replace(w); w.asks(authority.DistrustAnnotation, "now") }, hold},
			{"every node presents the new one", nothing, turn},
			{"nobody trusts the old one", nothing, finish},
		},
		"expired-in-the-middle": {
			{"a new key is asked for", replace, hold},
			{"the operator is away for 340 days", later(340), hold},
			{"the operator is away for 400 days", later(400), hold},
			{"every node presents the new one", nothing, turn},
			{"nobody trusts anything else", nothing, finish},
		},
	}
}

func TestTheLifeOfAnAuthority(t *testing.T) {
	t.Parallel()
	for name, course := range courses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			w, s := runningWorld(t), newScribe()
			s.read(w)
			for _, m := range course {
				m.change(w)
				o := w.step(m.at)
				s.read(w)
				fmt.Fprintf(&got, "# %s\n%s%s\n", m.says, s.acts(o), s.secrets(w))
				if w.in.Evidence.Dependants == nil {
					t.Fatal("the cluster is gone")
				}
			}
			compareGolden(t, filepath.Join("testdata", name+".golden"), got.String())
		})
	}
}

// A decision that is made again, with nothing changed, changes nothing.
func TestWhatIsWrittenStaysToTheByte(t *testing.T) {
	t.Parallel()
	for name, course := range courses() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			for _, m := range course {
				m.change(w)
				o := w.step(m.at)
				for len(o.settled.Transitions) > 0 {
					o = w.step(m.at)
				}
				before := w.in
				o = w.step(m.at)
				wantSameData(t, before.KeySecret.Data, o.settled.Key.Data)
				wantSameData(t, before.CertSecret.Data, o.settled.Cert.Data)
				if diff := cmp.Diff(before.KeySecret.Annotations, w.in.KeySecret.Annotations); diff != "" {
					t.Errorf("%s: %s", m.says, diff)
				}
			}
		})
	}
}

// Whatever the last write was before the operator died, the next one ends where
// the dead one would have.
func TestACrashBetweenTwoWritesChangesNothingInTheEnd(t *testing.T) {
	t.Parallel()
	crashes := map[string]func(w *world, o outcome){
		"after the key Secret":         func(w *world, o outcome) { w.writeKey(o) },
		"after the certificate Secret": func(w *world, o outcome) { w.writeKey(o); w.writeCert(o) },
	}
	for name, course := range courses() {
		for when, crash := range crashes {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				want := play(t, course, -1, nil)
				for i := range course {
					if diff := cmp.Diff(want, play(t, course, i, crash)); diff != "" {
						t.Errorf("crash at %q (-without +with):\n%s", course[i].says, diff)
					}
				}
			})
		}
	}
}

// play returns what the Secrets hold at the end.
func play(t *testing.T, course []move, crashAt int, crash func(w *world, o outcome)) string {
	t.Helper()
	w, s := newWorld(t), newScribe()
	w.in.Stores = authority.WithoutStores // they follow ca.crt, and take their time
	w.step()
	w.runs()
	s.read(w)
	for i, m := range course {
		m.change(w)
		if i == crashAt {
			crash(w, w.settle(m.at))
		}
		w.step(m.at)
		s.read(w)
	}
	return s.secrets(w)
}

// scribe gives certificates and keys short names that are the same in each run.
type scribe struct {
	names map[pki.Fingerprint]string
	keys  map[pki.KeyID]*x509.Certificate
	count map[pki.KeyID]int
}

func newScribe() *scribe {
	return &scribe{names: map[pki.Fingerprint]string{}, keys: map[pki.KeyID]*x509.Certificate{}, count: map[pki.KeyID]int{}}
}

// read names what is in the Secrets of a world: an authority by its common name,
// a renewed certificate by a number after it.
func (s *scribe) read(w *world) {
	for _, data := range []map[string][]byte{w.in.KeySecret.Data, w.in.CertSecret.Data} {
		for _, name := range []string{"next-ca.crt", "ca.crt"} {
			if certs, err := pki.ParseBundle(data[name]); err == nil {
				slices.Reverse(certs)
				for _, cert := range certs {
					s.learn(cert)
				}
			}
		}
	}
}

func (s *scribe) learn(cert *x509.Certificate) {
	fp, key := pki.FingerprintOf(cert), pki.KeyIDOf(cert)
	if s.names[fp] != "" {
		return
	}
	s.count[key]++
	s.keys[key] = cert
	_, short, _ := strings.Cut(cert.Subject.CommonName, " ")
	if short == "" {
		short = cert.Subject.CommonName
	}
	if s.count[key] > 1 {
		short += fmt.Sprintf("#%d", s.count[key])
	}
	s.names[fp] = short
}

// secrets shows both Secrets, one entry per line.
func (s *scribe) secrets(w *world) string {
	var out strings.Builder
	for _, secret := range []struct {
		name   string
		stored authority.Stored
	}{{"my-cluster-ca", w.in.KeySecret}, {"my-cluster-ca-cert", w.in.CertSecret}} {
		fmt.Fprintf(&out, "%s\n", secret.name)
		for _, key := range sorted(secret.stored.Annotations) {
			fmt.Fprintf(&out, "  @%s: %s\n", key, secret.stored.Annotations[key])
		}
		for _, key := range sorted(secret.stored.Data) {
			if key != "ca.password" {
				fmt.Fprintf(&out, "  %s: %s\n", key, s.entry(key, secret.stored.Data))
			}
		}
	}
	return out.String()
}

func (s *scribe) entry(key string, data map[string][]byte) string {
	if key == "ca.p12" {
		certs, err := pki.DecodeTrustStore(data[key], string(data["ca.password"]))
		if err != nil {
			return err.Error()
		}
		return s.list(certs)
	}
	if private, err := pki.ParsePrivateKey(data[key]); err == nil {
		return "key of " + s.keyName(private.ID())
	}
	certs, err := pki.ParseBundle(data[key])
	if err != nil {
		return err.Error()
	}
	if key == "ca-cross.crt" || key == "next-ca-cross.crt" {
		var crosses []string
		for _, cert := range certs {
			crosses = append(crosses, s.keyName(pki.KeyIDOf(cert))+" signed by "+s.signer(cert))
		}
		return strings.Join(crosses, ", ")
	}
	var names []string
	for _, cert := range certs {
		names = append(names, s.names[pki.FingerprintOf(cert)])
	}
	return strings.Join(names, ", ")
}

func (s *scribe) list(certs []*x509.Certificate) string {
	var names []string
	for _, cert := range certs {
		names = append(names, s.names[pki.FingerprintOf(cert)])
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (s *scribe) keyName(key pki.KeyID) string {
	cert := s.keys[key]
	if cert == nil {
		return "nobody"
	}
	name, _, _ := strings.Cut(s.names[pki.FingerprintOf(cert)], "#")
	return name
}

func (s *scribe) signer(cross *x509.Certificate) string {
	for key, cert := range s.keys {
		if pki.SignedBy(cross, cert) {
			return s.keyName(key)
		}
	}
	return "nobody"
}

// acts shows what a decision told.
func (s *scribe) acts(o outcome) string {
	var out strings.Builder
	for _, transition := range o.settled.Transitions {
		fmt.Fprintf(&out, "! %s %s: %s\n", transition.Kind, s.names[transition.Certificate], transition.Why)
	}
	for _, waiting := range o.Waiting {
		fmt.Fprintf(&out, "~ %s %s: %s\n", waiting.Act, waiting.Obstacle, waiting.Message)
	}
	for _, warning := range o.Warnings {
		fmt.Fprintf(&out, "? %s\n", warning)
	}
	if o.NoCross != "" {
		fmt.Fprintf(&out, "x %s\n", o.NoCross)
	}
	return out.String()
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
