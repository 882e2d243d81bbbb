package authority_test

import (
	"bytes"
	"crypto/x509"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/trust"
)

// trustsAs makes pods mount one more anchor in a state.
func (w *world) trustsAs(cert *x509.Certificate, state trust.State) {
	w.in.TrustedCerts.Data[pki.SHA1Name(cert)+".crt"] = pki.EncodeBundle(cert)
	w.in.TrustedCerts.Data[pki.SHA1Name(cert)+".state"] = []byte(state)
}

func TestALostCertificateIsTheLastToEndOfItsKey(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.asks(authorities.ForceRenewAnnotation, "true")
	w.in.Now = noon().Add(day)
	w.step()
	renewed := w.cert()
	losesCerts(w)
	o := w.step()
	wantKinds(t, o, authority.Restored)
	if !o.Certificate.Equal(renewed) || !o.Published[0].Equal(renewed) {
		t.Error("another certificate was restored")
	}
}

// A renewal writes ca.crt first, and what pods mount afterwards.
func TestCertificatesOfOneKeyAreKnownWithoutWhatPodsMount(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.asks(authorities.ForceRenewAnnotation, "true")
	w.in.Now = noon().Add(day)
	w.step()
	renewed := w.cert()
	if bundle, err := pki.ParseBundle(w.in.CertSecret.Data[authority.CertKey]); err != nil || len(bundle) != 2 {
		t.Fatalf("ca.crt holds %d certificates (%v), to be two", len(bundle), err)
	}
	w.in.TrustedCerts = authority.Stored{}

	if o := w.step(); !o.Certificate.Equal(renewed) {
		t.Errorf("present is the certificate of %s", o.Certificate.NotBefore)
	}
}

func TestWhenBothSecretsAreLostTheMostUsedAnchorIsPresent(t *testing.T) {
	t.Parallel()
	expired := pkitest.CA(t, "expired", noon().Add(-400*day)).Certificate()
	used, entering := pkitest.CA(t, "used", noon()).Certificate(), pkitest.CA(t, "entering", noon().Add(day)).Certificate()
	longer := pkitest.CA(t, "longer", noon().Add(day)).Certificate()
	tests := map[string]struct {
		anchors map[*x509.Certificate]trust.State
		want    *x509.Certificate
	}{
		"one is in use and one enters": {
			map[*x509.Certificate]trust.State{used: trust.InUseAny, entering: trust.Untrusted}, used,
		},
		"one is in use and one leaves": {
			map[*x509.Certificate]trust.State{used: trust.InUseAll, entering: trust.PhaseOut}, used,
		},
		"the one in use has expired": {
			map[*x509.Certificate]trust.State{expired: trust.InUseAll, used: trust.TrustedUnused}, used,
		},
		"all have expired": {
			map[*x509.Certificate]trust.State{expired: trust.InUseAll}, expired,
		},
		"both are as much in use": {
			map[*x509.Certificate]trust.State{used: trust.InUseAny, longer: trust.InUseAny}, longer,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			losesBoth(w)
			w.trusts()
			for cert, state := range tc.anchors {
				w.trustsAs(cert, state)
			}
			o := w.step()
			if !o.Certificate.Equal(tc.want) || !o.Authority.IsZero() || o.Pending == nil {
				t.Errorf("present is %q, its key is lost: %t, pending: %t", o.Certificate.Subject, o.Authority.IsZero(), o.Pending != nil)
			}
			if _, found := o.SignerOf(pki.KeyIDOf(tc.want)); found {
				t.Error("the lost key can sign")
			}
			if len(o.Published) != 1 || !o.Published[0].Equal(tc.want) {
				t.Error("what applications read last is not what was found")
			}
		})
	}
}

func TestALostKeyIsNeverASilentNewAuthority(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.CertSecret.Annotations["strimzi.io/ca-cert-generation"] = "4"
	w.in.Evidence.KeyGeneration = 2
	old, password := w.cert(), w.in.CertSecret.Data["ca.password"]
	losesKeys(w)
	w.in.Window = authority.Window{Next: noon().Add(day)}
	o := w.step()
	wantKinds(t, o, authority.ReplacementStarted)
	wantGenerations(t, o, 4, 2)
	if !o.Certificate.Equal(old) || !w.cert().Equal(old) {
		t.Error("the old certificate does not lead any more")
	}
	if _, found := w.in.KeySecret.Data["ca.key"]; found {
		t.Error("there is a present key")
	}
	o = w.step(turn)
	wantGenerations(t, o, 5, 3)
	if got := w.cert().Subject.String(); got != "CN=cluster-ca v3,O=io.strimzi" {
		t.Errorf("subject %q", got)
	}
	if !bytes.Equal(w.in.CertSecret.Data["ca.password"], password) {
		t.Error("the password of the store changed")
	}
	wantStore(t, o, w.cert(), old)
}

