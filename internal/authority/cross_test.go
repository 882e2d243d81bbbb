package authority_test

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// crossesOf are the unexpired cross certificates for the key of an authority.
func crossesOf(d authority.Decision, ca pki.Authority) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(d.Crosses), func(cross *x509.Certificate) bool { return pki.KeyIDOf(cross) != ca.Key().ID() })
}

// verifies expects that whoever trusts an anchor alone accepts leaves of a signer
// as they are presented.
func verifies(t *testing.T, o outcome, signer pki.Authority, anchor *x509.Certificate) {
	t.Helper()
	presented := append([]*x509.Certificate{leafOf(t, signer)}, crossesOf(o.Decision, signer)...)
	if err := pki.Verify(presented, []*x509.Certificate{anchor}, noon()); err != nil {
		t.Errorf("who trusts %q refuses a leaf of %q: %v", anchor.Subject.CommonName, signer.Certificate().Subject.CommonName, err)
	}
}

func TestWhoeverTrustsAnyPredecessorVerifiesWhatTheNewestSigns(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	var anchors []*x509.Certificate
	for range 3 {
		anchors = append(anchors, w.cert())
		w.starts()
		w.step(turn, finish)
	}
	o := w.step(finish)
	for _, anchor := range append(anchors, w.cert()) {
		verifies(t, o, o.Authority, anchor)
	}
	if o.NoCross != "" {
		t.Error(o.NoCross)
	}
	if presents := o.Authority.Presents(); len(presents) != 3 {
		t.Errorf("%d certificates are presented with a leaf, want one cross certificate for each predecessor", len(presents))
	}
}

func TestWhileAReplacementRunsBothSidesVerify(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	o := w.starts()
	incoming := o.Pending.Incoming
	verifies(t, o, incoming, old)
	verifies(t, o, incoming, incoming.Certificate())
	verifies(t, o, o.Authority, old)
	if len(o.Pending.Cross) != 1 || !o.Pending.Cross[0].Equal(crossesOf(o.Decision, incoming)[0]) {
		t.Errorf("%d cross certificates are pending", len(o.Pending.Cross))
	}
	cross := o.Pending.Cross[0]
	if !cross.NotBefore.Equal(noon().Add(-pki.Backdate)) || cross.NotAfter.After(old.NotAfter) {
		t.Errorf("the cross certificate is valid from %s to %s", cross.NotBefore, cross.NotAfter)
	}
}

func TestAPathLengthOfZeroForbidsCrossSigning(t *testing.T) {
	t.Parallel()
	limited := pkitest.Limited(t, pkitest.CA(t, "above", noon()), pkitest.CA(t, "below", noon()))
	renewed := renewedCA(t, limited, noon().Add(day)) // ends later
	tests := map[string]struct {
		present  pki.Authority
		trusted  []*x509.Certificate
		bundle   []*x509.Certificate
		days     int
		why      string
		isSigned bool
	}{
		"the present certificate has it": {
			present: limited, trusted: []*x509.Certificate{limited.Certificate()}, why: "path length 0",
		},
		"an anchor that pods still trust has it": {
			present: renewed, trusted: []*x509.Certificate{renewed.Certificate(), limited.Certificate()}, why: "path length 0",
		},
		"an entry of ca.crt has it": {
			present: renewed, trusted: []*x509.Certificate{renewed.Certificate()}, bundle: []*x509.Certificate{limited.Certificate()}, why: "path length 0",
		},
		"the one that has it has expired": {
			present: renewedCA(t, limited, noon().Add(100*day)), trusted: []*x509.Certificate{renewed.Certificate(), limited.Certificate()}, days: 370, isSigned: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			w.in.Now = noon().AddDate(0, 0, tc.days)
			w.in.KeySecret.Data["ca.key"] = tc.present.Key().PEM()
			w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(append([]*x509.Certificate{tc.present.Certificate()}, tc.bundle...)...)
			w.trusts(tc.trusted...)
			o := w.starts()
			if o.Pending == nil {
				t.Fatal("no replacement was started")
			}
			if (len(o.Pending.Cross) > 0) != tc.isSigned || !strings.Contains(o.NoCross, tc.why) || (o.NoCross == "") != tc.isSigned {
				t.Errorf("%d cross certificates, and %q", len(o.Pending.Cross), o.NoCross)
			}
			if _, stored := w.in.KeySecret.Data["next-ca-cross.crt"]; stored != tc.isSigned {
				t.Errorf("a cross certificate is stored: %t", stored)
			}
		})
	}
}

func TestACrossCertificateThatIsMissingIsSignedAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		at   []stage
		name string
	}{
		"while a replacement is pending": {[]stage{hold}, "next-ca-cross.crt"},
		"after it":                       {[]stage{hold, turn, finish}, "ca-cross.crt"},
	}
	for name, tc := range tests {
		for damage, text := range map[string][]byte{"gone": nil, "garbage": []byte("x")} {
			t.Run(name+" "+damage, func(t *testing.T) {
				t.Parallel()
				w := runningWorld(t)
				old := w.cert()
				w.asks(authorities.ForceReplaceAnnotation, "true")
				w.step(tc.at...)
				w.in.KeySecret.Data[tc.name] = text
				o := w.step(tc.at[len(tc.at)-1])
				signer, found := o.SignerOf(pki.KeyIDOf(o.Target()))
				if !found {
					t.Fatal("the target cannot sign")
				}
				verifies(t, o, signer, old)
				if len(w.in.KeySecret.Data[tc.name]) == 0 {
					t.Error("it is not stored again")
				}
			})
		}
	}
}

