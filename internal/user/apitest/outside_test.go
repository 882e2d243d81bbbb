package apitest

import (
	"bytes"
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/trust"
	"github.com/keyturn/keyturn/internal/user/controller"
)

// The clients CA is that of an issuer outside, which writes into the Secrets of users.

// outsideIssuer stands in for cert-manager: it fills the Secrets that it is given, and keeps what it has issued until the test
// has it issue again.
type outsideIssuer struct {
	w      *world
	ca     pki.Authority
	asked  controller.Issuance
	issued map[string]issuer.Issued
	// requests are those that were made, and released and renewed the names of which that was asked.
	requests, due     []issuer.Request
	released, renewed []string
	// withheld is why requests stay without an answer, refusal why they are denied, failure that of asking.
	withheld, refusal string
	failure           error
	// next is the request for another certificate than what was issued.
	next *issuer.Pending
	// change makes other requests of them, and swap other keys.
	change func(*issuer.Request)
	swap   func([]byte) []byte
	// withoutCA leaves out ca.crt, as some issuers do.
	withoutCA bool
}

const certManagersName = "cert-manager-certificates-issuing"

// Start implements controller.Issuers.
func (o *outsideIssuer) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// Refer implements controller.Issuers.
func (o *outsideIssuer) Refer(types.NamespacedName) {}

// Forget implements controller.Issuers.
func (o *outsideIssuer) Forget(types.NamespacedName) {}

// IssuerOf implements controller.Issuers.
func (o *outsideIssuer) IssuerOf(asked controller.Issuance) controller.UserIssuer {
	o.asked = asked
	return o
}

// Issue implements issuer.Issuer.
func (o *outsideIssuer) Issue(_ context.Context, request issuer.Request) (issuer.Outcome, error) {
	if secret := o.w.stored(request.Name); secret.Type != corev1.SecretTypeOpaque || len(secret.Data["user.password"]) == 0 {
		o.w.t.Errorf("the Secret of %s is not given yet: %s, %v", request.Name, secret.Type, secret.Data)
	}
	o.requests = append(o.requests, request)
	switch {
	case o.failure != nil:
		return nil, o.failure
	case o.refusal != "":
		return issuer.Denied{Why: o.refusal}, nil
	case o.withheld != "":
		return issuer.Pending{Since: request.Now, Why: o.withheld}, nil
	}
	if _, is := o.issued[request.Name]; !is {
		o.due = append(o.due, request)
		return issuer.Pending{Since: request.Now, Why: "it has not been looked at."}, nil
	}
	outcome := certmanager.Given(request, o.w.stored(request.Name))
	if issued, is := outcome.(issuer.Issued); is {
		issued.Next = o.next
		return issued, nil
	}
	return outcome, nil
}

// works issues what is due, and reports whether there was something.
func (o *outsideIssuer) works() bool {
	due := o.due
	o.due = nil
	for _, request := range due {
		name := request.Name
		if o.change != nil {
			o.change(&request)
		}
		answer, err := ownca.New(o.ca).Issue(o.w.t.Context(), request)
		issued, is := answer.(issuer.Issued)
		if !is || err != nil {
			o.w.t.Fatalf("%+v, %v", answer, err)
		}
		o.issued[name] = issued
		o.fill(name, issued)
	}
	return len(due) > 0
}

// fill writes what was issued as cert-manager does.
func (o *outsideIssuer) fill(name string, issued issuer.Issued) {
	key := issued.Key.PEM()
	if o.swap != nil {
		key = o.swap(key)
	}
	data := map[string][]byte{
		"tls.crt": pki.EncodeBundle(issued.Chain...), "tls.key": key, "keystore.p12": {1}, "truststore.p12": {2},
	}
	if !o.withoutCA {
		data["ca.crt"] = pki.EncodeBundle(o.ca.Certificate())
	}
	o.apply(name, coreac.Secret(name, o.w.namespace).WithData(data).
		WithAnnotations(map[string]string{certmanager.CertificateNameAnnotation: name}))
}

func (o *outsideIssuer) apply(name string, intent *coreac.SecretApplyConfiguration) {
	o.w.t.Helper()
	if err := o.w.person.Apply(o.w.t.Context(), intent, client.FieldOwner(certManagersName), client.ForceOwnership); err != nil {
		o.w.t.Fatalf("filling %s: %v", name, err)
	}
}

