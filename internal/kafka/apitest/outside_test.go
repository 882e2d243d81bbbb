package apitest

import (
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
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
)

// An issuer outside of the operator signs what the cluster presents. The operator holds no key of it.

const bundleSecret = "company-ca"

// outsideIssuer stands in for an issuer that keeps what it has issued until the test has it issue again.
type outsideIssuer struct {
	w      *world
	ca     pki.Authority
	before pki.Authority
	// issued are the certificates by their names, and owners are the clusters that have asked for them.
	issued map[string]issuer.Issued
	owners map[string]types.UID
	// labels are those with which each certificate was requested last.
	labels map[string]map[string]string
	// withheld is why requests stay without an answer, and refusal why they are denied, if they do.
	withheld, refusal string
	// unanswered is why renewals that were asked for have no answer, if they have none.
	unanswered string
	// change makes other requests of them.
	change func(*issuer.Request)
	// kept are the requests that were not withdrawn, and renewed those that were issued again because the operator asked.
	kept, renewed []string
	renewedAt     map[string]time.Time
	// swept are the clusters that are gone.
	swept []types.NamespacedName
}

// Start implements controller.OutsideIssuers.
func (o *outsideIssuer) Start(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// Refer implements controller.OutsideIssuers.
func (o *outsideIssuer) Refer(types.NamespacedName) {}

// Forget implements controller.OutsideIssuers.
func (o *outsideIssuer) Forget(types.NamespacedName) {}

// Sweep implements controller.OutsideIssuers.
func (o *outsideIssuer) Sweep(_ context.Context, kafka types.NamespacedName) error {
	o.swept = append(o.swept, kafka)
	return nil
}

// IssuerOf implements controller.OutsideIssuers.
func (o *outsideIssuer) IssuerOf(k controller.OutsideIssuer) issuer.Renewer {
	return issuerOf{outsideIssuer: o, owner: k.Owner.UID, given: k.Labels}
}

// issuerOf is the issuer as one cluster sees it.
type issuerOf struct {
	*outsideIssuer

	owner types.UID
	given map[string]string
}

// Renew implements issuer.Renewer.
func (o *outsideIssuer) Renew(_ context.Context, name string, renewal issuer.Renewal, now time.Time) (issuer.Renewed, error) {
	next := o.renewedAt[name+renewal.Target].Add(issuer.RenewalPause)
	issued, is := o.issued[name]
	if now.Before(next) {
		return issuer.Renewed{Next: next, InVain: is && issued.Chain[0].Equal(renewal.Present)}, nil
	}
	if !is || !issued.Chain[0].Equal(renewal.Present) {
		return issuer.Renewed{Next: next}, nil
	}
	if o.unanswered != "" {
		o.renewed, o.renewedAt[name+renewal.Target] = append(o.renewed, name), now
		issued.Next = &issuer.Pending{Since: now, Why: o.unanswered}
		o.issued[name] = issued
		return issuer.Renewed{Next: now.Add(issuer.RenewalPause)}, nil
	}
	err := o.w.faulty.Count("renew", "Certificate "+name, func() error {
		o.renewed = append(o.renewed, name)
		o.renewedAt[name+renewal.Target], next = now, now.Add(time.Second) // it is going to have an answer
		delete(o.issued, name)
		return nil
	})
	return issuer.Renewed{Next: next}, err
}

// Issue implements issuer.Issuer.
func (o issuerOf) Issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	o.labels[request.Name] = o.given
	switch answer, issued := o.issued[request.Name]; {
	case o.refusal != "":
		return issuer.Denied{Why: o.refusal}, nil
	case issued:
		return answer, nil
	case o.withheld != "":
		return issuer.Pending{Since: request.Now, Why: o.withheld}, nil
	}
	if o.change != nil {
		o.change(&request)
	}
	var outcome issuer.Outcome
	return outcome, o.w.faulty.Count("apply", "Certificate "+request.Name, func() (err error) {
		outcome, err = ownca.New(o.ca).Issue(ctx, request)
		if issued, is := outcome.(issuer.Issued); is {
			o.issued[request.Name], o.owners[request.Name] = issued, o.owner
			o.store(request.Name, issued)
		}
		return err
	})
}

