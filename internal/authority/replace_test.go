package authority_test

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestAReplacementIsPreparedBesideWhatIsInUse(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	before := w.in
	w.asks(authorities.ForceReplaceAnnotation, "true")
	d := w.decide()
	if len(d.Published) != 1 || !d.Published[0].Equal(d.Certificate) {
		t.Error("it is published before it was written")
	}
	if !d.Target().Equal(d.Pending.Incoming.Certificate()) || d.Target().Equal(d.Certificate) {
		t.Error("the target is not the pending one")
	}
	if got := d.Target().Subject.String(); got != "CN=cluster-ca v1,O=io.strimzi" {
		t.Errorf("subject %q", got)
	}
	o := w.step()
	if !bytes.Equal(o.settled.Key.Data["ca.key"], before.KeySecret.Data["ca.key"]) {
		t.Error("the key in use changed")
	}
	wantGenerations(t, o, 0, 0)
}

// The plan of one pass can be ahead of what is written, never behind it.
func TestTheSecretsFollowThePlan(t *testing.T) {
	t.Parallel()
	leads := func(w *world, d authority.Decision) authority.Plan {
		plan := turn(w, d)
		plan.Signer = d.Certificate
		return plan
	}
	signs := func(w *world, d authority.Decision) authority.Plan {
		plan := hold(w, d)
		plan.Signer = d.Target()
		return plan
	}
	tests := map[string]struct {
		before, at stage
		promoted   bool
	}{
		"it leads and signs": {hold, turn, true},
		"it only leads":      {hold, leads, false},
		"it only signs":      {hold, signs, false},
		"it leads and signs in the pass that starts it": {nil, turn, false},
		"nothing is known of anybody":                   {hold, func(*world, authority.Decision) authority.Plan { return authority.Plan{} }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			key := w.in.KeySecret.Data["ca.key"]
			w.asks(authorities.ForceReplaceAnnotation, "true")
			if tc.before != nil {
				w.step(tc.before)
			}
			o := w.step(tc.at)
			promoted := !bytes.Equal(w.in.KeySecret.Data["ca.key"], key)
			if promoted != tc.promoted {
				t.Errorf("promoted: %t", promoted)
			}
			if _, pending := w.in.KeySecret.Data["next-ca.key"]; pending == tc.promoted {
				t.Errorf("pending: %t", pending)
			}
			if !o.settled.Authority.Key().Matches(o.settled.Certificate) || o.settled.Certificate.Equal(o.Target()) != tc.promoted {
				t.Error("another one is said to be present")
			}
			if tc.promoted {
				wantGenerations(t, o, 1, 1)
			} else {
				wantGenerations(t, o, 0, 0)
			}
		})
	}
}

func TestPasswordAndTextsSurviveAPromotion(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.KeySecret.Data["ca.key"] = append([]byte("\n"), w.in.KeySecret.Data["ca.key"]...)
	old := w.in.KeySecret.Data["ca.key"]
	password := w.in.CertSecret.Data["ca.password"]
	o := w.starts()
	incoming := w.in.KeySecret.Data["next-ca.key"]
	w.step(turn)
	if !bytes.Equal(w.in.CertSecret.Data["ca.password"], password) {
		t.Error("the password of the store changed")
	}
	if !bytes.Equal(w.in.KeySecret.Data["ca.key"], incoming) || !bytes.Equal(w.in.KeySecret.Data[authority.DatedKeyKey(o.Certificate)], old) {
		t.Error("the keys were not moved as they were")
	}
}

func TestAnAuthorityTellsWhoCanSign(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	first := w.cert()
	w.starts()
	w.step(turn)
	second := w.cert()
	o := w.starts()
	third := o.Target()
	want := map[*x509.Certificate]authority.Generation{first: 0, second: 1, third: 2}
	for cert, generation := range want {
		ca, found := o.SignerOf(pki.KeyIDOf(cert))
		if !found || !ca.Certificate().Equal(cert) || !ca.Key().Matches(cert) {
			t.Errorf("%q cannot sign", cert.Subject)
		}
		if got := o.GenerationOf(cert); got != generation {
			t.Errorf("leaves of %q carry generation %s, want %s", cert.Subject, got, generation)
		}
	}
	if _, found := o.SignerOf(pki.KeyIDOf(pkitest.CA(t, "x", noon()).Certificate())); found || len(o.Keys) != 3 {
		t.Errorf("a stranger can sign: %t, %d keys", found, len(o.Keys))
	}
}

func TestAnAbortThatIsNotPossibleIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]func(w *world){
		"there never was a replacement": func(*world) {},
		"the old anchor has left":       func(w *world) { w.starts(); w.step(turn, finish) },
		"the old key is not at hand": func(w *world) {
			old := w.cert()
			w.starts()
			w.step(turn)
			delete(w.in.KeySecret.Data, authority.DatedKeyKey(old))
		},
		"the old anchor has expired": func(w *world) {
			w.in.Spec.ValidFor = 1000 * authority.Day
			w.starts()
			w.step(turn)
			w.in.Now = noon().Add(366 * day)
		},
		"the key is lost":     func(w *world) { losesKeys(w); w.step() },
		"it was aborted once": func(w *world) { w.starts(); w.step(turn); w.asks(authority.AbortReplaceAnnotation, "true"); w.step() },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			change(w)
			key := maps.Clone(w.in.KeySecret.Data)
			w.asks(authority.AbortReplaceAnnotation, "true")
			o := w.step()
			if !slices.Contains(kinds(o), authority.AbortRefused) || len(o.Warnings) != 1 {
				t.Errorf("transitions %v, warnings %q", kinds(o), o.Warnings)
			}
			if _, asked := w.in.KeySecret.Annotations[authority.AbortReplaceAnnotation]; asked {
				t.Error("it is still asked for")
			}
			if !bytes.Equal(w.in.KeySecret.Data["ca.key"], key["ca.key"]) || !bytes.Equal(w.in.KeySecret.Data["next-ca.key"], key["next-ca.key"]) {
				t.Error("a key changed")
			}
		})
	}
}

func TestARefusedAbortLosesNoOtherRequest(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.asks(authority.AbortReplaceAnnotation, "true")
	w.asks(authorities.ForceRenewAnnotation, "true")
	w.in.Window = authority.Window{Next: noon().Add(day)}
	o := w.step()
	wantKinds(t, o, authority.AbortRefused)
	if len(o.Waiting) != 1 || w.in.CertSecret.Annotations[authorities.ForceRenewAnnotation] != "true" {
		t.Error("the request for a new certificate was lost")
	}
}

// A person asks for a new key, and thinks better of it before the window opens.
func TestARequestThatWaitsForAWindowIsWithdrawnByAnAbort(t *testing.T) {
	t.Parallel()
	closed, open := authority.Window{Next: noon().Add(7 * day)}, authority.Window{Open: true}
	for name, window := range map[string]authority.Window{"the window is still closed": closed, "the window has just opened": open} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			present := w.cert()
			w.in.Window = closed
			w.asks(authorities.ForceReplaceAnnotation, "true")
			if o := w.step(); len(o.Waiting) != 1 {
				t.Fatalf("waiting are %+v, want the replacement", o.Waiting)
			}

			w.in.Window = window
			w.asks(authority.AbortReplaceAnnotation, "true")
			o := w.step()

			wantKinds(t, o, authority.ReplacementAborted)
			if len(o.Transitions) == 1 && !strings.Contains(o.Transitions[0].Why, "withdrawn") {
				t.Errorf("it is said: %s", o.Transitions[0].Why)
			}
			for _, annotation := range []string{authority.AbortReplaceAnnotation, authorities.ForceReplaceAnnotation} {
				if _, asked := w.in.KeySecret.Annotations[annotation]; asked {
					t.Errorf("%s is still asked for", annotation)
				}
			}
			w.in.Window = open
			if o := w.step(); o.Pending != nil || len(o.Transitions) > 0 || !w.cert().Equal(present) {
				t.Errorf("after that it happens: %+v", o.Transitions)
			}
		})
	}
}

func TestTheReplacementOfACompromisedKeyIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Window = authority.Window{Next: noon().Add(7 * day)}
	w.asks(authorities.ForceReplaceAnnotation, "true")
	w.asks(authority.DistrustAnnotation, authority.DistrustNow)
	w.asks(authority.AbortReplaceAnnotation, "true")

	wantKinds(t, w.step(), authority.AbortRefused, authority.ReplacementStarted)
}

func TestADamagedReplacementCanBeAborted(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.starts()
	w.in.KeySecret.Data["next-ca.crt"] = []byte("garbage")
	w.asks(authority.AbortReplaceAnnotation, "true")
	o := w.step(finish)
	wantKinds(t, o, authority.ReplacementAborted)
	if diff := cmp.Diff([]string{"ca.key"}, slices.Sorted(maps.Keys(w.in.KeySecret.Data))); diff != "" {
		t.Error(diff)
	}
}

