package apitest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// The account may write etcdclusters/status, and pods without labels, which the policy does not guard.
func TestAForgedStatusDoesNotMakeAPodAMember(t *testing.T) {
	t.Parallel()
	w, g := newAttested(t, of(3))
	w.bring()
	tenant := g.as("mallory")
	genuine := w.pod(second)
	w.lose(second)
	forged := other(w.namespace, second)
	forged.Spec.ServiceAccountName = "mallory"
	forged.Annotations = map[string]string{} // the policy does not guard these of a pod without the labels of a member
	for _, key := range []string{model.VersionAnnotation, model.RevisionAnnotation, keyturnagent.PinAnnotation, contract.StartAnnotation} {
		forged.Annotations[key] = genuine.Annotations[key]
	}
	if err := tenant.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	status := w.cluster()
	before := status.DeepCopy()
	for i := range status.Status.MemberStatuses {
		if status.Status.MemberStatuses[i].Name == second {
			status.Status.MemberStatuses[i].PodUID = forged.UID
		}
	}
	if err := tenant.Status().Patch(t.Context(), status, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.setAddress(w.pod(second), "10.66.6.6")
	keys := map[contract.Plane]pki.PrivateKey{}
	own := connect(t, asPod(w.pod(second))) // its own token, of an account that the tenant has chosen
	for range 8 {
		_, err := w.try()
		if err != nil {
			t.Logf("pass: %v", err)
		}
		if w.pod(second).Labels[model.ManagedByLabel] == "" {
			continue
		}
		for _, plane := range contract.Planes() {
			if w.pod(second).Annotations[plane.RequestAnnotation()] != "" {
				continue
			}
			keys[plane] = newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
			a := &agent{keys: keys}
			if err := own.Patch(t.Context(), w.pod(second), annotating(plane.RequestAnnotation(), a.request(t, plane))); err != nil {
				t.Logf("request: %v", err)
			}
		}
	}
	if labels := w.pod(second).Labels; labels[model.ManagedByLabel] != "" {
		t.Errorf("the operator gave the pod of another the labels of a member: %v", labels)
	}
	for _, plane := range contract.Planes() {
		if chain := w.chain(w.pod(second), plane); len(chain) > 0 {
			t.Errorf("the tenant's pod has a certificate of the %s plane: %s %v %v, key matches: %t", plane, chain[0].Subject, chain[0].DNSNames, chain[0].IPAddresses, keys[plane].Matches(chain[0]))
		}
	}
}

// Without the policy, a tenant replaces the pod of a member by one with all its labels, annotations and owners while the status is lost.
func TestAForgedPodIsNotTakenOverWithoutAStatus(t *testing.T) {
	t.Parallel()
	for _, isOrphan := range []bool{true, false} {
		t.Run(fmt.Sprint(isOrphan), func(t *testing.T) {
			t.Parallel()
			w := begun(t, of(3))
			genuine := w.pod(second)
			w.lose(second)
			forged := genuine.DeepCopy()
			forged.ObjectMeta = metav1.ObjectMeta{Namespace: w.namespace, Name: second, Labels: genuine.Labels, OwnerReferences: genuine.OwnerReferences, Annotations: genuine.Annotations}
			if isOrphan {
				forged.OwnerReferences = nil
			}
			forged.Status = corev1.PodStatus{}
			w.create(forged)
			w.setAddress(forged, "10.66.6.6")
			w.etcd.Start(t, second, w.names("").PeerURL(second)) // it answers as the member
			w.setPodReady(second)
			w.forgetStatus()
			w.restart()
			w.told("")
			for range 8 {
				_, _ = w.try()
			}
			for _, member := range w.status().MemberStatuses {
				if member.PodUID == forged.UID {
					t.Errorf("the forged pod is recorded: %+v", member)
				}
			}
			t.Logf("Ready is %s: %s", w.condition("Ready").Reason, w.condition("Ready").Message)
		})
	}
}

// One pod has lost its labels and cannot be given them back; another member has lost its pod.
func TestAPodThatCannotBeLabelledKeepsNoOtherFromItsPod(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	w.patch(w.pod(first), merge(`{"metadata": {"labels": {%q: null}}}`, model.ManagedByLabel))
	before := w.pod(second).UID
	w.lose(second)
	w.asOperator = refusing{w.asOperator}
	w.restart()
	for range 8 {
		_, _ = w.try()
		w.play()
	}
	pod := &corev1.Pod{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: second}, pod); err != nil || pod.UID == before || !isReady(pod) {
		t.Errorf("%s is not created again: %v; Ready is %s: %s", second, err, w.condition("Ready").Reason, w.condition("Ready").Message)
	}
}