// store leaves a certificate where issuers do, without the key, which nothing reads there.
func (o *outsideIssuer) store(name string, issued issuer.Issued) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.w.namespace, Name: name + "-cm"}}
	_, err := controllerutil.CreateOrUpdate(o.w.t.Context(), o.w.api, secret, func() error {
		secret.Data = map[string][]byte{corev1.TLSCertKey: pki.EncodeBundle(issued.Chain...)}
		return nil
	})
	if err != nil {
		o.w.t.Error(err)
	}
}

// Withdraw implements issuer.Issuer.
func (o issuerOf) Withdraw(_ context.Context, keep []string) error {
	o.kept = keep
	for name := range o.issued {
		if !slices.Contains(keep, name) && o.owners[name] == o.owner {
			delete(o.issued, name)
		}
	}
	return nil
}

// renew has the issuer issue again what it has issued for some names, all without any.
func (o *outsideIssuer) renew(names ...string) {
	for name := range o.issued {
		if len(names) == 0 || slices.Contains(names, name) {
			delete(o.issued, name)
		}
	}
}

// outsideWorld is a world whose cluster asks for an issuer, with the gate on.
func outsideWorld(t *testing.T, ca pki.Authority) *world {
	t.Helper()
	w := newWorld(t)
	w.hasIssuer(ca)
	return w
}

// hasIssuer lets clusters ask for an issuer.
func (w *world) hasIssuer(ca pki.Authority) {
	w.elsewhere = &outsideIssuer{w: w, ca: ca, issued: map[string]issuer.Issued{}, owners: map[string]types.UID{}, labels: map[string]map[string]string{}, renewedAt: map[string]time.Time{}}
	w.gates = featuregate.Gates{CertManagerCaType: featuregate.On}
	w.startOperator()
}

// asksOutside creates a cluster whose leaves the issuer signs.
func (w *world) asksOutside(replicas int32) {
	w.t.Helper()
	kafka := kafkaOf(w.namespace, replicas)
	kafka.Spec.ClusterCa.GenerateCertificateAuthority = new(false)
	kafka.Spec.ClusterCa.Type = kafkav1.CertManagerAuthority
	kafka.Spec.ClusterCa.CertManager = &kafkav1.CertManager{
		IssuerRef: &kafkav1.IssuerReference{Name: "company"},
		CACert:    &kafkav1.CertSecretSource{SecretName: bundleSecret, Certificate: authority.CertKey},
	}
	w.create(kafka, poolResource(w.namespace, "dual", replicas, kafkav1.RoleController, kafkav1.RoleBroker))
}

func (w *world) bringsBundle(certs ...*x509.Certificate) {
	w.t.Helper()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: bundleSecret},
		Data:       map[string][]byte{authority.CertKey: pki.EncodeBundle(certs...)},
	})
}

// outsideCluster is a running cluster of three nodes.
func outsideCluster(t *testing.T) (*world, pki.Authority) {
	t.Helper()
	ca := caNamed(t, "company one", 1000*authority.Day)
	w := outsideWorld(t, ca)
	w.bringsBundle(ca.Certificate())
	w.asksOutside(3)
	w.settle()
	return w, ca
}

// wantLeavesOf checks that everything that the cluster presents was issued by a CA.
func (w *world) wantLeavesOf(ca pki.Authority) {
	w.t.Helper()
	for pod := range w.podUIDs() {
		if leaf := w.leafOf(pod); !pki.IssuedBy(leaf, ca.Certificate()) {
			w.t.Errorf("%s presents a certificate of %q", pod, leaf.Issuer)
		}
	}
	operator := w.first(w.secret("my-cluster-operator-certs").Data["cluster-operator.crt"])
	if !pki.IssuedBy(operator, ca.Certificate()) {
		w.t.Errorf("the operator presents a certificate of %q", operator.Issuer)
	}
}

