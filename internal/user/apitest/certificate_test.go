package apitest

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/charts/chartstest"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestAUserGetsASecretAsStrimziWritesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := tls()
	spec.Template = &kafkav1.UserTemplate{Secret: &kafkav1.ResourceTemplate{Metadata: &kafkav1.MetadataTemplate{
		Labels:      map[string]string{"mine": "yes", "strimzi.io/cluster": "other"},
		Annotations: map[string]string{"example.com/owner": "checkout", "strimzi.io/force-renew": "true", "cert-manager.io/certificate-name": "alice"},
	}}}
	w.user("alice", spec)
	w.reconcile("alice")
	secret := w.stored("alice")
	leaf := w.leaf("alice")
	if leaf.Subject.String() != "CN=alice" || !leaf.NotAfter.Equal(noon().Add(365*authority.Day)) {
		t.Errorf("the certificate is of %q until %s", leaf.Subject, leaf.NotAfter)
	}
	for label, want := range map[string]string{
		"strimzi.io/cluster": cluster, "strimzi.io/kind": "KafkaUser", "team": "checkout", "mine": "yes",
		"app.kubernetes.io/name": "strimzi-user-operator", "app.kubernetes.io/managed-by": "strimzi-user-operator",
		"app.kubernetes.io/instance": "alice", "app.kubernetes.io/part-of": "strimzi-alice",
	} {
		if got := secret.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	if len(secret.Annotations) != 1 || secret.Annotations["example.com/owner"] != "checkout" {
		t.Errorf("annotations are %v, want the user's own without a request", secret.Annotations)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].Kind != "KafkaUser" || secret.OwnerReferences[0].Name != "alice" {
		t.Errorf("owners are %v, want the KafkaUser", secret.OwnerReferences)
	}
	status := w.status("alice")
	if _, _, isReady := reasonOf(status, condition.Ready); !isReady || status.Secret != "alice" || status.Username != "CN=alice" || status.ObservedGeneration != 1 {
		t.Errorf("the status is %+v, want Ready with Secret and username", status)
	}
}

func (w *world) leaf(name string) *x509.Certificate {
	w.t.Helper()
	return w.chain(name)[0]
}

// chain is what the user's Secret holds under user.crt.
func (w *world) chain(name string) []*x509.Certificate {
	w.t.Helper()
	chain, err := pki.ParseChain(w.stored(name).Data["user.crt"])
	if err != nil {
		w.t.Fatal(err)
	}
	return chain
}

// Another certificate would end with the CA, too, which its owner has not renewed.
func TestACertificateThatEndsWithItsCAIsLookedAtWhenItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	end := w.leaf("alice").NotAfter
	w.clock.SetTime(end.Add(-10 * authority.Day))
	result, err := w.try("alice")
	if err != nil || result.RequeueAfter != 10*authority.Day {
		t.Errorf("it is looked at again after %s (%v), want its end", result.RequeueAfter, err)
	}
	w.wantSaid("alice", condition.Warning, "EndsWithCA", "Renew the clients CA")
	w.wantUserReady("alice")

	w.clock.SetTime(end.Add(time.Hour))
	w.reconcile("alice")
	w.wantSaid("alice", condition.NotReady, "CertificateHeld", "expired")
}

func TestLabelsOfWhoeverDeployedAUserAreNotOnItsSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deployer := map[string]string{
		"kustomize.toolkit.fluxcd.io/name": "apps", "helm.toolkit.fluxcd.io/name": "apps", "helm.sh/chart": "shop-1.0", "argocd.argoproj.io/instance": "shop",
	}
	user := &kafkav1.KafkaUser{ObjectMeta: w.meta("alice"), Spec: tls()}
	user.Labels = maps.Clone(deployer)
	user.Labels["strimzi.io/cluster"], user.Labels["team"] = cluster, "checkout"
	w.create(user)
	w.reconcile("alice")
	labels := w.stored("alice").Labels
	for label := range deployer {
		if value, has := labels[label]; has {
			t.Errorf("the Secret has the label %s=%s", label, value)
		}
	}
	if labels["team"] != "checkout" {
		t.Errorf("labels are %v: that of a person is missing", labels)
	}
}

func TestWhereTheOperatorCrashesTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"at the creation": func(*world) {},
		"at a new certificate": func(w *world) {
			w.reconcile("alice")
			w.newCA("clients-ca v1")
		},
		"at a certificate that a person asks for": func(w *world) {
			w.reconcile("alice")
			w.askForRenewal("alice", "true")
		},
		"at the end of credentials": func(w *world) {
			w.reconcile("alice")
			w.endCredentials("alice")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for crashAt, crashed := 1, true; crashed; crashAt++ {
				w := newWorld(t)
				w.user("alice", tls())
				change(w)
				w.restart()
				w.writer.CrashAt = crashAt
				_, err := w.try("alice")
				crashed = errors.Is(err, kubetest.ErrCrash)
				if !crashed && crashAt == 1 {
					t.Fatal("the operator did not crash at its first write")
				}
				w.wantWhole("alice")
				w.restart()
				w.reconcile("alice")
				if _, _, isReady := reasonOf(w.status("alice"), condition.Ready); !isReady {
					t.Errorf("after a crash at write %d the user is not ready: %+v", crashAt, w.status("alice"))
				}
				w.atRest("alice")
				w.newCA("clients-ca v2")
				w.reconcile("alice")
				w.wantAppliedAlone("alice")
			}
		})
	}
}

// wantWhole checks that a Secret, once it exists, has what an application starts with.
func (w *world) wantWhole(name string) {
	w.t.Helper()
	secret := &corev1.Secret{}
	err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, secret)
	for _, entry := range []string{"ca.crt", "user.crt", "user.key", "user.p12", "user.password"} {
		if err == nil && len(secret.Data[entry]) == 0 {
			w.t.Errorf("there is a Secret without %s", entry)
		}
	}
}

// wantAppliedAlone checks that a later apply can remove whatever the operator has written of a Secret.
func (w *world) wantAppliedAlone(name string) {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, secret); err != nil {
		return
	}
	for _, entry := range secret.ManagedFields {
		if strings.HasPrefix(entry.Manager, "keyturn") && entry.Operation != metav1.ManagedFieldsOperationApply {
			w.t.Errorf("%s owns fields by %s", entry.Manager, entry.Operation)
		}
	}
}

// askForRenewal annotates the Secret of a user as "kubectl annotate" does.
func (w *world) askForRenewal(name, value string) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"strimzi.io/force-renew": "`+value+`"}}}`))
	if err := w.person.Patch(w.t.Context(), &corev1.Secret{ObjectMeta: w.meta(name)}, patch, client.FieldOwner("kubectl-annotate")); err != nil {
		w.t.Fatal(err)
	}
}

func TestAPersonAsksForAnotherCertificate(t *testing.T) {
	t.Parallel()
	for value, isAsked := range map[string]bool{"true": true, "True": true, "false": false, "yes": false} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", tls())
			w.reconcile("alice")
			before := w.stored("alice")
			w.askForRenewal("alice", value)
			w.reconcile("alice")
			after := w.stored("alice")
			if issued := !bytes.Equal(before.Data["user.crt"], after.Data["user.crt"]); issued != isAsked {
				t.Errorf("another certificate was issued: %t, want %t", issued, isAsked)
			}
			if !bytes.Equal(before.Data["user.password"], after.Data["user.password"]) {
				t.Error("the password of the store has changed")
			}
			if _, isLeft := after.Annotations["strimzi.io/force-renew"]; isLeft == isAsked {
				t.Errorf("annotations are %v after a request of value %q", after.Annotations, value)
			}
			w.atRest("alice")
		})
	}
}

func TestAForcedRenewalWaitsForTheKeyOfTheCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	before := w.leaf("alice")
	w.remove("my-cluster-clients-ca")
	w.askForRenewal("alice", "true")
	w.reconcile("alice")
	if !w.leaf("alice").Equal(before) || w.stored("alice").Annotations["strimzi.io/force-renew"] != "true" {
		t.Error("the certificate or the request for another one is gone although no CA can sign")
	}
	w.newCA("clients-ca v1")
	w.reconcile("alice")
	if w.leaf("alice").Equal(before) {
		t.Error("no certificate was issued once the CA could sign")
	}
	w.atRest("alice")
}

// endCredentials takes the authentication of a user away.
func (w *world) endCredentials(name string) {
	w.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"authentication": null}}`))
	if err := w.person.Patch(w.t.Context(), &kafkav1.KafkaUser{ObjectMeta: w.meta(name)}, patch); err != nil {
		w.t.Fatal(err)
	}
}