// refusing does not let the pod of the first member be patched, as a webhook or a quota of another may.
type refusing struct{ client.Client }

var errWebhook = errors.New("a webhook denies it")

func (r refusing) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if _, isPod := object.(*corev1.Pod); isPod && object.GetName() == first {
		return errWebhook
	}
	return r.Client.Patch(ctx, object, patch, opts...)
}

// The status names a pod of the namespace that is none of a member.
func TestAForgedStatusDeletesNoPodOfOthers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{second, "shop"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, g := newAttested(t, of(1))
			w.bring()
			victim := other(w.namespace, name)
			w.create(victim)
			stored := w.cluster()
			before := stored.DeepCopy()
			stored.Status.MemberStatuses = append(stored.Status.MemberStatuses, etcdv1beta2.MemberStatus{Name: name, PodUID: victim.UID, MemberID: "7", Role: etcdv1beta2.RoleVoter, Version: "3.6.15"})
			if err := g.as("mallory").Status().Patch(t.Context(), stored, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			for range 6 {
				_, _ = w.try()
			}
			after := &corev1.Pod{}
			if err := w.person.Get(t.Context(), client.ObjectKeyFromObject(victim), after); err != nil || len(after.Labels) > 0 {
				t.Errorf("pod %s of another: %v, labels %v", name, err, after.Labels)
			}
		})
	}
}

// The status of the pod is not only the kubelet's to write.
func TestAFailureWithoutANameEndsABackup(t *testing.T) {
	t.Parallel()
	w := begun(t, of(1))
	w.createBackupClaim()
	w.backUp(3600)
	w.backsUp("BackupRunning")
	w.endBackup(corev1.PodFailed, 1, contract.BackupResult{Failure: "no reason at all"})
	for range 4 {
		if _, err := w.tryBackup(); err != nil {
			t.Errorf("the result cannot be recorded: %.400v", err)
			return
		}
	}
}

// The pod has no name of a member, so that the operator does not create it itself.
func TestAForgedStatusDoesNotCertifyAPodOfAnyName(t *testing.T) {
	t.Parallel()
	w, g := newAttested(t, of(1))
	w.bring()
	tenant := g.as("mallory")
	forged := other(w.namespace, "shop")
	forged.Spec.ServiceAccountName = "mallory"
	if err := tenant.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	stored := w.cluster()
	before := stored.DeepCopy()
	stored.Status.MemberStatuses = append(stored.Status.MemberStatuses, etcdv1beta2.MemberStatus{Name: "shop", PodUID: forged.UID, MemberID: "7", Role: etcdv1beta2.RoleVoter})
	if err := tenant.Status().Patch(t.Context(), stored, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	w.setAddress(w.pod("shop"), "10.66.6.6")
	own := connect(t, asPod(w.pod("shop")))
	a := &agent{keys: map[contract.Plane]pki.PrivateKey{}}
	for range 6 {
		_, _ = w.try()
		for _, plane := range contract.Planes() {
			if w.pod("shop").Labels[model.ManagedByLabel] != "" && w.pod("shop").Annotations[plane.RequestAnnotation()] == "" {
				a.keys[plane] = newKey(t, pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
				if err := own.Patch(t.Context(), w.pod("shop"), annotating(plane.RequestAnnotation(), a.request(t, plane))); err != nil {
					t.Logf("request: %v", err)
				}
			}
		}
	}
	for _, plane := range contract.Planes() {
		if chain := w.chain(w.pod("shop"), plane); len(chain) > 0 {
			t.Errorf("pod shop has a certificate of the %s plane: %s %v %v", plane, chain[0].Subject, chain[0].DNSNames, chain[0].IPAddresses)
		}
	}
	t.Logf("Ready is %s: %s", w.condition("Ready").Reason, w.condition("Ready").Message)
}