func (w *world) wantGenerations(cert, key string) {
	w.t.Helper()
	annotations := w.secret("my-cluster-ca-cert").Annotations
	if annotations[authorities.CertGenerationAnnotation] != cert || annotations[authorities.KeyGenerationAnnotation] != key {
		w.t.Errorf("annotations are %v, want generations %s and %s", annotations, cert, key)
	}
}

func TestAClusterRunsOnCertificatesOfAnIssuer(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)

	w.wantReady()
	w.wantLeavesOf(ca)
	w.wantGenerations("0", "0")
	if hash := w.secret("my-cluster-ca-cert").Annotations[authorities.CertHashAnnotation]; len(hash) != 64 {
		t.Errorf("annotation %s is %q", authorities.CertHashAnnotation, hash)
	}
	var key corev1.Secret
	if err := w.api.Get(t.Context(), w.key("my-cluster-ca"), &key); !apierrors.IsNotFound(err) {
		t.Errorf("Secret my-cluster-ca: %v, want none", err)
	}
	for pod := range w.podUIDs() {
		want := pki.SHA1Name(w.leafOf(pod))
		if got := w.secret(pod).Annotations[model.ServerCertHashAnnotation]; got != want {
			t.Errorf("Secret %s has annotation %s %q, want %q", pod, model.ServerCertHashAnnotation, got, want)
		}
	}
	w.wantRestarts(0)
	writes := w.faulty.Written
	w.run(5)
	if w.faulty.Written != writes {
		t.Errorf("%d writes at rest", w.faulty.Written-writes)
	}
}

func TestARenewedCertificateOfAnIssuerIsLoadedWithoutARestart(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	before := w.leafOf("my-dual-0")

	w.clock.SetTime(w.clock.Now().Add(30 * authority.Day))
	w.elsewhere.renew()
	w.settle()

	w.wantReady()
	w.wantLeavesOf(ca)
	if w.leafOf("my-dual-0").Equal(before) {
		t.Error("the certificate that was issued is not adopted")
	}
	w.wantGenerations("0", "0")
	w.wantRestarts(0)
}

func TestAnIssuersNewKeyReplacesTheOldOneInEveryOrder(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(w *world, next pki.Authority){
		"its CA is announced before it issues": func(w *world, next pki.Authority) {
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
			w.settle()
			w.elsewhere.ca = next
			w.elsewhere.renew()
			w.settle()
		},
		"both CAs are announced, and the old one is removed last": func(w *world, next pki.Authority) {
			old := w.elsewhere.ca
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(old.Certificate(), next.Certificate()))
			w.settle()
			w.elsewhere.ca = next
			for _, certificate := range []string{"my-dual-1", "my-cluster-operator-certs", "my-dual-0", "my-dual-2"} {
				w.elsewhere.renew(certificate)
				w.settle()
			}
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
			w.settle()
		},
		"it issues before its CA is announced": func(w *world, next pki.Authority) {
			w.elsewhere.ca = next
			w.elsewhere.renew()
			w.settle()
			w.wantLeavesSigned("company one")
			w.wantHeld("into the bundle")
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
			w.settle()
		},
		"its CA is announced, and it issues by that when it is asked": func(w *world, next pki.Authority) {
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
			w.elsewhere.ca = next
			w.settle()
		},
		"its CA issues through another, and is announced before it issues": func(w *world, next pki.Authority) {
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
			w.elsewhere.ca = w.below(next)
			w.settle()
			for pod := range w.podUIDs() {
				if leaf := w.leafOf(pod); leaf.Issuer.CommonName != "issuing" {
					w.t.Errorf("%s presents a certificate of %q", pod, leaf.Issuer)
				}
			}
			w.elsewhere.ca = next
			w.elsewhere.renew()
			w.settle()
		},
		"it issues by another CA of its bundle than before at once": func(w *world, next pki.Authority) {
			old := w.elsewhere.ca
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(old.Certificate(), next.Certificate()))
			w.elsewhere.ca = next
			w.elsewhere.renew()
			w.settle()
		},
		"both at once": func(w *world, next pki.Authority) {
			w.elsewhere.ca = next
			w.elsewhere.renew()
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
			w.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := outsideCluster(t)
			w.classic() // nobody can cross-sign
			next := caNamed(t, "company two", 1000*authority.Day)

			order(w, next)
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.settle()

			w.wantLeavesOf(next)
			w.wantReady()
			for pod, times := range w.restarts() {
				if times > 2 {
					t.Errorf("%s was restarted %d times", pod, times)
				}
			}
		})
	}
}