// Withdraw implements issuer.Issuer.
func (o *outsideIssuer) Withdraw(context.Context, []string) error { return nil }

// Renew implements issuer.Renewer.
func (o *outsideIssuer) Renew(_ context.Context, name string, renewal issuer.Renewal, now time.Time) (issuer.Renewed, error) {
	if issued, is := o.issued[name]; is && issued.Chain[0].Equal(renewal.Present) {
		o.renewed = append(o.renewed, name)
		delete(o.issued, name)
	}
	return issuer.Renewed{Next: now.Add(issuer.RenewalPause)}, nil
}

// Release implements controller.UserIssuer.
func (o *outsideIssuer) Release(_ context.Context, name string) error {
	if o.failure != nil {
		return o.failure
	}
	o.released = append(o.released, name)
	o.apply(name, coreac.Secret(name, o.w.namespace))
	return nil
}

func outsideCA(t *testing.T, name string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 1000 * authority.Day, Now: noon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// outsideWorld is a world whose clients CA is that of an issuer, with the gate on.
func outsideWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.gates.CertManagerCaType = featuregate.On
	w.restart()
	w.elsewhere.ca = outsideCA(t, "company one")
	w.moveOutside()
	w.remove("my-cluster-clients-ca")
	w.trust(trust.TrustedUnused, w.elsewhere.ca)
	return w
}

// moveOutside makes the clients CA that of an issuer.
func (w *world) moveOutside() {
	w.t.Helper()
	w.patch(&kafkav1.Kafka{ObjectMeta: w.meta(cluster)}, `{"spec": {"clientsCa": {"type": "cert-manager.io", "generateCertificateAuthority": false,
		"certManager": {"issuerRef": {"name": "company"}, "caCert": {"secretName": "company", "certificate": "ca.crt"}}}}}`)
}

