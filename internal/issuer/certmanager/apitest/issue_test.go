package apitest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/pki"
)

const node = "my-cluster-dual-role-0"

func TestACertificateSaysWhatWasRequested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const manager = "app.kubernetes.io/managed-by"
	w.options.Labels[manager] = "operator"
	request := w.request(node)
	request.Key = pki.DefaultLeafKey(pki.RSA)
	w.issued(request)

	labels := map[string]any{"team": "checkout", "strimzi.io/cluster": "my-cluster", "strimzi.io/kind": "Kafka"}
	certificate := w.certificate(node)
	want := map[string]any{
		"secretName": node + "-cm", "secretTemplate": map[string]any{"labels": map[string]any{
			"team": "checkout", "strimzi.io/cluster": "my-cluster", "strimzi.io/kind": "Kafka", manager: "cert-manager", certmanager.OwnerLabel: string(w.options.Owner.UID),
		}},
		"commonName": "my-cluster-kafka", "subject": map[string]any{"organizations": []any{"io.strimzi"}},
		"dnsNames": []any{node + ".brokers.svc"}, "ipAddresses": []any{"10.1.2.3"},
		"usages":     []any{"digital signature", "key encipherment", "server auth", "client auth"},
		"privateKey": map[string]any{"algorithm": "RSA", "size": int64(2048), "encoding": "PKCS8", "rotationPolicy": "Always"},
		"duration":   "48h0m0s", "renewBefore": "12h0m0s", "isCA": false,
		"issuerRef": map[string]any{"name": "company", "kind": "Issuer", "group": "cert-manager.io"},
	}
	if diff := cmp.Diff(want, certificate.Object["spec"]); diff != "" {
		t.Errorf("spec: -want +got\n%s", diff)
	}
	secret := w.secret(node + "-cm")
	if of, in := certificate.GetLabels()[manager], secret.Labels[manager]; of != "operator" || in != "cert-manager" {
		t.Errorf("the Certificate is managed by %q, its Secret by %q", of, in)
	}
	for what, object := range map[string]client.Object{"Certificate": certificate, "Secret": secret} {
		if diff := cmp.Diff([]metav1.OwnerReference{w.options.Owner}, object.GetOwnerReferences()); diff != "" {
			t.Errorf("owners of the %s: -want +got\n%s", what, diff)
		}
		for label, value := range labels {
			if object.GetLabels()[label] != value {
				t.Errorf("the %s has the labels %v", what, object.GetLabels())
			}
		}
	}
}

func TestAtRestNothingIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.issued(w.request(node))
	w.traffic.since()

	for range 3 {
		w.issued(w.request(node))
	}

	reads, writes := w.traffic.since()
	if len(writes) > 0 || len(reads) != 6 {
		t.Errorf("reads %q and writes %q, want a Certificate and a Secret read three times", reads, writes)
	}
}