// A listener tells which names it trusts, and the next CA of an issuer usually has the name of the one before: nodes prove
// which of them they have loaded by leaves that they had or are offered, because nobody can sign others.
func TestAnIssuersNewKeyUnderTheSameNameIsProvenByTheLeavesThatNodesHave(t *testing.T) {
	t.Parallel()
	w, old := outsideCluster(t)
	w.classic() // nobody can cross-sign
	next := caNamed(t, "company one", 1000*authority.Day)
	w.elsewhere.ca = next
	w.elsewhere.renew()
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	proven := map[string]bool{}
	for range 40 {
		w.run(1)
		if status := w.status(t.Context()); strings.Contains(status, "rejects nodes") {
			t.Errorf("conditions are %s, although ca.crt has both CAs", status)
		}
		for entry, data := range w.secret("my-dual-0").Data {
			if name, is := strings.CutPrefix(entry, publication.ProofEntry("")); is && strings.HasSuffix(name, ".crt") {
				leaf := w.first(data)
				for _, ca := range []pki.Authority{old, next} {
					if pki.IssuedBy(leaf, ca.Certificate()) {
						proven[pki.KeyIDOf(ca.Certificate()).String()] = true
					}
				}
			}
		}
	}
	for _, ca := range []pki.Authority{old, next} {
		if key := pki.KeyIDOf(ca.Certificate()).String(); !proven[key] {
			t.Errorf("no leaf proves whether CA %s is trusted", key)
		}
	}
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle()
	w.wantLeavesOf(next)
	w.wantReady()
	for pod, times := range w.restarts() {
		if times > 2 {
			t.Errorf("%s was restarted %d times", pod, times)
		}
	}
	for entry := range w.secret("my-dual-0").Data {
		if strings.HasPrefix(entry, publication.ProofEntry("")) {
			t.Errorf("entry %s is left in the end", entry)
		}
	}
}

// below is a CA that another one has signed, and that is presented with the leaves that it signs.
func (w *world) below(upper pki.Authority) pki.Authority {
	w.t.Helper()
	issuing := pkitest.Changed(w.t, upper, caNamed(w.t, "issuing", 900*authority.Day), func(*x509.Certificate) {})
	presenting, err := pki.NewAuthority(issuing.Certificate(), issuing.Key(), issuing.Certificate())
	if err != nil {
		w.t.Fatal(err)
	}
	return presenting
}

// isListed reports whether the bundle holds a CA.
func (w *world) isListed(anchor string) bool {
	if w.elsewhere == nil {
		return false
	}
	var bundle corev1.Secret
	if err := w.api.Get(w.t.Context(), w.key(bundleSecret), &bundle); err != nil {
		return false
	}
	return slices.ContainsFunc(w.certs.in(bundle.Data[authority.CertKey]), func(c *x509.Certificate) bool { return fingerprint(c) == anchor })
}