func TestTheRightsOfTheChartSuffice(t *testing.T) {
	t.Parallel()
	rights := chartstest.Rights(t, apiServer, filepath.Join("..", "..", ".."), chartstest.UserOperator)
	w := newWorldIn(t, "kafka", connect(t, rights))
	w.user("alice", tls())
	w.reconcile("alice")
	w.leaf("alice")
	if w.oversee(); w.progress() == nil {
		t.Error("the status of the Kafka has no users")
	}
	w.newCA("clients-ca v1")
	w.reconcile("alice")
	w.endCredentials("alice")
	w.reconcile("alice")
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: "kafka", Name: "alice"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Secret of a user without credentials: %v, want that it is gone", err)
	}
	if status := w.status("alice"); status.Secret != "" || status.Username != "alice" {
		t.Errorf("the status is %+v, want a user without a Secret", status)
	}
	w.bring("secret")
	w.user("bob", reads(brings()))
	w.reconcile("bob")
	w.ready("bob")
	w.deleteUser("bob")
	w.reconcile("bob")
	if !w.isGone("bob") {
		t.Error("the finalizer of a deleted user could not be removed")
	}
}

// atRest fails the test if another reconcile writes, of this operator or of one that remembers nothing.
func (w *world) atRest(name string) {
	w.t.Helper()
	for _, begin := range []func(){func() {}, w.restart} {
		begin()
		w.writer.Sent = 0
		w.reconcile(name)
		if w.writer.Sent > 0 {
			w.t.Errorf("%d writes although nothing has changed", w.writer.Sent)
		}
	}
}

func TestACertificateFollowsItsCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	first := w.leaf("alice")
	ca := w.newCA("clients-ca v1")
	w.reconcile("alice")
	second := w.leaf("alice")
	if second.Equal(first) || !pki.IssuedBy(second, ca.Certificate()) {
		t.Error("the certificate is not one of the new CA")
	}
	if !bytes.Equal(w.stored("alice").Data["ca.crt"], pki.EncodeBundle(ca.Certificate())) {
		t.Error("ca.crt is not that of the new CA")
	}
	w.atRest("alice")
}

func TestACertificateIsRenewedWhenItIsDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	days := func(n int32) *int32 { return &n }
	spec := tls()
	spec.Authentication.ValidityDays, spec.Authentication.RenewalDays = days(20), days(5)
	w.user("alice", spec)
	if wait := w.reconcile("alice").RequeueAfter; wait != 15*authority.Day {
		t.Errorf("the next look is in %s, want 15 days", wait)
	}
	first := w.leaf("alice")
	w.clock.SetTime(noon().Add(15*authority.Day + time.Second))
	w.reconcile("alice")
	if second := w.leaf("alice"); second.Equal(first) || !second.NotAfter.After(first.NotAfter) {
		t.Errorf("the certificate until %s was not renewed", first.NotAfter)
	}
}

func TestALostSecretIsIssuedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	w.remove("alice")
	w.reconcile("alice")
	w.leaf("alice")
	w.atRest("alice")
}

func TestACertificateStaysWithoutTheKeyOfTheCA(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"the key is lost":         func(w *world) { w.remove("my-cluster-clients-ca") },
		"the certificate is lost": func(w *world) { w.remove("my-cluster-clients-ca-cert") },
		"the key is another's": func(w *world) {
			other, err := pki.GenerateKey(pki.DefaultCAKey(pki.ECDSA))
			if err != nil {
				w.t.Fatal(err)
			}
			w.put("my-cluster-clients-ca", map[string][]byte{"ca.key": other.PEM()})
		},
		"the key is no key": func(w *world) { w.put("my-cluster-clients-ca", map[string][]byte{"ca.key": []byte("x")}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", tls())
			w.reconcile("alice")
			before := w.stored("alice")
			lose(w)
			w.reconcile("alice")
			if after := w.stored("alice"); after.ResourceVersion != before.ResourceVersion {
				t.Error("the Secret was written")
			}
			reason, message, warned := reasonOf(w.status("alice"), condition.Warning)
			if !warned || reason != "ClientsCANotReady" || !strings.Contains(message, "my-cluster-clients-ca") {
				t.Errorf("the warning is %q: %q, want ClientsCANotReady with the Secret's name", reason, message)
			}
			if _, _, isReady := reasonOf(w.status("alice"), condition.Ready); !isReady {
				t.Error("a user whose certificate serves is not ready")
			}
			w.atRest("alice")
		})
	}
}

func TestBadInputIsAConditionThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(w *world)
		spec    kafkav1.KafkaUserSpec
		reason  string
		says    []string
	}{
		"the cluster is missing": {
			prepare: func(w *world) {
				if err := w.person.Delete(w.t.Context(), &kafkav1.Kafka{ObjectMeta: w.meta(cluster)}); err != nil {
					w.t.Fatal(err)
				}
			},
			spec: tls(), reason: "MissingKafka", says: []string{"Kafka my-cluster", "strimzi.io/cluster"},
		},
		"the clients CA is missing": {
			prepare: func(w *world) { w.remove("my-cluster-clients-ca-cert") },
			spec:    tls(), reason: "CertificateHeld", says: []string{"Secret my-cluster-clients-ca-cert"},
		},
		"the key of the clients CA is missing": {
			prepare: func(w *world) { w.remove("my-cluster-clients-ca") },
			spec:    tls(), reason: "CertificateHeld", says: []string{"Secret my-cluster-clients-ca "},
		},
		"the Secret is another's": {
			prepare: func(w *world) { w.put("alice", map[string][]byte{"password": []byte("x")}) },
			spec:    tls(), reason: "ForeignObject", says: []string{"Secret alice", "rename"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.prepare(w)
			w.user("alice", c.spec)
			w.reconcile("alice")
			reason, message, is := reasonOf(w.status("alice"), condition.NotReady)
			if !is || reason != c.reason {
				t.Errorf("not ready: %t, because of %q (%s), want %s", is, reason, message, c.reason)
			}
			for _, text := range c.says {
				if !strings.Contains(message, text) {
					t.Errorf("the message %q does not name %s", message, text)
				}
			}
			if _, _, isReady := reasonOf(w.status("alice"), condition.Ready); isReady {
				t.Error("the user is ready as well")
			}
			w.atRest("alice")
		})
	}
}

func TestAForeignSecretIsNeitherWrittenNorDeleted(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]kafkav1.KafkaUserSpec{"a user with a certificate": tls(), "a user without credentials": {Template: &kafkav1.UserTemplate{}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.put("my-cluster-cluster-ca", map[string][]byte{"ca.key": []byte("key of the cluster")})
			before := w.stored("my-cluster-cluster-ca")
			w.user("my-cluster-cluster-ca", spec)
			w.reconcile("my-cluster-cluster-ca")
			if after := w.stored("my-cluster-cluster-ca"); after.ResourceVersion != before.ResourceVersion {
				t.Error("the Secret of the cluster was written")
			}
		})
	}
}

// restored is the metadata of a Secret that comes back from a backup: the owner's UID is left out.
func (w *world) restored(saved *corev1.Secret) metav1.ObjectMeta {
	meta := w.meta(saved.Name)
	meta.Labels = saved.Labels
	return meta
}

func TestASecretOfABackupIsTheUsersAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user("alice", tls())
	w.reconcile("alice")
	saved := w.stored("alice")
	w.remove("alice")
	w.create(&corev1.Secret{ObjectMeta: w.restored(saved), Data: saved.Data})
	w.reconcile("alice")
	restored := w.stored("alice")
	if !bytes.Equal(restored.Data["user.key"], saved.Data["user.key"]) {
		t.Error("the key in use was replaced")
	}
	if len(restored.OwnerReferences) != 1 {
		t.Errorf("owners are %v, want the user", restored.OwnerReferences)
	}
}

// rejecting is an API server that takes no Secret.
type rejecting struct {
	client.Client

	why error
}

func (r rejecting) Apply(_ context.Context, _ runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	return r.why
}