func TestACrossCertificateFollowsARenewalOfItsIssuer(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Spec.ValidFor = 2000 * authority.Day
	first := w.starts().Pending.Cross[0]
	w.in.Now = noon().Add(336 * day)
	o := w.step()
	wantKinds(t, o, authority.Renewed)
	if len(o.Pending.Cross) != 1 {
		t.Fatalf("%d cross certificates", len(o.Pending.Cross))
	}
	if again := o.Pending.Cross[0]; !again.NotAfter.After(first.NotAfter) || !pki.SignedBy(again, o.Certificate) {
		t.Error("the cross certificate ends with the certificate that was renewed")
	}
	before := w.in.KeySecret.Data
	wantSameData(t, before, w.step().settled.Key.Data)
}

func TestACrossCertificateByAnAuthorityThatIsForgottenGoes(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world){
		"the present key signed one that was aborted": func(w *world) {
			w.starts()
			w.asks(authority.AbortReplaceAnnotation, "true")
			w.step(hold, finish)
		},
		"it was compromised": func(w *world) {
			w.asks(authority.DistrustAnnotation, "now")
			w.starts()
			w.step(turn, finish)
		},
		"it has expired": func(w *world) {
			w.starts()
			w.step(turn, finish)
			w.in.Now = noon().Add(366 * day)
			w.step(finish)
		},
	}
	for name, course := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			course(w)
			if keys := slices.Sorted(maps.Keys(w.in.KeySecret.Data)); !slices.Equal(keys, []string{"ca.key"}) {
				t.Errorf("the key Secret holds %q", keys)
			}
			if o := w.settle(finish); len(o.Crosses) != 0 || len(o.Keys) != 1 {
				t.Errorf("%d cross certificates and %d keys", len(o.Crosses), len(o.Keys))
			}
		})
	}
}

func TestACompromisedAuthorityIsKnownWhileItsCrossCertificateIsPresented(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	w.asks(authority.DistrustAnnotation, "now")
	w.starts()
	w.step(turn, func(w *world, d authority.Decision) authority.Plan {
		plan := finish(w, d)
		plan.CrossSigners, plan.Done = []*x509.Certificate{old}, false
		return plan
	})
	if o := w.settle(hold); !o.Distrust || len(o.Crosses) != 1 || !slices.ContainsFunc(o.Keys, func(ca pki.Authority) bool { return ca.Certificate().Equal(old) }) {
		t.Errorf("distrusted %t, %d cross certificates, %d keys", o.Distrust, len(o.Crosses), len(o.Keys))
	}
	w.step(finish)
	if o := w.settle(finish); len(o.Crosses) != 0 || len(o.Keys) != 1 {
		t.Errorf("at the end %d cross certificates and %d keys", len(o.Crosses), len(o.Keys))
	}
}

func TestAnExpiredCrossCertificateIsNotPresented(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Spec.ValidFor = 1000 * authority.Day
	w.starts()
	w.step(turn, finish)
	w.in.Now = noon().Add(366 * day)
	if d := w.decide(); len(d.Crosses) != 0 || len(d.Authority.Presents()) != 0 {
		t.Errorf("%d cross certificates are left", len(d.Crosses))
	}
}

func TestARetiredCertificateWithoutItsKeySignsNothing(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	retired := pkitest.CA(t, "retired", noon()).Certificate()
	w.in.CertSecret.Data[authority.DatedCertKey(retired)] = pki.EncodeBundle(retired)
	if d := w.decide(); !strings.Contains(d.NoCross, "retired") || !strings.Contains(d.NoCross, "lost or kept elsewhere") {
		t.Errorf("no cross certificate because %q", d.NoCross)
	}
}

func TestAStrangerBesideARetiredKeyIsNobody(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	w.starts()
	w.step(turn, finish)
	name := authority.DatedCertKey(old)
	w.in.KeySecret.Data[name] = append(w.in.KeySecret.Data[name], pki.EncodeBundle(pkitest.CA(t, "x", noon()).Certificate())...)
	if o := w.step(finish); o.NoCross != "" || len(o.Keys) != 2 {
		t.Errorf("%d keys, no cross certificate because %q", len(o.Keys), o.NoCross)
	}
	if !bytes.Equal(w.in.KeySecret.Data[name], pki.EncodeBundle(old)) {
		t.Error("the stranger is still filed")
	}
}

func TestWhatNodesSendAlongIsNotStoredTwice(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	pending := w.starts().Pending
	w.in.Evidence.Included = pending.Cross
	for _, at := range []stage{hold, turn} {
		w.step(at)
		w.step(at)
		for _, entry := range []string{authority.CrossKey, authority.PendingCrossKey} {
			stored, found := w.in.KeySecret.Data[entry]
			if certs, err := pki.ParseBundle(stored); found && (err != nil || len(certs) != 1) {
				t.Errorf("%s holds %d cross certificates, want one (%v)", entry, len(certs), err)
			}
		}
	}
}

func TestWhatSomebodyForgottenHasSignedIsStoredUntilEveryOtherCAIsDistrusted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		course func(w *world)
		stored bool
	}{
		"a CA was handed over": {func(*world) {}, true},
		"and is distrusted":    {func(w *world) { w.asks(authority.DistrustAnnotation, authority.DistrustNow) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			w.in.Evidence.Included = []*x509.Certificate{crossCertificate(t, pkitest.CA(t, "forgotten", noon()), w.settle(hold).Authority)}
			c.course(w)
			w.step(finish)
			if _, stored := w.in.KeySecret.Data[authority.CrossKey]; stored != c.stored {
				t.Errorf("it is stored: %t, want %t", stored, c.stored)
			}
			w.in.Evidence.Included = nil // nodes send nothing along any more
			if got := w.settle(finish).Crosses; len(got) > 0 != c.stored {
				t.Errorf("%d cross certificates are known afterwards", len(got))
			}
		})
	}
}