func (w *world) wantLeavesSigned(issuer string) {
	w.t.Helper()
	for pod := range w.podUIDs() {
		if leaf := w.leafOf(pod); leaf.Issuer.CommonName != issuer {
			w.t.Errorf("%s presents a certificate of %q, want %q", pod, leaf.Issuer, issuer)
		}
	}
}

// wantHeld wants a warning about certificates that are not adopted.
func (w *world) wantHeld(words string) {
	w.t.Helper()
	if status := w.status(w.t.Context()); !strings.Contains(status, words) {
		w.t.Errorf("conditions are %s, want %q", status, words)
	}
}

func TestNothingIsMadeUntilTheIssuerCanBeUsed(t *testing.T) {
	t.Parallel()
	ca := caNamed(t, "company one", 1000*authority.Day)
	for name, c := range map[string]struct {
		hinder func(w *world)
		says   string
		help   func(w *world)
	}{
		"the gate is off": {
			func(w *world) { w.gates = featuregate.Gates{}; w.startOperator() }, "STRIMZI_FEATURE_GATES=+CertManagerCaType",
			func(w *world) { w.gates.CertManagerCaType = featuregate.On; w.startOperator() },
		},
		"the Secret of its CAs is missing": {
			func(w *world) { w.delete(&corev1.Secret{}, bundleSecret) }, "Secret company-ca",
			func(w *world) { w.bringsBundle(ca.Certificate()) },
		},
		"it does not answer": {
			func(w *world) { w.elsewhere.withheld = "approve CertificateRequest x" }, "approve CertificateRequest x",
			func(w *world) { w.elsewhere.withheld = "" },
		},
		"it denies": {
			func(w *world) { w.elsewhere.refusal = "correct the Issuer" }, "correct the Issuer",
			func(w *world) { w.elsewhere.refusal = "" },
		},
		"it drops the organization": {
			func(w *world) { w.elsewhere.change = func(r *issuer.Request) { r.Subject.Organization = "" } }, "its subject is",
			func(w *world) { w.elsewhere.change = nil; w.elsewhere.renew() },
		},
		"it is not the one whose CA is announced": {
			func(w *world) { w.elsewhere.ca = caNamed(t, "stranger", 1000*authority.Day) }, "into the bundle",
			func(w *world) { w.elsewhere.ca = ca; w.elsewhere.renew() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := outsideWorld(t, ca)
			w.bringsBundle(ca.Certificate())
			c.hinder(w)
			w.asksOutside(3)
			w.run(8)

			if pods := w.podUIDs(); len(pods) > 0 {
				t.Errorf("pods were made: %v", pods)
			}
			w.wantHeld(c.says)

			c.help(w)
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.settle()
			w.wantReady()
			w.wantLeavesOf(ca)
		})
	}
}

func TestABrokenBundleOfARunningClusterKeepsWhatIsTrustedAndAdoptsRenewals(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	before := w.leafOf("my-dual-0")

	w.replaceData(bundleSecret, authority.CertKey, []byte("oops"))
	w.run(3)
	w.wantHeld("Secret company-ca")
	w.elsewhere.renew()
	w.run(6)

	if w.leafOf("my-dual-0").Equal(before) {
		t.Error("the certificate that was issued is not adopted")
	}
	w.wantLeavesOf(ca)
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(ca.Certificate()))
	w.settle()
	w.wantReady()
	w.wantRestarts(0)
}

func TestAnIssuerThatOthersCanUseIsNamed(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	if status := w.status(t.Context()); strings.Contains(status, "SharedIssuer") {
		t.Errorf("conditions are %s before", status)
	}
	root := caNamed(t, "company root", 1000*authority.Day)
	signed := pkitest.Changed(t, root, ca, func(*x509.Certificate) {})

	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(root.Certificate(), signed.Certificate()))
	w.settle()
	w.wantHeld(`SharedIssuer`)
	w.wantHeld("company root")

	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(ca.Certificate()))
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clusterCa": map[string]any{
		"certManager": map[string]any{"issuerRef": map[string]any{"kind": "ClusterIssuer"}},
	}}})
	w.settle()
	w.wantHeld("ClusterIssuer company can be used from every namespace")
	w.wantReady()
}