func (w *world) patch(object client.Object, patch string) {
	w.t.Helper()
	if err := w.person.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

// trust has the cluster operator copy the CAs of an issuer, of which the last one is in a state, and the others are trusted.
func (w *world) trust(state trust.State, cas ...pki.Authority) {
	w.t.Helper()
	certs := make([]*x509.Certificate, 0, len(cas))
	anchors := make([]authority.Anchor, 0, len(cas))
	for i, ca := range cas {
		certs = append(certs, ca.Certificate())
		anchors = append(anchors, authority.Anchor{Certificate: ca.Certificate(), State: trust.TrustedUnused})
		if i == len(cas)-1 {
			anchors[i].State = state
		}
	}
	w.put("my-cluster-clients-ca-cert", map[string][]byte{"ca.crt": pki.EncodeBundle(certs...)})
	w.put("my-cluster-clients-ca-trusted-certs", authority.TrustedCerts(authority.Stored{}, anchors))
}

// succeeds has the cluster operator replace a CA of the issuer that users still have certificates of.
func (w *world) succeeds(old, next pki.Authority) {
	w.t.Helper()
	w.put("my-cluster-clients-ca-cert", map[string][]byte{
		"ca.crt": pki.EncodeBundle(next.Certificate(), old.Certificate()),
		authority.DatedCertKey(old.Certificate()): pki.EncodeBundle(old.Certificate()),
	})
	w.put("my-cluster-clients-ca-trusted-certs", authority.TrustedCerts(authority.Stored{}, []authority.Anchor{
		{Certificate: old.Certificate(), State: trust.PhaseOut}, {Certificate: next.Certificate(), State: trust.TrustedUnused},
	}))
}

// reissue has the issuer issue again for a user.
func (w *world) reissue(name string) {
	delete(w.elsewhere.issued, name)
}

// wantIssued checks that applications read what the issuer has issued, in every form.
func (w *world) wantIssued(name string) {
	w.t.Helper()
	data := w.stored(name).Data
	if len(data["user.crt"]) == 0 || !bytes.Equal(data["user.crt"], data["tls.crt"]) || !bytes.Equal(data["user.key"], data["tls.key"]) {
		w.t.Errorf("user.crt and user.key are not those that were issued: %v", w.status(name).Conditions)
		return
	}
	if !w.opens(name) {
		w.t.Error("user.p12 holds something else")
	}
	w.wantUserReady(name)
}

func (w *world) wantUserReady(name string) {
	w.t.Helper()
	if status := w.status(name); status.ObservedGeneration == 0 || !isReady(status) {
		w.t.Errorf("the status is %+v", status)
	}
}

func isReady(status kafkav1.KafkaUserStatus) bool {
	_, _, is := reasonOf(status, condition.Ready)
	return is
}

// wantSaid checks that a condition says something about a user.
func (w *world) wantSaid(name string, kind condition.Type, reason, words string) {
	w.t.Helper()
	said := slices.ContainsFunc(w.status(name).Conditions, func(c condition.Condition) bool {
		return c.Type == kind && c.Reason == reason && strings.Contains(c.Message, words)
	})
	if !said {
		w.t.Errorf("conditions are %+v, want %s %s with %q", w.status(name).Conditions, kind, reason, words)
	}
}

// Nodes trust the root alone: whoever connects presents the issuer, too, from each form of the credentials.
func TestTheStoreOfAUserBelowAnIntermediateHoldsTheIssuer(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	root := w.elsewhere.ca
	issuing := pkitest.Changed(t, root, outsideCA(t, "issuing"), func(*x509.Certificate) {})
	presenting, err := pki.NewAuthority(issuing.Certificate(), issuing.Key(), issuing.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	w.elsewhere.ca = presenting
	w.user("alice", tls())
	for range 3 {
		w.reconcile("alice")
	}
	if chain := w.chain("alice"); len(chain) != 2 || !chain[1].Equal(issuing.Certificate()) {
		t.Errorf("user.crt holds %d certificates", len(chain))
	}
	w.wantIssued("alice")
	w.atRest("alice")
}

func TestAUserGetsACertificateOfAnIssuer(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")

	w.wantIssued("alice")
	secret := w.stored("alice")
	if leaf := w.leaf("alice"); leaf.Subject.String() != "CN=alice" {
		t.Errorf("the subject is %q", leaf.Subject)
	}
	if owner := secret.OwnerReferences; secret.Type != corev1.SecretTypeOpaque || len(owner) != 1 || owner[0].Kind != "KafkaUser" {
		t.Errorf("type %s, owners %v", secret.Type, owner)
	}
	if got := secret.Data["ca.crt"]; !bytes.Equal(got, pki.EncodeBundle(w.elsewhere.ca.Certificate())) {
		t.Errorf("ca.crt is %s", got)
	}
	request, asked := w.elsewhere.requests[0], w.elsewhere.asked
	if request.Subject != (pki.Subject{CommonName: "alice"}) || !request.SANs.IsEmpty() || !slices.Equal(request.Usages, []pki.Usage{pki.ClientAuth}) {
		t.Errorf("requested was %+v", request)
	}
	if asked.Issuer.Name != "company" || asked.Owner.Name != "alice" || asked.Owner.UID != secret.OwnerReferences[0].UID {
		t.Errorf("asked was %+v", asked)
	}
	w.atRest("alice")
}

func TestAChangedCertificateHasItsUserLookedAt(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	asked := len(w.elsewhere.requests)
	w.reconcile("alice")
	if len(w.elsewhere.requests) != asked {
		t.Fatal("the issuer is asked although nothing has changed")
	}

	certificate := &metav1.PartialObjectMetadata{ObjectMeta: w.meta("alice")}
	certificate.OwnerReferences = []metav1.OwnerReference{w.elsewhere.asked.Owner}
	requests := w.operator.CertificateChanged(t.Context(), certificate)
	w.reconcile("alice")

	if len(requests) != 1 || requests[0].Name != "alice" || len(w.elsewhere.requests) != asked+1 {
		t.Errorf("looked at are %v, and the issuer was asked %d times", requests, len(w.elsewhere.requests)-asked)
	}
}

func TestTheClientsCAIsOursWhereTheIssuerWritesNone(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.elsewhere.withoutCA = true
	w.user("alice", tls())
	w.reconcile("alice")
	w.wantIssued("alice")
	if got := w.stored("alice").Data["ca.crt"]; !bytes.Equal(got, pki.EncodeBundle(w.elsewhere.ca.Certificate())) {
		t.Errorf("ca.crt is %s", got)
	}

	w.elsewhere.withoutCA = false
	w.reissue("alice")
	w.restart()
	w.reconcile("alice")
	w.reconcile("alice")
	managers := 0
	for _, entry := range w.stored("alice").ManagedFields {
		if strings.Contains(entry.FieldsV1.GetRawString(), `"f:ca.crt"`) {
			managers++
		}
	}
	if managers != 1 {
		t.Errorf("ca.crt has %d managers", managers)
	}
	w.wantIssued("alice")
}

// The issuer's answers that a user's applications must never read.
func TestNothingIsAdoptedButWhatWasAskedForAndAllNodesTrust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hinder       func(w *world)
		reason, says string
		help         func(w *world)
	}{
		"it is late": {
			func(w *world) { w.elsewhere.withheld = "Issuer company is not ready" }, "CertificatePending", "Issuer company is not ready",
			func(w *world) { w.elsewhere.withheld = "" },
		},
		"it cannot be asked": {
			func(w *world) { w.elsewhere.failure = kubetest.ErrCrash }, "CertificatePending", kubetest.ErrCrash.Error(),
			func(w *world) { w.elsewhere.failure = nil },
		},
		"it denies": {
			func(w *world) { w.elsewhere.refusal = "CertificateRequest alice-1 was denied" }, "CertificatePending", "was denied",
			func(w *world) { w.elsewhere.refusal = "" },
		},
		"it adds an organization": {
			func(w *world) { w.elsewhere.change = func(r *issuer.Request) { r.Subject.Organization = "io.strimzi" } },
			"CertificatePending", "its subject is", func(w *world) { w.elsewhere.change = nil },
		},
		"it certifies another user": {
			func(w *world) { w.elsewhere.change = func(r *issuer.Request) { r.Subject.CommonName = "bob" } },
			"CertificatePending", "its subject is", func(w *world) { w.elsewhere.change = nil },
		},
		"it adds a usage": {
			func(w *world) { w.elsewhere.change = func(r *issuer.Request) { r.Usages = pki.BothUsages() } },
			"CertificatePending", "its usages are", func(w *world) { w.elsewhere.change = nil },
		},
		"it has another kind of key": {
			func(w *world) {
				w.elsewhere.change = func(r *issuer.Request) { r.Key = pki.KeyParams{Algorithm: pki.ECDSA, Size: 384} }
			},
			"CertificatePending", "its key is", func(w *world) { w.elsewhere.change = nil },
		},
		"the key is another one": {
			func(w *world) {
				w.elsewhere.swap = func([]byte) []byte { return w.elsewhere.ca.Key().PEM() }
			},
			"CertificatePending", "do not belong together", func(w *world) { w.elsewhere.swap = nil },
		},
		"not all nodes trust its CA": {
			func(w *world) { w.trust(trust.Untrusted, w.elsewhere.ca) }, "CertificateNotAdopted", "not all nodes trust the CA",
			func(w *world) { w.trust(trust.TrustedUnused, w.elsewhere.ca) },
		},
		"its CA is not announced": {
			func(w *world) { w.trust(trust.TrustedUnused, outsideCA(w.t, "company two")) }, "CertificateNotAdopted", "into the bundle",
			func(w *world) { w.trust(trust.TrustedUnused, w.elsewhere.ca) },
		},
		"its CAs were not copied yet": {
			func(w *world) {
				w.remove("my-cluster-clients-ca-cert")
				w.remove("my-cluster-clients-ca-trusted-certs")
			},
			"ClientsCANotReady", "has copied", func(w *world) { w.trust(trust.TrustedUnused, w.elsewhere.ca) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t)
			c.hinder(w)
			w.user("alice", tls())
			w.reconcile("alice")
			w.wantSaid("alice", condition.NotReady, c.reason, c.says)
			if data := w.stored("alice").Data; len(data["user.crt"])+len(data["user.key"])+len(data["user.p12"]) > 0 {
				t.Error("user.* are there")
			}
			if secret := w.status("alice").Secret; secret != "" {
				t.Errorf("the status names Secret %s, which has no credentials", secret)
			}

			c.help(w)
			w.reissue("alice")
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.reconcile("alice")
			w.wantIssued("alice")
		})
		t.Run(name+", and there is a certificate", func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t)
			w.elsewhere.ca = outsideCA(t, "company one")
			w.trust(trust.TrustedUnused, w.elsewhere.ca)
			w.user("alice", tls())
			w.reconcile("alice")
			before := w.stored("alice").Data

			w.clock.SetTime(w.clock.Now().Add(340 * authority.Day))
			c.hinder(w)
			w.reissue("alice")
			w.restart()
			w.reconcile("alice")

			w.wantSaid("alice", condition.Warning, c.reason, c.says)
			w.wantUserReady("alice")
			for _, entry := range []string{"user.crt", "user.key", "user.p12", "user.password"} {
				if !bytes.Equal(w.stored("alice").Data[entry], before[entry]) {
					t.Errorf("%s has changed", entry)
				}
			}
		})
	}
}

