package apitest

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

// renew has a certificate issued again now, and returns when that is possible next.
func (w *world) renew(name string, present issuer.Issued, now time.Time) time.Time {
	w.t.Helper()
	return w.renewFor("a target", name, present, now).Next
}

// renewFor has a certificate issued again for one target.
func (w *world) renewFor(target, name string, present issuer.Issued, now time.Time) issuer.Renewed {
	w.t.Helper()
	renewed, err := w.issuer().Renew(w.t.Context(), name, issuer.Renewal{Present: present.Chain[0], Target: target}, now)
	if err != nil {
		w.t.Fatal(err)
	}
	return renewed
}

func TestThePauseBetweenRenewalsIsForOneTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now()
	for i, target := range []string{"first", "second"} {
		before := w.issued(w.request(node))
		w.until("it is asked for", func() bool {
			return w.renewFor(target, node, before, now).Next.Equal(now.Add(issuer.RenewalPause))
		})
		if w.renewFor(target, node, before, now).InVain {
			t.Error("it is said to be in vain before anything was issued")
		}
		w.until("it is issued again", func() bool { return !w.issued(w.request(node)).Chain[0].Equal(before.Chain[0]) })
		if !w.renewFor(target, node, w.issued(w.request(node)), now).InVain {
			t.Errorf("what was issued for target %d is to be renewed, too, and that is not said", i)
		}
	}
}

func TestACertificateOfAnotherCAIsIssuedOnceThatIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.issued(w.request(node))
	next, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: "the company"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 365 * 24 * time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	secret := w.secret("company")
	secret.Data = map[string][]byte{corev1.TLSCertKey: pki.EncodeBundle(next.Certificate()), corev1.TLSPrivateKeyKey: next.Key().PEM()}
	if err := w.person.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if again := w.issued(w.request(node)); !again.Chain[0].Equal(before.Chain[0]) {
		t.Fatal("cert-manager has noticed the other CA by itself")
	}

	now := time.Now()
	w.until("it is asked for", func() bool { // cert-manager may write the Certificate after its Secret, and so in between
		return w.renew(node, before, now).Equal(now.Add(issuer.RenewalPause))
	})

	var after issuer.Issued
	if !w.within(patience, func() bool {
		after = w.issued(w.request(node))
		return !after.Chain[0].Equal(before.Chain[0])
	}) {
		t.Fatal("it was not issued again")
	}
	if !pki.IssuedBy(after.Chain[0], next.Certificate()) {
		t.Error("it is not of the other CA")
	}
	w.traffic.since()
	if at := w.renew(node, after, now.Add(time.Minute)); !at.Equal(now.Add(issuer.RenewalPause)) {
		t.Errorf("a minute later it may be renewed next at %s", at)
	}
	if reads, writes := w.traffic.since(); len(reads)+len(writes) > 0 {
		t.Errorf("a minute later there were reads %q and writes %q", reads, writes)
	}
	w.renew(node, before, now.Add(2*issuer.RenewalPause))
	if _, writes := w.traffic.since(); len(writes) > 0 {
		t.Errorf("for a certificate that is not issued any more there were writes %q", writes)
	}
}

func TestARenewalOfACertificateThatChangesMeanwhileIsAskedForAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.issued(w.request(node))
	now := time.Now()
	w.until("the Certificate changes between the read and the write", func() bool {
		interrupted := false
		w.traffic.interject(func() {
			interrupted = true
			w.annotate(node, "a.person/was", "here")
		})
		at := w.renew(node, before, now)
		if interrupted && !at.IsZero() {
			t.Fatalf("nothing was asked, and it may be renewed next at %s", at)
		}
		return interrupted
	})

	w.until("it is asked for", func() bool {
		return w.renew(node, before, now).Equal(now.Add(issuer.RenewalPause))
	})
	w.until("it is issued again", func() bool {
		return !w.issued(w.request(node)).Chain[0].Equal(before.Chain[0])
	})
}

func TestAReissueThatNoIssuerAnswersIsExplainedBesideWhatIsIssued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.issued(w.request(node))
	if err := w.person.Delete(t.Context(), w.object("Issuer", w.options.Issuer.Name, nil)); err != nil {
		t.Fatal(err)
	}
	asked := w.request(node)
	w.until("it is asked for", func() bool { return !w.renew(node, before, asked.Now).IsZero() })

	var next *issuer.Pending
	w.until("it is under way", func() bool {
		next = w.issued(asked).Next
		return next != nil
	})
	late := asked
	late.Now = next.Since.Add(issuer.Patience)
	w.until("the reason is known", func() bool {
		issued, is := w.ask(late).(issuer.Issued)
		return is && issued.Chain[0].Equal(before.Chain[0]) && issued.Next != nil &&
			contains(issued.Next.Why, []string{"has not been reissued since it was requested at", "/company does not exist", "correct issuerRef"})
	})
}

// annotate is what a person does to a Certificate.
func (w *world) annotate(name, key, value string) {
	w.t.Helper()
	certificate := w.object("Certificate", name, nil)
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := w.person.Patch(w.t.Context(), certificate, patch); err != nil {
		w.t.Error(err)
	}
}