// The CA issuer of cert-manager does not cut certificates to the end of its CA.
func TestAMaintenanceWindowDoesNotHoldACertificateBeyondTheEndOfItsCA(t *testing.T) {
	t.Parallel()
	ca := caNamed(t, "company one", 100*authority.Day)
	w := outsideWorld(t, ca)
	long, err := pki.RenewCA(ca.Certificate(), ca.Key(), 1000*authority.Day, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.bringsBundle(ca.Certificate())
	w.elsewhere.ca = long
	w.asksOutside(3)
	w.settle()
	w.classic() // nobody can cross-sign
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"maintenanceTimeWindows": []any{"* * * 1 1 ?"}}})
	next := caNamed(t, "company two", 1000*authority.Day)
	w.clock.SetTime(w.clock.Now().Add(60 * authority.Day))
	w.elsewhere.ca = next
	w.elsewhere.renew()
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	w.settle()
	w.wantLeavesOf(ca) // the CA lasts for 40 days

	w.clock.SetTime(w.clock.Now().Add(15 * authority.Day))
	w.settle()

	w.wantLeavesOf(next)
	w.wantReady()
}

// An issuer does not notice that the intermediate ends that it has sent along with its certificates.
func TestCertificatesAreIssuedAgainBeforeTheEndOfTheIntermediateThatIsPresentedWithThem(t *testing.T) {
	t.Parallel()
	root := caNamed(t, "company one", 1000*authority.Day)
	w := outsideWorld(t, root)
	w.bringsBundle(root.Certificate())
	long := w.below(root)
	short := pkitest.Changed(t, root, long, func(c *x509.Certificate) { c.NotAfter = w.clock.Now().Add(120 * authority.Day) }).Certificate()
	with := func(intermediate *x509.Certificate) pki.Authority {
		presenting, err := pki.NewAuthority(long.Certificate(), long.Key(), intermediate)
		if err != nil {
			t.Fatal(err)
		}
		return presenting
	}
	w.elsewhere.ca = with(short)
	w.asksOutside(3)
	w.settle()

	w.clock.SetTime(short.NotAfter.Add(-29 * authority.Day))
	w.run(20)
	if want := []string{"my-dual-0"}; !slices.Equal(w.elsewhere.renewed, want) {
		t.Errorf("issued again were %v, want %v while the issuer has no other intermediate", w.elsewhere.renewed, want)
	}

	w.elsewhere.ca = with(long.Certificate())
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.settle()
	for secret, entry := range map[string]string{
		"my-dual-0": "my-dual-0.crt", "my-dual-1": "my-dual-1.crt", "my-dual-2": "my-dual-2.crt", "my-cluster-operator-certs": "cluster-operator.crt",
	} {
		if chain := w.certs.in(w.secret(secret).Data[entry]); !slices.ContainsFunc(chain, long.Certificate().Equal) {
			t.Errorf("%s still presents the intermediate that ends", secret)
		}
	}
	issued := len(w.elsewhere.renewed)
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.settle()
	if len(w.elsewhere.renewed) != issued {
		t.Errorf("issued again were %v", w.elsewhere.renewed)
	}
	w.wantReady()
}

func TestALeafOfTheOutgoingCAIsAdoptedWhenTheOneInForceIsDue(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	w.classic() // nobody can cross-sign
	next := caNamed(t, "company two", 1000*authority.Day)
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	w.settle()
	w.elsewhere.renew("my-dual-0", "my-dual-1", "my-dual-2") // while nodes mount another certificate of the operator, the outgoing CA signs
	w.settle()
	before := w.leafOf("my-dual-1")
	w.wantHeld("have the issuer sign with a CA of the bundle")

	w.clock.SetTime(before.NotAfter.Add(-29 * authority.Day))
	w.settle()

	w.wantLeavesOf(ca)
	if w.leafOf("my-dual-1").Equal(before) {
		t.Error("the certificate that was issued is not adopted, although it is due and all nodes trust its CA")
	}
	w.elsewhere.ca = next
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle()
	w.wantLeavesOf(next)
	w.wantReady()
}