func TestApplicationsGoOnWithTheirCertificateUntilAllNodesTrustTheNextCA(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	before, old := w.stored("alice").Data, w.elsewhere.ca

	w.elsewhere.ca = outsideCA(t, "company two")
	w.reissue("alice")
	w.trust(trust.Untrusted, old, w.elsewhere.ca)
	w.restart()
	w.reconcile("alice")
	now := w.stored("alice").Data
	if bytes.Equal(now["tls.crt"], before["tls.crt"]) || !bytes.Equal(now["user.crt"], before["user.crt"]) || !bytes.Equal(now["user.key"], before["user.key"]) {
		t.Error("want another tls.crt, and the same user.crt and user.key")
	}
	w.wantSaid("alice", condition.Warning, "CertificateNotAdopted", "not all nodes trust the CA")
	w.wantUserReady("alice")

	w.trust(trust.TrustedUnused, old, w.elsewhere.ca)
	w.reconcile("alice")
	w.wantIssued("alice")
	if password := w.stored("alice").Data["user.password"]; !bytes.Equal(password, before["user.password"]) {
		t.Error("the password has changed")
	}
}

func TestACertificateOfACAOnItsWayOutIsAdoptedWhereTheUserHadOneOfIt(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.user("alice", tls())
	w.user("bob", tls())
	w.reconcile("alice")
	w.succeeds(w.elsewhere.ca, outsideCA(t, "company two"))

	w.reissue("alice")
	w.restart()
	w.reconcile("alice")
	w.reconcile("bob")

	w.wantIssued("alice")
	w.wantSaid("bob", condition.NotReady, "CertificateNotAdopted", "into the bundle")
}