// What an aborted authority has signed verifies until nobody presents it.
func TestAnAbortedAuthorityStaysUntilNobodyTrustsIt(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	aborted := w.starts().Pending.Incoming
	w.asks(authority.AbortReplaceAnnotation, "true")
	o := w.step()
	signer, found := o.SignerOf(aborted.Key().ID())
	if !found {
		t.Fatal("it cannot sign any more")
	}
	verifies(t, o, signer, old)
	verifies(t, o, o.Authority, aborted.Certificate())
	w.step(finish)
	if _, found := w.settle(finish).SignerOf(aborted.Key().ID()); found {
		t.Error("it is remembered although nobody trusts it")
	}
}

func TestWhatIsDistrustedStaysSoUntilAllIsDone(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.asks(authority.DistrustAnnotation, "Now")
	for i, at := range []stage{hold, turn} {
		if i == 0 {
			w.asks(authorities.ForceReplaceAnnotation, "true")
		}
		if o := w.step(at); !o.Distrust || w.in.KeySecret.Annotations[authority.DistrustAnnotation] != "Now" {
			t.Fatalf("forgotten in pass %d", i)
		}
	}
	w.asks(authorities.ForceReplaceAnnotation, "true")
	w.step(hold)
	w.asks(authorities.ForceReplaceAnnotation, "true")
	w.step(hold)
	w.step(turn) // the third is still asked for
	if w.in.KeySecret.Annotations[authority.DistrustAnnotation] == "" {
		t.Error("forgotten while a replacement is asked for")
	}
	w.step(hold)
	w.step(turn)
	w.step(finish)
	if value, found := w.in.KeySecret.Annotations[authority.DistrustAnnotation]; found {
		t.Errorf("still %q when all is done", value)
	}
	if o := w.settle(finish); o.Distrust {
		t.Error("still distrusting when all is done")
	}
}

func TestDistrustOutlastsAPlanThatIsDoneTooEarly(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(w *world)
		stays  bool
	}{
		"nothing else is there":        {func(*world) {}, false},
		"a replacement is pending":     {func(w *world) { w.starts() }, true},
		"a replacement waits to begin": {func(w *world) { w.starts(); w.asks(authorities.ForceReplaceAnnotation, "true"); w.step(turn) }, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			tc.change(w)
			w.asks(authority.DistrustAnnotation, "now")
			w.step(func(w *world, d authority.Decision) authority.Plan {
				plan := hold(w, d)
				plan.Done = true
				return plan
			})
			if _, stays := w.in.KeySecret.Annotations[authority.DistrustAnnotation]; stays != tc.stays {
				t.Errorf("it stays: %t", stays)
			}
		})
	}
	t.Run("a replacement is asked for while one runs and takes over", func(t *testing.T) {
		t.Parallel()
		w := runningWorld(t)
		w.asks(authority.DistrustAnnotation, "now")
		w.starts()
		w.asks(authorities.ForceReplaceAnnotation, "true")
		w.step(finish)
		if _, stays := w.in.KeySecret.Annotations[authority.DistrustAnnotation]; !stays {
			t.Error("it is gone")
		}
	})
}

func TestAnAbortGoesBackOneStep(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.starts()
	w.step(turn)
	second := w.cert()
	w.starts()
	w.step(turn)
	w.asks(authority.AbortReplaceAnnotation, "true")
	if o := w.step(); !o.Certificate.Equal(second) {
		t.Errorf("%q is present again", o.Certificate.Subject)
	}
}

func TestANameIsNotGivenTwice(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.asks(authorities.ForceReplaceAnnotation, "true")
	w.writeKey(w.settle(hold)) // nobody else ever saw it
	w.in.Now = noon().Add(400 * day)
	if got := w.step().Target().Subject.CommonName; got != "cluster-ca v2" {
		t.Errorf("the next one is called %q", got)
	}
}

func TestDistrustInOtherWordsDistrustsNobody(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.asks(authority.DistrustAnnotation, "true")
	if o := w.step(); o.Distrust {
		t.Error("it distrusts")
	}
	if w.in.KeySecret.Annotations[authority.DistrustAnnotation] != "true" {
		t.Error("the annotation was removed without being served")
	}
}
