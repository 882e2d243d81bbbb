package authority_test

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// The CA before the present one is still trusted, because users present its certificates
// until it expires; the rotation to the present one has been over for long. A person asks
// for the next key, and thinks better of it before the window opens.
func TestARequestThatWaitsIsWithdrawnByAnAbortAndTheReplacementBeforeItStays(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.starts()
	for range 3 {
		w.step(turn)
	}
	present := w.cert()
	w.in.Window = authority.Window{Next: noon().Add(7 * day)}
	w.asks(authorities.ForceReplaceAnnotation, "true")
	if o := w.step(turn); len(o.Waiting) != 1 || o.Pending != nil {
		t.Fatalf("waiting are %+v, pending %v, want the replacement to wait", o.Waiting, o.Pending)
	}
	w.asks(authority.AbortReplaceAnnotation, "true")
	o := w.step(turn)
	for _, tr := range o.Transitions {
		if tr.Kind == authority.ReplacementAborted && !strings.Contains(tr.Why, "withdrawn") {
			t.Errorf("it is said: %s", tr.Why)
		}
	}
	w.step(turn)
	if !w.cert().Equal(present) {
		t.Errorf("the CA in use is %s again, want %s to stay", w.cert().Subject, present.Subject)
	}
	w.asks(authority.AbortReplaceAnnotation, "true")
	w.step(turn)
	if w.cert().Equal(present) {
		t.Error("the next abort does not go back either")
	}
}

func TestADamagedReplacementIsGivenUpByAnAbortThoughARequestWaits(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.starts()
	w.in.KeySecret.Data["next-ca.crt"] = []byte("garbage")
	w.asks(authorities.ForceReplaceAnnotation, "true")
	w.asks(authority.AbortReplaceAnnotation, "true")
	if o := w.step(finish); len(w.in.KeySecret.Data) != 1 {
		t.Errorf("the Secret holds %d entries after %v, want the key in use alone", len(w.in.KeySecret.Data), kinds(o))
	}
}

func TestARequestBehindAReplacementIsWithdrawnByAnAbortAndTheReplacementGoesOn(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	incoming := w.starts().Target()
	w.asks(authorities.ForceReplaceAnnotation, "true")
	w.asks(authority.AbortReplaceAnnotation, "true")
	if o := w.step(); o.Pending == nil || !o.Target().Equal(incoming) || len(o.Waiting) > 0 {
		t.Errorf("waiting are %+v, pending %v, want the first replacement alone", o.Waiting, o.Pending)
	}
	w.asks(authority.AbortReplaceAnnotation, "true")
	if o := w.step(); o.Pending != nil {
		t.Error("the next abort does not give it up")
	}
}