func TestCertificatesOfACAOnItsWayOutAreIssuedAgainAfterThatOfTheFirstUser(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	users := []string{"alice", "bob", "carol"}
	for _, name := range users {
		w.user(name, tls())
		w.reconcile(name)
	}
	old := w.elsewhere.ca
	next := outsideCA(t, "company two")
	w.succeeds(old, next)
	round := func(after time.Duration) {
		w.clock.SetTime(w.clock.Now().Add(after))
		for _, name := range users {
			w.reconcile(name)
		}
	}

	round(time.Minute)
	round(time.Minute)
	if want := []string{"alice", "alice"}; !slices.Equal(w.elsewhere.renewed, want[:1]) && !slices.Equal(w.elsewhere.renewed, want) {
		t.Errorf("issued again were %v, want alice alone", w.elsewhere.renewed)
	}

	w.elsewhere.ca = next
	for range 3 {
		round(issuer.RenewalPause)
	}
	for _, name := range users {
		w.wantIssued(name)
		if leaf := w.leaf(name); leaf.Issuer.CommonName != "company two" {
			t.Errorf("%s has a certificate of %q", name, leaf.Issuer)
		}
	}
	count := len(w.elsewhere.renewed)
	round(issuer.RenewalPause)
	if len(w.elsewhere.renewed) != count {
		t.Errorf("issued again were %v", w.elsewhere.renewed)
	}
}

