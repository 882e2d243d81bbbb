package authority_test

import (
	"crypto/x509"
	"maps"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/trust"
)

// edits writes generations as a person does.
func (w *world) edits(cert, key string) {
	w.in.CertSecret.Annotations[authorities.CertGenerationAnnotation] = cert
	w.in.KeySecret.Annotations[authorities.KeyGenerationAnnotation] = key
}

func wantLowered(t *testing.T, d outcome, annotations ...string) {
	t.Helper()
	if len(d.Warnings) != len(annotations) {
		t.Errorf("warnings %q, want one about each of %v", d.Warnings, annotations)
	}
	for _, annotation := range annotations {
		if !strings.Contains(strings.Join(sentences(d.Warnings), "\n"), annotation) {
			t.Errorf("%s is not named in %q", annotation, d.Warnings)
		}
	}
}

func TestGenerationsThatSomebodyLoweredAreRaisedToTheHighestSeen(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Evidence.CertGeneration, w.in.Evidence.KeyGeneration = 7, 5
	w.edits("3", "2")

	d := w.step()

	wantGenerations(t, d, 7, 5)
	wantLowered(t, d, authorities.CertGenerationAnnotation, authorities.KeyGenerationAnnotation)
	wantLowered(t, w.step())
	wantGenerations(t, w.step(), 7, 5)
}

func TestTheGenerationOfAKeyIsNeverBelowThatOfItsName(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.starts()
	w.step(turn)
	w.step(finish)
	w.edits("1", "0")

	d := w.step()

	wantGenerations(t, d, 1, 1)
	wantLowered(t, d, authorities.KeyGenerationAnnotation)
}

// Only the names that Keyturn gives count keys.
func TestTheNumberInTheNameOfAUsersCARaisesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"corporate v900", "900", "cluster-ca-900", "cluster-ca v9 v900"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := userWorld(t)
			ca := pkitest.CA(t, name, noon())
			w.in.KeySecret.Data["ca.key"] = ca.Key().PEM()
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(ca.Certificate())
			w.runs()
			w.in.Spec.Source = authority.Generated

			d := w.step()

			wantGenerations(t, d, 3, 2)
			wantLowered(t, d)
			if next := w.starts().Target().Subject.CommonName; next != "cluster-ca v3" {
				t.Errorf("the next one is called %q", next)
			}
		})
	}
}

func TestAKeyThatIsPutBackWithoutItsGenerationIsCountedAboveThoseAfterIt(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	backup := w.in.KeySecret
	w.starts()
	w.step(turn)
	w.in.KeySecret = authority.Stored{Exists: true, Data: backup.Data}

	if d := w.decide(); d.KeyGeneration != 2 {
		t.Errorf("the key has generation %s, and that of its successor was 1", d.KeyGeneration)
	}
}

func TestLeavesOfAPendingAuthorityAreAheadAndRaiseNothing(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.starts()
	w.in.Evidence.CertGeneration = 1

	d := w.step()

	wantGenerations(t, d, 0, 0)
	wantLowered(t, d)
	// Those of one that was given up are still there for a while.
	w.asks(authority.AbortReplaceAnnotation, "true")
	w.step()
	w.trusts(w.cert())
	d = w.step()
	wantGenerations(t, d, 0, 0)
	wantLowered(t, d)
}

func TestAUsersGenerationThatWasLoweredCountsAsTheHighestSeen(t *testing.T) {
	t.Parallel()
	w, chain := userWorld(t)
	w.runs()
	w.trusts(chain.issuing.Certificate())
	w.in.Evidence.CertGeneration, w.in.Evidence.KeyGeneration = 7, 5

	d := w.settle(hold)

	wantGenerations(t, d, 7, 5)
	wantLowered(t, d, authorities.CertGenerationAnnotation, authorities.KeyGenerationAnnotation)
}

// People look where they are sent: each warning is about the Secret that has the annotation.
func TestAWarningAboutAGenerationIsAboutTheSecretThatHasIt(t *testing.T) {
	t.Parallel()
	lowers := func(w *world) { w.in.Evidence.CertGeneration, w.in.Evidence.KeyGeneration = 7, 5 }
	misses := func(w *world) { w.in.CertSecret.Annotations, w.in.KeySecret.Annotations = nil, nil }
	for name, change := range map[string]func(*world){"lowered": lowers, "missing": misses} {
		for source, of := range map[string]func() *world{
			"of Keyturn": func() *world { return runningWorld(t) },
			"of a user":  func() *world { w, _ := userWorld(t); w.runs(); return w },
		} {
			w := of()
			change(w)
			where := map[string]string{}
			for _, warning := range w.decide().Warnings {
				where[warning.Part] = warning.Secret
			}
			want := map[string]string{
				"metadata.annotations{" + authorities.CertGenerationAnnotation + "}": w.in.Names.CertSecret,
				"metadata.annotations{" + authorities.KeyGenerationAnnotation + "}":  w.in.Names.KeySecret,
			}
			if !maps.Equal(where, want) {
				t.Errorf("%s, %s: the warnings are about %v, want %v", name, source, where, want)
			}
		}
	}
}