func TestASecretThatTheAPIServerRejectsIsACondition(t *testing.T) {
	t.Parallel()
	zone := tls()
	zone.Template = &kafkav1.UserTemplate{Secret: &kafkav1.ResourceTemplate{Metadata: &kafkav1.MetadataTemplate{Labels: map[string]string{"zone": "a b"}}}}
	for name, c := range map[string]struct {
		harm   func(w *world)
		reason string
		says   string
	}{
		"a label that no object can have": {func(w *world) { w.change("alice", zone) }, "InvalidSecret", "spec.template.secret"},
		"an immutable Secret": {func(w *world) {
			w.patch(&corev1.Secret{ObjectMeta: w.meta("alice")}, `{"immutable": true}`)
			w.askForRenewal("alice", "true")
		}, "InvalidSecret", "immutable"},
		"a right that is missing": {func(w *world) {
			w.asOperator = rejecting{w.asOperator, apierrors.NewForbidden(corev1.Resource("secrets"), "alice", nil)}
			w.restart()
			w.askForRenewal("alice", "true")
		}, "Forbidden", "rights"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", tls())
			w.reconcile("alice")
			before := w.leaf("alice")
			c.harm(w)
			if wait := w.reconcile("alice").RequeueAfter; wait != time.Minute {
				t.Errorf("it is tried again in %s, want a minute", wait)
			}
			reason, message, is := reasonOf(w.status("alice"), condition.NotReady)
			if !is || reason != c.reason || !strings.Contains(message, c.says) {
				t.Errorf("not ready: %t, because of %q: %s, want %s with %q", is, reason, message, c.reason, c.says)
			}
			if status := w.status("alice"); status.Secret != "alice" || !w.leaf("alice").Equal(before) {
				t.Errorf("the status has %+v, want the Secret that is in use", status)
			}
		})
	}
}

func TestASecretThatTheAPIServerRejectsIsNotCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := scram()
	spec.Template = &kafkav1.UserTemplate{Secret: &kafkav1.ResourceTemplate{Metadata: &kafkav1.MetadataTemplate{Labels: map[string]string{"zone": "a b"}}}}
	w.user("alice", spec)
	w.reconcile("alice")
	if reason, _, _ := reasonOf(w.status("alice"), condition.NotReady); reason != "InvalidSecret" {
		t.Errorf("the user is not ready because of %q, want InvalidSecret", reason)
	}
	if err := w.person.Get(t.Context(), client.ObjectKeyFromObject(&corev1.Secret{ObjectMeta: w.meta("alice")}), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("there is a Secret: %v", err)
	}
}

func TestAnOperatorWhoseClockIsWrongIssuesNothingUntilItIsRight(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead of": 340 * 24 * time.Hour, "behind": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user("alice", tls())
			w.reconcile("alice")
			before := w.leaf("alice")
			w.clock.SetTime(noon().Add(ahead))
			w.ahead = ahead
			w.newCA("clients-ca v1")
			w.writer.Sent = 0
			for range 3 {
				if result := w.reconcile("alice"); result.RequeueAfter == 0 {
					t.Error("the user is not looked at again")
				}
			}
			if w.writer.Sent != 1 || !w.leaf("alice").Equal(before) {
				t.Errorf("%d writes, want that of the status", w.writer.Sent)
			}
			if reason, message, _ := reasonOf(w.status("alice"), condition.Warning); reason != "ClockDiffers" || !strings.Contains(message, name) {
				t.Errorf("the warning is %s: %s", reason, message)
			}
			w.ahead = 0
			w.clock.SetTime(noon())
			w.newCA("clients-ca v2")
			w.reconcile("alice")
			if _, _, isWarned := reasonOf(w.status("alice"), condition.Warning); isWarned || w.leaf("alice").Equal(before) {
				t.Errorf("with the right clock the status is %+v", w.status("alice"))
			}
		})
	}
}

func TestACertificateIsReissuedInTimeAlthoughNoMaintenanceWindowComes(t *testing.T) {
	t.Parallel()
	for name, window := range map[string]string{"none is ever open": "* * * 30 2 ?", "they cannot be read": "nonsense"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.patch(&kafkav1.Kafka{ObjectMeta: w.meta(cluster)}, `{"spec": {"maintenanceTimeWindows": ["`+window+`"]}}`)
			spec := tls()
			spec.Authentication.ValidityDays, spec.Authentication.RenewalDays = new(int32(20)), new(int32(5))
			w.user("alice", spec)
			w.reconcile("alice")
			before := w.leaf("alice")
			w.clock.SetTime(before.NotAfter.Add(-2 * authority.Day))
			for range 5 {
				at, err := w.try("alice")
				if err != nil || at.RequeueAfter == 0 {
					t.Fatalf("at %s it is looked at again after %s, %v", w.clock.Now(), at.RequeueAfter, err)
				}
				if w.leaf("alice").Equal(before) {
					w.clock.SetTime(w.clock.Now().Add(at.RequeueAfter))
				}
			}
			if w.leaf("alice").Equal(before) || !w.clock.Now().Before(before.NotAfter) {
				t.Errorf("at %s the certificate that ends at %s is not reissued", w.clock.Now(), before.NotAfter)
			}
		})
	}
}