func TestAUserIsToldWhyTheNextCertificateIsLateAndKeepsTheOneThatServes(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.elsewhere.next = &issuer.Pending{Since: w.clock.Now(), Why: "Issuer kafka/company does not exist."}
	w.user("alice", tls())
	w.reconcile("alice")
	w.wantIssued("alice")

	w.clock.SetTime(w.clock.Now().Add(issuer.Patience))
	w.reconcile("alice")

	w.wantSaid("alice", condition.Warning, "CertificatePending", "No certificate is issued: Issuer kafka/company does not exist. The certificate in user.crt, valid until")
	w.wantSaid("alice", condition.Ready, "", "")
	w.elsewhere.next = nil
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.reconcile("alice")
	if conditions := w.status("alice").Conditions; len(conditions) != 1 {
		t.Errorf("conditions are %+v, want Ready alone", conditions)
	}
}

func TestAUserWhoseCertificateEndsBeforeAnotherOneIsAdoptedStopsBeingReady(t *testing.T) {
	t.Parallel()
	for name, hinder := range map[string]func(w *world){
		"nodes do not trust the CA of the next one": func(w *world) {
			next := outsideCA(t, "company two")
			w.trust(trust.Untrusted, next)
			w.elsewhere.ca = next
			w.elsewhere.issued, w.elsewhere.due = map[string]issuer.Issued{}, nil
		},
		"its issuer does not renew it": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t)
			w.user("alice", tls())
			w.reconcile("alice")
			w.wantIssued("alice")
			end := w.leaf("alice").NotAfter
			hinder(w)
			w.clock.SetTime(end.Add(-time.Hour))
			for range 3 {
				w.reconcile("alice")
			}
			at, err := w.try("alice")
			if err != nil || at.RequeueAfter == 0 || at.RequeueAfter > time.Hour {
				t.Errorf("an hour before the end it is looked at again after %s, %v", at.RequeueAfter, err)
			}

			w.clock.SetTime(end.Add(time.Second))
			w.reconcile("alice")

			if isReady(w.status("alice")) {
				t.Errorf("after its end the conditions are %+v", w.status("alice").Conditions)
			}
		})
	}
}

func TestAnAnnotationWithoutEffectIsNamedWithoutARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	annotate := func(annotations map[string]string) {
		user := w.read("alice")
		user.Annotations = annotations
		if err := w.person.Update(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		w.reconcile("alice")
	}
	annotate(map[string]string{"strimzi.io/force-renew": "true"})
	w.wantSaid("alice", condition.Warning, "AnnotationWithoutEffect", "strimzi.io/force-renew has no effect on a KafkaUser")
	annotate(nil)
	if conditions := w.status("alice").Conditions; len(conditions) != 1 {
		t.Errorf("conditions are %+v, want Ready alone", conditions)
	}
}

func TestCertificatesOfUsersAreIssuedAgainBeforeTheEndOfTheIntermediateThatIsPresentedWithThem(t *testing.T) {
	t.Parallel()
	for name, day := range map[string]time.Duration{"before its end": 41 * authority.Day, "after its end": 61 * authority.Day} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t)
			root := w.elsewhere.ca
			long := pkitest.Changed(t, root, outsideCA(t, "issuing"), func(*x509.Certificate) {})
			short := pkitest.Changed(t, root, long, func(c *x509.Certificate) { c.NotAfter = noon().Add(60 * authority.Day) })
			with := func(intermediate pki.Authority) pki.Authority {
				presenting, err := pki.NewAuthority(long.Certificate(), long.Key(), intermediate.Certificate())
				if err != nil {
					t.Fatal(err)
				}
				return presenting
			}
			w.elsewhere.ca = with(short)
			users := []string{"alice", "bob", "carol"}
			for _, name := range users {
				w.user(name, tls())
				w.reconcile(name)
			}
			round := func(after time.Duration) {
				w.clock.SetTime(w.clock.Now().Add(after))
				for _, name := range users {
					w.reconcile(name)
				}
			}

			round(day)
			round(time.Minute)
			if want := []string{"alice"}; !slices.Equal(slices.Compact(w.elsewhere.renewed), want) {
				t.Errorf("issued again were %v, want alice alone while the issuer has no other intermediate", w.elsewhere.renewed)
			}

			w.elsewhere.ca = with(long)
			for range 3 {
				round(issuer.RenewalPause)
			}
			for _, name := range users {
				chain, err := pki.ParseChain(w.stored(name).Data["user.crt"])
				if err != nil || !slices.ContainsFunc(chain, long.Certificate().Equal) {
					t.Errorf("%s presents %d certificates (%v), want the intermediate that lasts", name, len(chain), err)
				}
				w.wantUserReady(name)
			}
			count := len(w.elsewhere.renewed)
			round(issuer.RenewalPause)
			if len(w.elsewhere.renewed) != count {
				t.Errorf("issued again were %v", w.elsewhere.renewed)
			}
		})
	}
}

