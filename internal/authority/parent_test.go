package authority_test

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

const permitted = "my-cluster-peer.etcd.svc"

// belowParent is a cluster whose authority a parent has signed, for leaves with names in one domain, by other means than a decision.
func belowParent(t *testing.T, validity time.Duration) (*world, pki.Authority) {
	t.Helper()
	w := newWorld(t)
	parent, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: "operator"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: validity, Now: noon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.GenerateKey(pki.DefaultCAKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	w.in.Making = &authority.Making{Signing: authority.BelowParent, Parent: parent, PermittedDNS: []string{permitted}}
	w.in.Spec.ValidFor, w.in.Spec.RenewBefore = 30*time.Hour, 10*time.Hour
	ca, err := pki.SignCA(parent, key, pki.CASpec{
		Subject: pki.Subject{CommonName: "cluster-ca v0"}, Validity: w.in.Spec.ValidFor, Now: noon(), PermittedDNS: w.in.Making.PermittedDNS,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.in.KeySecret = authority.Stored{Exists: true, Data: map[string][]byte{authority.KeyKey: key.PEM()}}
	w.in.CertSecret = authority.Stored{Exists: true, Data: map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())}}
	w.runs()
	return w, ca
}

func wantBelow(t *testing.T, parent pki.Authority, ca *x509.Certificate) {
	t.Helper()
	if !pki.IssuedBy(ca, parent.Certificate()) {
		t.Errorf("%s is issued by %s, want by its parent", ca.Subject, ca.Issuer)
	}
	if !slices.Equal(ca.PermittedDNSDomains, []string{permitted}) || !ca.PermittedDNSDomainsCritical {
		t.Errorf("%s permits %v (critical: %t)", ca.Subject, ca.PermittedDNSDomains, ca.PermittedDNSDomainsCritical)
	}
}

func TestAnAuthorityBelowAParentIsAdoptedAsItIs(t *testing.T) {
	t.Parallel()
	w, ca := belowParent(t, 1000*time.Hour)
	o := w.step()
	if !o.Target().Equal(ca.Certificate()) || len(o.settled.Transitions) > 0 {
		t.Errorf("the target is %s, with %v", o.Target().Subject, o.settled.Transitions)
	}
}

func TestWhatIsMadeBelowAParentIsSignedByItAndKeepsItsConstraints(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(w *world){
		"renewed":              func(w *world) { w.asks(authorities.ForceRenewAnnotation, "true") },
		"renewed when due":     func(w *world) { w.in.Now = noon().Add(21 * time.Hour) },
		"replaced":             func(w *world) { w.asks(authorities.ForceReplaceAnnotation, "true") },
		"its certificate lost": func(w *world) { w.in.CertSecret, w.in.TrustedCerts = authority.Stored{}, authority.Stored{} },
		"all lost": func(w *world) {
			w.in.CertSecret, w.in.TrustedCerts, w.in.KeySecret = authority.Stored{}, authority.Stored{}, authority.Stored{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ca := belowParent(t, 1000*time.Hour)
			ask(w)
			d := w.decide()
			if d.Target().Equal(ca.Certificate()) {
				t.Fatal("nothing was made")
			}
			wantBelow(t, w.in.Making.Parent, d.Target())
			for _, cross := range d.Crosses {
				if !slices.Equal(cross.PermittedDNSDomains, []string{permitted}) {
					t.Errorf("the cross certificate permits %v", cross.PermittedDNSDomains)
				}
			}
		})
	}
}

// Retired certificates are filed by the second in which they end.
func TestCertificatesThatEndWithTheirParentDoNotEndAtOnce(t *testing.T) {
	t.Parallel()
	w, ca := belowParent(t, 20*time.Hour)
	w.asks(authorities.ForceReplaceAnnotation, "true")
	next := w.decide().Target().NotAfter
	if old := ca.Certificate().NotAfter; !next.Equal(old.Add(-time.Second)) {
		t.Errorf("one ends at %s, the next at %s", old, next)
	}
}

func TestARenewalWithinHoursSaysSo(t *testing.T) {
	t.Parallel()
	w, _ := belowParent(t, 1000*time.Hour)
	w.in.Now = noon().Add(21 * time.Hour)
	o := w.step()
	if len(o.settled.Transitions) != 1 || !strings.HasSuffix(o.settled.Transitions[0].Why, ", within 10h0m0s") {
		t.Errorf("transitions %+v", o.settled.Transitions)
	}
}

func TestDecidingTwiceMakesNoKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, err := authority.Decide(w.in)
	if err != nil || first.Demand == nil || first.Demand.Parent || *first.Demand.Key != w.in.Spec.CAKey() {
		t.Fatalf("the first decision demands %v (%v), want a key of the specification", first.Demand, err)
	}
	key, err := pki.GenerateKey(*first.Demand.Key)
	if err != nil {
		t.Fatal(err)
	}
	w.in.Making = &authority.Making{Key: key}
	for range 2 {
		if d := w.decide(); !key.Matches(d.Target()) {
			t.Error("the CA has another key than the one that was made for it")
		}
	}
}

// A pass decides again after it has written: the key that it has made is that of the CA which is there by then.
func TestAKeyThatIsInUseIsNoKeyForAnother(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	key, err := pki.ParsePrivateKey(w.in.KeySecret.Data[authority.KeyKey])
	if err != nil {
		t.Fatal(err)
	}
	w.in.Making = &authority.Making{Key: key}
	w.asks(authorities.ForceReplaceAnnotation, "true")
	d, err := authority.Decide(w.in)
	if err != nil || d.Demand == nil || d.Demand.Key == nil {
		t.Errorf("it demands %v (%v), want another key", d.Demand, err)
	}
}

// The parent is read when something is to be signed, and not each time that something is decided.
func TestAParentIsDemandedWhereItHasToSign(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ask         func(w *world)
		key, parent bool
	}{
		"at rest":              {ask: func(*world) {}},
		"renewed":              {func(w *world) { w.asks(authorities.ForceRenewAnnotation, "true") }, false, true},
		"replaced":             {func(w *world) { w.asks(authorities.ForceReplaceAnnotation, "true") }, true, true},
		"its certificate lost": {func(w *world) { w.in.CertSecret, w.in.TrustedCerts = authority.Stored{}, authority.Stored{} }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ca := belowParent(t, 1000*time.Hour)
			parent := w.in.Making.Parent
			w.in.Making.Parent = pki.Authority{}
			test.ask(w)
			d, err := authority.Decide(w.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Demand; (got != nil) != (test.key || test.parent) || got != nil && ((got.Key != nil) != test.key || got.Parent != test.parent) {
				t.Fatalf("it demands %+v", got)
			}
			if d.Demand == nil {
				if !d.Target().Equal(ca.Certificate()) {
					t.Error("another certificate was made without the parent")
				}
				return
			}
			w.in.Making.Parent = parent
			wantBelow(t, parent, w.decide().Target())
		})
	}
}