func TestWhatPodsMountMayBeEditedInTheMiddleOfAReplacement(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world, old, incoming *x509.Certificate){
		"the old anchor is gone":   func(w *world, _, incoming *x509.Certificate) { w.trusts(incoming) },
		"the new anchor is gone":   func(w *world, old, _ *x509.Certificate) { w.trusts(old) },
		"both are gone":            func(w *world, _, _ *x509.Certificate) { w.trusts() },
		"the whole Secret is gone": func(w *world, _, _ *x509.Certificate) { w.in.TrustedCerts = authority.Stored{} },
		"a stranger is there": func(w *world, old, _ *x509.Certificate) {
			w.trusts(old, pkitest.CA(t, "stranger", noon()).Certificate())
		},
	}
	for name, change := range tests {
		for when, at := range map[string]stage{"before the promotion": hold, "after it": turn} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				w := runningWorld(t)
				old := w.cert()
				incoming := w.starts().Target()
				w.step(at)
				before := w.in.KeySecret.Data["ca.key"]
				change(w, old, incoming)
				o := w.step(at)
				if !bytes.Equal(w.in.KeySecret.Data["ca.key"], before) || !o.Target().Equal(incoming) {
					t.Error("it went elsewhere")
				}
			})
		}
	}
}

// ca.crt was edited by hand between the two writes of a promotion.
func TestAPromotionIsRecognisedWithoutTheNewCertificateInTheBundle(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	incoming := w.starts().Target()
	w.writeKey(w.settle(turn))
	w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(old)
	o := w.step(turn)
	wantKinds(t, o, authorities.ClusterKeyReplaced)
	wantGenerations(t, o, 1, 1)
	if !o.Certificate.Equal(incoming) || len(w.in.CertSecret.Data[authority.DatedCertKey(old)]) == 0 {
		t.Error("the promotion was not completed")
	}
	wantKinds(t, w.step(turn))
}

func TestAnExpiredEntryIsNoSignOfAnInterruption(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Spec.ValidFor = 1000 * authority.Day
	old := w.cert()
	w.starts()
	w.step(turn)
	w.in.Now = noon().Add(366 * day)
	wantKinds(t, w.step(turn), authority.OldRemoved)
	if !containsCert(w.settle(turn).Published, old) {
		t.Fatal("the expired one is not published any more; the case is not met")
	}
	wantKinds(t, w.step(turn))
}

func TestNothingIsLostOfAClientsAuthorityEither(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in.Names = authorities.Clients.Names("my")
	w.step()
	w.runs()
	w.starts()
	wantKinds(t, w.step(turn), authorities.ClientsKeyReplaced)
	if got := w.cert().Subject.String(); got != "CN=clients-ca v1,O=io.strimzi" {
		t.Errorf("subject %q", got)
	}
}

func TestALostKeyDoesNotLetThePendingAuthorityBePresent(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	losesKeys(w)
	w.step(func(w *world, d authority.Decision) authority.Plan {
		plan := turn(w, d)
		plan.Signer = d.Certificate
		return plan
	})
	if o := w.step(); !o.Certificate.Equal(old) || o.Pending == nil {
		t.Errorf("%q is present", o.Certificate.Subject)
	}
}

func TestThePendingAuthorityIsPresentWhenNothingElseIsLeft(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	losesKeys(w)
	pending := w.step().Target()
	losesCerts(w)
	w.trusts(pending)
	o := w.step()
	wantKinds(t, o, authorities.ClusterKeyReplaced)
	wantGenerations(t, o, 1, 1)
	if !o.Certificate.Equal(pending) || o.Pending != nil || o.Authority.IsZero() {
		t.Errorf("%q is present", o.Certificate.Subject)
	}
	wantKinds(t, w.step())
}

func TestALostNumberIsMadeUpFromTheOther(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world){
		"both Secrets are lost": losesBoth,
		"the certificate Secret is lost, and nobody trusts anything": func(w *world) {
			losesCerts(w)
			w.in.TrustedCerts = authority.Stored{}
			w.in.Evidence = authority.Evidence{}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			w.starts()
			w.step(turn, finish)
			change(w)
			wantGenerations(t, w.step(), 1, 1)
		})
	}
}

func TestAnEditedTrustDoesNotMakeAStrangerOfUs(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world, old *x509.Certificate){
		"only the retired key knows the old anchor": func(w *world, old *x509.Certificate) {
			w.starts()
			w.step(turn)
			delete(w.in.CertSecret.Data, authority.DatedCertKey(old))
		},
		"only the retired certificate knows the old anchor": func(w *world, _ *x509.Certificate) {
			losesKeys(w)
			w.step(hold, turn)
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			old := w.cert()
			change(w, old)
			present := w.cert()
			w.trusts(old)
			if o := w.step(turn); !o.Certificate.Equal(present) {
				t.Errorf("%q is present", o.Certificate.Subject)
			}
		})
	}
}