func TestASecretOfOthersIsNotGivenToTheIssuer(t *testing.T) {
	t.Parallel()
	for name, owners := range map[string][]metav1.OwnerReference{
		"it is an application's": nil,
		"it is that of a node":   {{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: cluster, UID: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t)
			secret := &corev1.Secret{ObjectMeta: w.meta("my-cluster-dual-role-0-cm"), Data: map[string][]byte{"tls.crt": []byte("other")}}
			secret.OwnerReferences = owners
			secret.Annotations = map[string]string{certmanager.CertificateNameAnnotation: "my-cluster-dual-role-0"}
			w.create(secret)
			w.user("my-cluster-dual-role-0-cm", tls())
			w.reconcile("my-cluster-dual-role-0-cm")

			w.wantSaid("my-cluster-dual-role-0-cm", condition.NotReady, "ForeignObject", "is not owned by this user")
			if len(w.elsewhere.requests) > 0 || len(w.stored("my-cluster-dual-role-0-cm").Data) != 1 {
				t.Error("the Secret was used")
			}
		})
	}
}

func TestAUserNamedLikeTheOperatorIsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.user("cluster-operator", tls())
	w.reconcile("cluster-operator")
	w.wantIssued("cluster-operator")
	if leaf := w.leaf("cluster-operator"); leaf.Subject.String() != "CN=cluster-operator" {
		t.Errorf("the subject is %q", leaf.Subject)
	}
	before := w.stored("cluster-operator").Data["user.crt"]

	w.elsewhere.change = func(r *issuer.Request) { r.Subject.Organization = "io.strimzi" }
	w.reissue("cluster-operator")
	w.restart()
	w.reconcile("cluster-operator")
	if !bytes.Equal(w.stored("cluster-operator").Data["user.crt"], before) {
		t.Error("a certificate of a super user was adopted")
	}
	w.wantSaid("cluster-operator", condition.Warning, "CertificatePending", "O=io.strimzi")
}

func TestWithTheGateOffNoUserIsMovedAndThoseThatWereGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	w.elsewhere.ca = outsideCA(t, "company one")
	w.moveOutside()
	w.reconcile("alice")
	if leaf := w.leaf("alice"); leaf.Issuer.CommonName != "clients-ca v0" || len(w.elsewhere.requests) > 0 {
		t.Errorf("the certificate is of %q", leaf.Issuer)
	}
	w.wantSaid("alice", condition.Warning, "FeatureGateDisabled", "+CertManagerCaType")
	w.wantUserReady("alice")

	w.gates.CertManagerCaType = featuregate.On
	w.restart()
	w.trust(trust.TrustedUnused, w.elsewhere.ca)
	w.reconcile("alice")
	w.wantIssued("alice")

	w.gates = featuregate.Gates{}
	w.restart()
	requests := len(w.elsewhere.requests)
	w.reissue("alice")
	w.elsewhere.due = w.elsewhere.requests[:1]
	w.elsewhere.works()
	w.reconcile("alice")
	w.wantIssued("alice")
	w.wantSaid("alice", condition.Warning, "FeatureGateDisabled", "still adopted")
	if len(w.elsewhere.requests) != requests {
		t.Error("the issuer was asked")
	}
}