// restored puts a backup of the first CA back after another key was present.
func restored(t *testing.T) *world {
	t.Helper()
	w := runningWorld(t)
	key, cert := w.in.KeySecret, w.in.CertSecret
	w.starts()
	w.step(turn)
	w.in.KeySecret, w.in.CertSecret = key, cert
	return w
}

func TestAKeyThatIsRestoredHasNoGenerationThatAnotherHad(t *testing.T) {
	t.Parallel()
	for name, tells := range map[string]func(w *world, successor pki.Authority){
		"dependants tell of its successor, and pods mount that": func(w *world, _ pki.Authority) {
			w.in.Evidence.CertGeneration, w.in.Evidence.KeyGeneration = 1, 1
		},
		"the leaves of its successor are all that tells of it": func(w *world, successor pki.Authority) {
			w.in.TrustedCerts = authority.Stored{}
			w.in.Evidence.Issued = []*x509.Certificate{leafOf(t, successor)}
		},
		"a leaf of each of them is left": func(w *world, successor pki.Authority) {
			w.in.Evidence.CertGeneration = 1
			w.in.Evidence.Issued = []*x509.Certificate{leafOf(t, successor)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := restored(t)
			tells(w, pkitest.CA(t, "cluster-ca v1", noon()))

			d := w.step()

			wantGenerations(t, d, 2, 2)
			wantLowered(t, d, authorities.CertGenerationAnnotation, authorities.KeyGenerationAnnotation)
			wantLowered(t, w.step())
			if next := w.starts().Target().Subject.CommonName; next != "cluster-ca v3" {
				t.Errorf("the next one is called %s", next)
			}
		})
	}
}

// A replacement may be given up before its key was ever present.
func TestACertificateAloneIsNoSignOfARestore(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.trustsAs(pkitest.CA(t, "cluster-ca v1", noon()).Certificate(), trust.PhaseOut)

	d := w.step()

	wantGenerations(t, d, 0, 0)
	wantLowered(t, d)
}

func TestANewKeyIsCountedOnFromWhateverSurvives(t *testing.T) {
	t.Parallel()
	one, two := pkitest.CA(t, "cluster-ca v0", noon()).Certificate(), pkitest.CA(t, "cluster-ca v1", noon()).Certificate()
	nothing := func(w *world) {
		losesBoth(w)
		losesTrust(w)
	}
	for name, test := range map[string]struct {
		change func(*world)
		want   string
	}{
		"nothing does":                  {func(w *world) { nothing(w); w.in.Evidence = authority.Evidence{} }, "cluster-ca v0"},
		"a description with its number": {func(w *world) { nothing(w); w.in.Evidence.KeyGeneration = 4 }, "cluster-ca v5"},
		"one that names one certificate": {func(w *world) {
			nothing(w)
			w.in.Evidence.Described = []pki.Fingerprint{pki.FingerprintOf(one), pki.FingerprintOf(one)}
		}, "cluster-ca v1"},
		"one that names two certificates": {func(w *world) {
			nothing(w)
			w.in.Evidence.Described = []pki.Fingerprint{pki.FingerprintOf(one), pki.FingerprintOf(two)}
		}, "cluster-ca v2"},
		"a leaf": {func(w *world) {
			nothing(w)
			w.in.Evidence.Issued = []*x509.Certificate{leafOf(t, pkitest.CA(t, "cluster-ca v6", noon()))}
		}, "cluster-ca v7"},
		"ca.crt, and nobody depends on it": {func(w *world) {
			losesKeys(w)
			losesTrust(w)
			w.in.Evidence = authority.Evidence{}
		}, "cluster-ca v1"},
		"the generation of ca.crt, and nobody depends on it": {func(w *world) {
			losesKeys(w)
			losesTrust(w)
			w.in.Evidence, w.in.CertSecret.Data = authority.Evidence{}, nil
			w.in.CertSecret.Annotations = map[string]string{authorities.CertGenerationAnnotation: "3"}
		}, "cluster-ca v4"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			test.change(w)
			if got := w.decide().Certificate.Subject.CommonName; got != test.want {
				t.Errorf("it is called %s, want %s", got, test.want)
			}
		})
	}
}