func TestDriftIsPutBack(t *testing.T) {
	t.Parallel()
	for name, drift := range map[string]struct{ certificate, secret string }{
		"another name":         {certificate: `{"spec": {"dnsNames": ["intruder.example.com"]}}`},
		"another issuer":       {certificate: `{"spec": {"issuerRef": {"name": "other"}}}`},
		"a longer life":        {certificate: `{"spec": {"duration": "99h"}}`},
		"no organization":      {certificate: `{"spec": {"subject": null}}`},
		"a label less":         {certificate: `{"metadata": {"labels": {"strimzi.io/cluster": null}}}`},
		"no owner":             {certificate: `{"metadata": {"ownerReferences": null}}`},
		"no owner of a Secret": {secret: `{"metadata": {"ownerReferences": null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.issued(w.request(node))
			want := w.certificate(node)
			if drift.certificate != "" {
				w.patch(w.certificate(node), drift.certificate)
			} else {
				w.patch(w.secret(node+"-cm"), drift.secret)
			}

			issued := w.issued(w.request(node))

			got := w.certificate(node)
			for _, part := range []string{"spec", "metadata"} {
				diff := cmp.Diff(want.Object[part], got.Object[part], cmp.FilterPath(isBookkeeping, cmp.Ignore()))
				if diff != "" {
					t.Errorf("%s: -want +got\n%s", part, diff)
				}
			}
			if len(w.secret(node+"-cm").OwnerReferences) != 1 {
				t.Error("the Secret has no owner")
			}
			if different := certmanager.Differs(w.request(node), issued.Chain[0]); different != "" {
				t.Errorf("the leaf differs: %s", different)
			}
		})
	}
}

// isBookkeeping leaves out what every write changes.
func isBookkeeping(path cmp.Path) bool {
	index, is := path.Last().(cmp.MapIndex)
	return is && slices.Contains([]string{"managedFields", "resourceVersion", "generation"}, index.Key().String())
}

func TestAFieldThatIsNoLongerRequestedIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.issued(w.request(node))
	request := w.request(node)
	request.SANs.IPs = nil
	delete(w.options.Labels, "team")

	leaf := w.issued(request).Chain[0]

	if len(leaf.IPAddresses) > 0 || w.certificate(node).GetLabels()["team"] != "" {
		t.Errorf("the leaf has %v, the Certificate %v", leaf.IPAddresses, w.certificate(node).GetLabels())
	}
}

func TestAnotherRequestIsAnsweredWithAnotherLeafAndKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.issued(w.request(node))
	w.until("the key of the first request is cleared away", func() bool { // cert-manager would use it once more
		next, _, err := unstructured.NestedString(w.certificate(node).Object, "status", "nextPrivateKeySecretName")
		return err == nil && next == "" && len(w.list("CertificateRequest")) == 1
	})
	longer := w.request(node)
	longer.Validity = 72 * time.Hour

	pending := w.pending(longer)

	w.mentions(pending.Why, "Certificate "+w.namespace+"/"+node)
	second := w.issued(longer)
	if second.Chain[0].Equal(first.Chain[0]) || second.Key.Equal(first.Key) || longer.Shortfall(second.Chain[0]) > 0 {
		t.Errorf("the leaf ends at %s, the first at %s", second.Chain[0].NotAfter, first.Chain[0].NotAfter)
	}
}

func TestARenewalByCertManagerIsSeenAndInterruptsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.issued(w.request(node))
	// As cmctl renew does.
	patch := `{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"},
		{"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`
	err := w.person.Status().Patch(t.Context(), w.certificate(node), client.RawPatch("application/merge-patch+json", []byte(patch)))
	if err != nil {
		t.Fatal(err)
	}

	w.until("another leaf is offered", func() bool {
		outcome, is := w.ask(w.request(node)).(issuer.Issued)
		if !is {
			t.Fatal("no leaf was offered for a while")
		}
		return !outcome.Chain[0].Equal(first.Chain[0])
	})
}

func TestACertificateOfAnotherOwnerIsNotTouched(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]func(w *world, certificate *unstructured.Unstructured){
		"it has another owner": func(w *world, certificate *unstructured.Unstructured) {
			certificate.SetOwnerReferences([]metav1.OwnerReference{w.owner("another")})
			certificate.SetLabels(w.options.Selector)
		},
		"it has no owner": func(*world, *unstructured.Unstructured) {},
		"it has the labels, but was created by a person": func(w *world, certificate *unstructured.Unstructured) { certificate.SetLabels(w.options.Selector) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			theirs := w.object("Certificate", node, map[string]any{
				"secretName": "theirs", "commonName": "theirs", "issuerRef": map[string]any{"name": "company"},
			})
			claim(w, theirs)
			w.create(theirs)
			w.traffic.since()

			w.denied(w.request(node), "Certificate "+w.namespace+"/"+node, "Delete it")
			if err := w.issuer().Withdraw(t.Context(), nil); err != nil {
				t.Fatal(err)
			}

			if _, writes := w.traffic.since(); len(writes) > 0 {
				t.Errorf("writes %q", writes)
			}
		})
	}
}

func TestASecretOfAnotherOwnerIsNotTouched(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]func(w *world, secret *corev1.Secret){
		"it was created by a person": func(*world, *corev1.Secret) {},
		"it belongs to another Certificate": func(_ *world, secret *corev1.Secret) {
			secret.Annotations = map[string]string{certmanager.CertificateNameAnnotation: "another"}
		},
		"it says that it belongs to the Certificate, and is another object's": func(w *world, secret *corev1.Secret) {
			secret.Annotations = map[string]string{certmanager.CertificateNameAnnotation: node}
			secret.OwnerReferences = []metav1.OwnerReference{w.owner("another")}
		},
		"it says that it belongs to the Certificate, and is another object's beside the owner's": func(w *world, secret *corev1.Secret) {
			secret.Annotations = map[string]string{certmanager.CertificateNameAnnotation: node}
			secret.OwnerReferences = []metav1.OwnerReference{w.options.Owner, w.owner("another")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			theirs := &corev1.Secret{ObjectMeta: w.meta(node + "-cm"), Data: map[string][]byte{"password": []byte("x")}}
			theirs.Labels = w.options.Selector
			claim(w, theirs)
			w.create(theirs)
			w.traffic.since()

			w.denied(w.request(node), "Secret "+w.namespace+"/"+node+"-cm", "Delete it")
			if err := w.issuer().Withdraw(t.Context(), nil); err != nil {
				t.Fatal(err)
			}

			if _, writes := w.traffic.since(); len(writes) > 0 || len(w.list("Certificate")) > 0 {
				t.Errorf("writes %q, and %d Certificates", writes, len(w.list("Certificate")))
			}
			if diff := cmp.Diff(theirs.Data, w.secret(theirs.Name).Data); diff != "" {
				t.Errorf("the Secret: %s", diff)
			}
		})
	}
}

func TestWithdrawDeletesKeysAlsoOfACertificateThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.issued(w.request(node))
	w.issued(w.request("kept"))
	if err := w.person.Delete(t.Context(), w.certificate(node)); err != nil {
		t.Fatal(err)
	}

	// cert-manager may write the Secret once more before it sees that its Certificate is gone.
	w.until("the key is gone", func() bool {
		if err := w.issuer().Withdraw(t.Context(), []string{"kept"}); err != nil {
			t.Fatal(err)
		}
		return !w.isLeft(node)
	})

	w.certificate("kept")
	w.secret("kept-cm")
}