// The key of the CA before the issuer's is there until no user needs it any more.
func TestWithTheGateOffNothingIsSignedByTheCAThatAnIssuerHasReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	first := w.leaf("alice")
	own, err := pki.FirstCertificate(w.stored("my-cluster-clients-ca-cert").Data["ca.crt"])
	if err != nil {
		t.Fatal(err)
	}
	next := outsideCA(t, "company one")
	w.moveOutside()
	w.put("my-cluster-clients-ca-cert", map[string][]byte{
		"ca.crt": pki.EncodeBundle(next.Certificate(), own), authority.DatedCertKey(own): pki.EncodeBundle(own),
	})
	w.put("my-cluster-clients-ca-trusted-certs", authority.TrustedCerts(authority.Stored{}, []authority.Anchor{
		{Certificate: own, State: trust.PhaseOut}, {Certificate: next.Certificate(), State: trust.InUseAll},
	}))
	w.user("bob", tls())
	w.reconcile("bob")
	w.wantSaid("bob", condition.NotReady, "CertificateHeld", "+CertManagerCaType")
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "bob"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("bob has a Secret (%v)", err)
	}

	w.reconcile("alice")
	w.wantSaid("alice", condition.Warning, "ClientsCANotReady", "phased out")
	w.wantUserReady("alice")
	w.clock.SetTime(first.NotAfter.Add(-10 * authority.Day))
	w.reconcile("alice")
	if !w.leaf("alice").Equal(first) {
		t.Errorf("alice has a certificate of %q", w.leaf("alice").Issuer)
	}
	w.wantSaid("alice", condition.NotReady, "CertificateHeld", "phased out")
}

func TestAUserThatLeavesTheIssuerKeepsNothingOfIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leave func(w *world)
		want  []string
	}{
		"to the cluster's own CA": {func(w *world) {
			own := w.newCA("clients-ca v1")
			w.nodesTrust(authority.Anchor{Certificate: own.Certificate(), State: trust.TrustedUnused})
			w.patch(&kafkav1.Kafka{ObjectMeta: w.meta(cluster)}, `{"spec": {"clientsCa": {"type": "strimzi.io", "generateCertificateAuthority": true}}}`)
		}, []string{"ca.crt", "user.crt", "user.key", "user.p12", "user.password"}},
		"to a password": {func(w *world) {
			w.patch(&kafkav1.KafkaUser{ObjectMeta: w.meta("alice")}, `{"spec": {"authentication": {"type": "scram-sha-512"}}}`)
		}, []string{"password", "sasl.jaas.config"}},
		"to nothing": {func(w *world) { w.endCredentials("alice") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t)
			w.user("alice", tls())
			w.reconcile("alice")

			c.leave(w)
			w.elsewhere.failure = kubetest.ErrCrash
			w.reconcile("alice")
			w.wantSaid("alice", condition.Warning, "CertificateNotRemoved", kubetest.ErrCrash.Error())
			w.elsewhere.failure = nil
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.reconcile("alice")

			if !slices.Equal(w.elsewhere.released, []string{"alice"}) {
				t.Errorf("released are %v", w.elsewhere.released)
			}
			w.wantUserReady("alice")
			secret := &corev1.Secret{}
			err := client.IgnoreNotFound(w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "alice"}, secret))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for entry := range secret.Data {
				got = append(got, entry)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("entries are %v, want %v", got, c.want)
			}
			version := secret.ResourceVersion
			w.restart()
			w.reconcile("alice")
			if c.want != nil && w.stored("alice").ResourceVersion != version {
				t.Error("the Secret is written at rest")
			}
		})
	}
}

func TestWhereTheOperatorOfUsersOfAnIssuerCrashesTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	for crash := 1; ; crash++ {
		w := outsideWorld(t)
		w.user("alice", tls())
		w.writer.CrashAt = crash
		_, err := w.try("alice")
		w.restart()
		w.reconcile("alice")
		w.wantIssued("alice")
		if err == nil {
			return
		}
	}
}

func TestAnotherPrefixKeepsThePasswordOfTheStoresOfAnIssuer(t *testing.T) {
	t.Parallel()
	w := outsideWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	before := w.stored("alice")
	w.usePrefix("kafka-")
	w.reconcile("alice")
	after := w.stored("kafka-alice")
	if !bytes.Equal(before.Data["user.password"], after.Data["user.password"]) {
		t.Error("the password of the stores is another one under the new name")
	}
}
