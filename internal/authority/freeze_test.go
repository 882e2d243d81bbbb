package authority_test

import (
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/authority/authoritytest"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func (w *world) stand() authority.Decision {
	w.tb.Helper()
	d, err := authority.Freeze(w.in)
	if err != nil {
		w.tb.Fatalf("Stand: %v", err)
	}
	return d
}

func TestASpecificationThatCannotBeUsedRenewsByWhatCanBeUsedOfIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spec authority.Spec
		days int
	}{
		"it ends before the default renewal":    {authority.Spec{ValidFor: 20 * authority.Day}, 20},
		"it is renewed before it begins":        {authority.Spec{ValidFor: 300 * authority.Day, RenewBefore: 400 * authority.Day}, 300},
		"it lasts no longer than a renewal may": {authority.Spec{ValidFor: 1 * authority.Day, RenewBefore: 1 * authority.Day}, 2},
		"no key has that size":                  {authority.Spec{KeyAlgorithm: pki.ECDSA, KeySize: 2048}, 365},
		"a new key would be due":                {authority.Spec{ValidFor: 20 * authority.Day, Policy: authority.ReplaceKey}, 20},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			key := w.cert()
			w.in.Spec = tc.spec
			w.asks(authorities.ForceReplaceAnnotation, "true")
			w.in.Now = noon().Add(364*day + day/2)
			_, err := authority.Decide(w.in)
			authoritytest.WantProblem(t, err, "spec.clusterCa")

			d := w.stand()

			if d.Held || d.Pending != nil || pki.KeyIDOf(d.Target()) != pki.KeyIDOf(key) {
				t.Fatalf("held %t, pending %t: want the key that there is", d.Held, d.Pending != nil)
			}
			if lasts := d.Target().NotAfter.Sub(w.in.Now); int(lasts/day) != tc.days {
				t.Errorf("the renewed certificate lasts %s, want %d days", lasts, tc.days)
			}
			settled, err := d.Settle(hold(w, d))
			if err != nil {
				t.Fatal(err)
			}
			if _, removes := settled.Key.Annotations[authorities.ForceReplaceAnnotation]; removes || len(settled.Key.RemoveAnnotations) > 0 {
				t.Error("the request that nobody has served is gone")
			}
		})
	}
}

func TestWhatWasRenewedByASpecificationThatCannotBeUsedIsNotDueAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.step()
	w.runs()
	w.in.Spec.ValidFor = 20 * authority.Day
	w.in.Now = noon().Add(364 * day)
	d := w.stand()
	settled, err := d.Settle(hold(w, d))
	if err != nil {
		t.Fatal(err)
	}
	w.in.CertSecret = write(w.in.CertSecret, settled.Cert)
	w.in.KeySecret = write(w.in.KeySecret, settled.Key)
	w.in.Now = w.in.Now.Add(day)
	if again := w.stand(); !again.Target().Equal(d.Target()) {
		t.Error("it was renewed again a day later")
	}
}

func TestAnAuthorityThatCannotBeUsedIsHeld(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		harm func(w *world)
		keys int
	}{
		"its certificate cannot be read": {func(w *world) { w.in.CertSecret.Data["ca.crt"] = []byte("x") }, 1},
		"its key cannot be read":         {func(w *world) { w.in.KeySecret.Data["ca.key"] = []byte("x") }, 0},
		"a generation is none": {func(w *world) {
			w.in.CertSecret.Annotations["strimzi.io/ca-cert-generation"] = "x"
		}, 1},
		"key and certificate are a stranger's": {func(w *world) {
			stranger := pkitest.CA(w.tb, "stranger", noon())
			w.in.KeySecret.Data["ca.key"] = stranger.Key().PEM()
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(stranger.Certificate())
		}, 0},
		"a user's Secrets are gone": {func(w *world) {
			w.in.Spec.Source = authority.UserProvided
			w.in.KeySecret, w.in.CertSecret = authority.Stored{}, authority.Stored{}
		}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			own := w.cert()
			w.in.Evidence.CertGeneration, w.in.Evidence.KeyGeneration = 4, 3
			tc.harm(w)
			if _, err := authority.Decide(w.in); err == nil {
				t.Fatal("it can be used")
			}

			d := w.stand()

			if !d.Held || d.Target() != nil || !d.Certificate.Equal(own) {
				t.Errorf("held %t, target %v", d.Held, d.Target())
			}
			if len(d.Keys) != tc.keys {
				t.Errorf("%d keys can sign, want %d", len(d.Keys), tc.keys)
			}
			for _, cert := range d.Published {
				if !cert.Equal(own) {
					t.Errorf("%s is published", cert.Subject)
				}
			}
			if d.CertGeneration != 4 || d.KeyGeneration != 3 {
				t.Errorf("generations %s/%s, want those that pods carry", d.CertGeneration, d.KeyGeneration)
			}
		})
	}
}

func TestWhatIsHeldSignsNothingOnceItHasExpired(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.CertSecret.Data["ca.crt"] = []byte("x")
	w.in.Now = noon().Add(400 * day)
	if d := w.stand(); len(d.Keys) != 0 {
		t.Error("an expired CA can sign")
	}
}