func TestNothingRefersToAnOwnerWhoseObjectsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.issued(w.request(node))
	w.options.References = certmanager.WithoutReferences
	w.until("the Secret refers to nothing", func() bool { // cert-manager changes its labels at the same time
		w.issued(w.request(node))
		return len(w.secret(node+"-cm").OwnerReferences) == 0
	})
	w.issued(w.request("another"))

	for _, name := range []string{node, "another"} {
		if owners := append(w.certificate(name).GetOwnerReferences(), w.secret(name+"-cm").OwnerReferences...); len(owners) > 0 {
			t.Errorf("%s has the owners %v", name, owners)
		}
	}
	w.traffic.since()
	w.issued(w.request(node))
	if _, writes := w.traffic.since(); len(writes) > 0 {
		t.Errorf("at rest there are the writes %q", writes)
	}
}

func TestWhatCertManagerWouldRefuseIsDeniedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*world, *issuer.Request)
		mentions string
	}{
		"a long name":         {func(_ *world, r *issuer.Request) { r.Name = strings.Repeat("a.", 125) + "a" }, "shorter"},
		"a name that is none": {func(_ *world, r *issuer.Request) { r.Name = "Node_0" }, "valid name"},
		"a long common name":  {func(_ *world, r *issuer.Request) { r.Subject.CommonName = strings.Repeat("ä", 33) }, "66 bytes"},
		"a short life":        {func(_ *world, r *issuer.Request) { r.Validity, r.Renewal = 59*time.Minute, 10*time.Minute }, "1h0m0s"},
		"a late renewal":      {func(_ *world, r *issuer.Request) { r.Renewal = time.Minute }, "5m0s"},
		"a renewal at once":   {func(_ *world, r *issuer.Request) { r.Renewal = r.Validity }, "less than the validity"},
		"a small key": {func(_ *world, r *issuer.Request) {
			r.Key = pki.KeyParams{Algorithm: pki.RSA, Size: 1024}
		}, "1024"},
		"no issuer":            {func(w *world, _ *issuer.Request) { w.options.Issuer.Name = "" }, "issuerRef"},
		"an issuer of no kind": {func(w *world, _ *issuer.Request) { w.options.Issuer.Kind = "StepIssuer" }, "StepIssuer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			request := w.request(node)
			c.change(w, &request)

			w.denied(request, c.mentions)

			if reads, writes := w.traffic.since(); len(reads)+len(writes) > 0 {
				t.Errorf("requests %q %q", reads, writes)
			}
		})
	}
}

func TestWhatTheAPIServerRefusesIsDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Labels = map[string]string{"team": "not a label"}

	w.denied(w.request(node), "Certificate "+w.namespace+"/"+node+" is not accepted", "not a label")
}

// Two clusters in a namespace, and a user with the name of the operator, ask one issuer.
func TestOwnersInANamespaceDisturbNeitherTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := func(owner, cluster, kind string) certmanager.Options {
		options := w.options
		options.Owner = w.owner(owner)
		options.Selector = map[string]string{"strimzi.io/cluster": cluster, "strimzi.io/kind": kind}
		return options
	}
	mine, others, users := w.options, of("our-cluster", "our-cluster", "Kafka"), of("cluster-operator", "my-cluster", "KafkaUser")
	asked := map[string]certmanager.Options{
		"my-cluster-cluster-operator-certs": mine, "our-cluster-cluster-operator-certs": others, "cluster-operator": users,
	}
	issued := map[string][]byte{}
	for name, options := range asked {
		w.options = options
		w.issued(w.request(name))
		issued[name] = w.secret(name + "-cm").Data[corev1.TLSCertKey]
	}

	if err := certmanager.New(others).Withdraw(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := certmanager.New(mine).Withdraw(t.Context(), []string{"my-cluster-cluster-operator-certs"}); err != nil {
		t.Fatal(err)
	}

	for name := range asked {
		left, gone := w.find(&corev1.Secret{}, name+"-cm"), name == "our-cluster-cluster-operator-certs"
		asked := slices.ContainsFunc(w.list("Certificate"), func(c unstructured.Unstructured) bool { return c.GetName() == name })
		switch {
		case left == gone || asked == gone:
			t.Errorf("after the withdrawal Certificate %s is there: %t, and its Secret: %t", name, asked, left)
		case left && !bytes.Equal(issued[name], w.secret(name + "-cm").Data[corev1.TLSCertKey]):
			t.Errorf("the certificate of %s was issued again", name)
		}
	}
}