// The issuer has nothing but its next key, so that what is lost cannot be issued again as it was.
func TestALeafThatIsLostWhileAnIssuerChangesItsKeyIsReplaced(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"the Secret of a node":       func(w *world) { w.delete(&corev1.Secret{}, "my-dual-0") },
		"the key of a node":          func(w *world) { w.replaceData("my-dual-0", "my-dual-0.key", []byte("oops")) },
		"the Secret of the operator": func(w *world) { w.delete(&corev1.Secret{}, "my-cluster-operator-certs") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := outsideCluster(t)
			w.classic() // nobody can cross-sign
			w.lag["my-dual-1"] = 1
			next := caNamed(t, "company two", 1000*authority.Day)
			w.elsewhere.ca = next
			w.elsewhere.renew()
			w.run(4)
			w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
			w.once(w.trusts(3, "company two"), func() { lose(w) })
			w.settle()
			w.clock.SetTime(w.clock.Now().Add(time.Hour))
			w.settle()

			w.wantLeavesOf(next)
			w.wantReady()
		})
	}
}

func TestALostLeafThatNoPeerWouldVerifyNamesWhatTheIssuerHasToSignWith(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	w.elsewhere.ca = caNamed(t, "company two", 1000*authority.Day)
	w.elsewhere.renew()
	w.delete(&corev1.Secret{}, "my-dual-0")
	w.run(6)
	w.wantHeld(`have the issuer sign with the CA \"CN=company one\" until all nodes trust the next one`)
	if status := w.status(t.Context()); strings.Contains(status, "key of the CA") {
		t.Errorf("conditions are %s, and an issuer has the key", status)
	}

	w.elsewhere.ca = ca
	w.elsewhere.renew()
	w.settle()
	w.wantLeavesOf(ca)
	w.wantReady()
}

func TestAClusterOfAnIssuerGoesOnWithTheGateOff(t *testing.T) {
	t.Parallel()
	w, ca := outsideCluster(t)
	before := w.leafOf("my-dual-0")

	w.gates = featuregate.Gates{}
	w.startOperator()
	w.elsewhere.renew()
	w.settle()

	if w.leafOf("my-dual-0").Equal(before) {
		t.Error("the certificate that was issued is not adopted")
	}
	w.wantLeavesOf(ca)
	w.wantHeld("feature gate CertManagerCaType is off")

	// A pass that writes decides twice, and warns once.
	next := caNamed(t, "company two", 1000*authority.Day)
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(ca.Certificate(), next.Certificate()))
	w.run(1)
	warned := 0
	for _, c := range w.getKafka().Status.Conditions {
		if c.Reason == "FeatureGateDisabled" {
			warned++
		}
	}
	if warned != 1 {
		t.Errorf("%d conditions warn of the gate", warned)
	}
}

func TestAClusterWithItsOwnCAMovesToAnIssuer(t *testing.T) {
	t.Parallel()
	w, ca := ownCluster(t)

	w.moveOutside()
	w.settle()
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle()

	w.wantLeavesOf(ca)
	w.wantReady()
	w.wantGenerations("1", "1")
	w.wantRestarts(2)
}

func TestAClusterWithItsOwnCAStaysWithItWhileTheGateIsOff(t *testing.T) {
	t.Parallel()
	w, ca := ownCluster(t)
	before := w.leafOf("my-dual-0")
	w.gates = featuregate.Gates{}
	w.startOperator()

	w.moveOutside()
	w.run(5)

	w.wantHeld("feature gate CertManagerCaType, which is off")
	if !w.leafOf("my-dual-0").Equal(before) {
		t.Error("its certificate was replaced")
	}
	w.wantRestarts(0)

	w.gates.CertManagerCaType = featuregate.On
	w.startOperator()
	w.settle()
	w.wantLeavesOf(ca)
}

