package authority_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// Nobody writes what is decided about a paused cluster, so a key that is made for it
// would be made again in each pass.
func TestNothingIsMadeWhileTheClusterIsPaused(t *testing.T) {
	t.Parallel()
	running := func(change func(w *world)) func(*testing.T) *world {
		return func(t *testing.T) *world {
			t.Helper()
			w := runningWorld(t)
			change(w)
			return w
		}
	}
	policy := func(w *world) { w.in.Spec.Policy = authority.ReplaceKey }
	tests := map[string]func(*testing.T) *world{
		"there is no CA yet":                   func(t *testing.T) *world { t.Helper(); return newWorld(t) },
		"a new key is asked for":               running(asks(authorities.ForceReplaceAnnotation, "true")),
		"a renewal is asked for":               running(asks(authorities.ForceRenewAnnotation, "true")),
		"a new key is due":                     running(func(w *world) { policy(w); later(340)(w) }),
		"a renewal is due":                     running(later(340)),
		"the CA has expired":                   running(later(370)),
		"its key is lost":                      running(losesKeys),
		"its certificate is lost":              running(losesCerts),
		"its certificate is lost to pods, too": running(func(w *world) { losesCerts(w); w.in.TrustedCerts = authority.Stored{} }),
		"everything is lost":                   running(func(w *world) { losesBoth(w); w.in.TrustedCerts = authority.Stored{} }),
		"what was pending has expired":         running(func(w *world) { w.starts(); later(370)(w) }),
	}
	for name, begin := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begin(t)
			w.in.Paused = true

			d := w.decide()

			for _, ca := range d.Keys {
				if !storesKey(w.in.KeySecret, ca.Key().PEM()) {
					t.Errorf("a key was made for %s", ca.Certificate().Subject)
				}
			}
			if d.Certificate != nil && !storesCertificate(w, d) {
				t.Errorf("a certificate was made for %s", d.Certificate.Subject)
			}
		})
	}
}

func TestWhatWasAskedForDuringAPauseIsDoneAfterIt(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.asks(authorities.ForceReplaceAnnotation, "true")
	w.in.Paused = true
	w.decide()
	w.in.Paused = false

	wantKinds(t, w.step(), authority.ReplacementStarted)
}

func storesKey(secret authority.Stored, text []byte) bool {
	for name := range secret.Data {
		if bytes.Equal(secret.Data[name], text) {
			return true
		}
	}
	return false
}

func storesCertificate(w *world, d authority.Decision) bool {
	for _, secret := range []authority.Stored{w.in.CertSecret, w.in.TrustedCerts, w.in.KeySecret} {
		for name := range secret.Data {
			if certs, err := pki.ParseBundle(secret.Data[name]); err == nil && slices.ContainsFunc(certs, d.Certificate.Equal) {
				return true
			}
		}
	}
	return false
}