// ownCluster is a running cluster with a CA of its own, and the issuer that it may move to.
func ownCluster(t *testing.T) (*world, pki.Authority) {
	t.Helper()
	ca := caNamed(t, "company one", 1000*authority.Day)
	w := outsideWorld(t, ca)
	w.classic() // nobody can cross-sign
	w.bringsBundle(ca.Certificate())
	w.dualRole(3)
	w.settle()
	return w, ca
}

func TestWhatWasAskedForANodeThatIsGoneIsWithdrawn(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	w.create(poolResource(w.namespace, "more", 1, kafkav1.RoleBroker))
	w.settle()
	if !slices.Contains(w.elsewhere.kept, "my-more-3") {
		t.Fatalf("kept are %v", w.elsewhere.kept)
	}

	w.scale("more", 0)
	w.settle()

	if want := []string{"my-cluster-operator-certs", "my-dual-0", "my-dual-1", "my-dual-2"}; !slices.Equal(w.elsewhere.kept, want) {
		t.Errorf("kept are %v, want %v", w.elsewhere.kept, want)
	}
}

// moveOutside makes the CA of a running cluster that of the issuer.
func (w *world) moveOutside() {
	w.t.Helper()
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"clusterCa": map[string]any{
		"type": "cert-manager.io", "generateCertificateAuthority": false,
		"certManager": map[string]any{
			"issuerRef": map[string]any{"name": "company"},
			"caCert":    map[string]any{"secretName": bundleSecret, "certificate": authority.CertKey},
		},
	}}})
}

// Whoever changes the issuer first and caCert afterwards has all certificates issued by a CA that nobody knows yet.
func TestNothingIsRequestedWhileWhatWasIssuedWaitsForItsCA(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	w.nobodyReads()
	next := caNamed(t, "company two", 1000*authority.Day)
	w.elsewhere.ca = next
	w.elsewhere.renew()
	for range 3 {
		w.run(20)
		w.clock.SetTime(w.clock.Now().Add(issuer.RenewalPause))
	}
	if len(w.elsewhere.renewed) > 0 {
		t.Errorf("issued again were %v, although they wait for their CA", w.elsewhere.renewed)
	}
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	w.settle()
	w.wantLeavesOf(next)

	third := caNamed(t, "company three", 1000*authority.Day)
	w.elsewhere.ca = third
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(third.Certificate()))
	w.settle()
	w.wantLeavesOf(third)
	w.wantReady()
}

func TestAnIssuerThatGoesOnSigningByTheOldCAIsAskedForOneCertificateAnHour(t *testing.T) {
	t.Parallel()
	w, _ := outsideCluster(t)
	w.classic() // nobody can cross-sign
	next := caNamed(t, "company two", 1000*authority.Day)
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.replaceData(bundleSecret, authority.CertKey, pki.EncodeBundle(next.Certificate()))
	w.run(200)

	if want := []string{"my-dual-0"}; !slices.Equal(w.elsewhere.renewed, want) {
		t.Errorf("issued again were %v, want %v", w.elsewhere.renewed, want)
	}
	w.wantLeavesSigned("company one")
	w.wantCondition(condition.Warning, "Secret my-dual-0", "was to be issued again by another CA", "It is requested again at ")
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.run(3)
	if want := []string{"my-dual-0", "my-dual-0"}; !slices.Equal(w.elsewhere.renewed, want) {
		t.Errorf("an hour later issued again were %v, want %v", w.elsewhere.renewed, want)
	}

	w.elsewhere.ca = next
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.settle()
	w.wantLeavesOf(next)
	w.wantReady()
}
