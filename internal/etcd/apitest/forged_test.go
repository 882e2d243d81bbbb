package apitest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
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

// flood is a member whose alarms are many and long.
type flood struct{ *admintest.Fake }

func (f flood) Members(ctx context.Context) ([]admin.Member, error) {
	members, err := f.Fake.Members(ctx)
	for i := uint64(1000); len(members) < 64; i++ {
		members = append(members, admin.Member{ID: i, Name: fmt.Sprintf("%d%s", i, strings.Repeat("x", 500)), PeerURLs: []string{"https://x:2380"}})
	}
	return members, err
}

func (f flood) Status(ctx context.Context, url string) (admin.Status, error) {
	status, err := f.Fake.Status(ctx, url)
	status.HasAlarm = true
	return status, err
}

func (f flood) Alarms(context.Context) ([]admin.Alarm, error) {
	var alarms []admin.Alarm
	for i := range 256 {
		alarms = append(alarms, admin.Alarm{MemberID: 1000 + uint64(i)%61, Kind: "CORRUPT"})
	}
	return alarms, nil
}

// One member reports as many alarms as an answer may have, and the API server takes no message of that length.
func TestAlarmsOfOneMemberDoNotKeepTheStatusFromBeingWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	names := model.Names{Namespace: w.namespace, Cluster: cluster}
	w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
		if len(urls) == 1 && urls[0] == names.ClientURL(third) {
			return flood{w.etcd}, nil
		}
		return w.etcd.Dial(ctx, urls, identity)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.operator.Look(t.Context())
	w.lose(second)
	uids := map[types.UID]bool{}
	for range 10 {
		if _, err := w.try(); err != nil {
			t.Logf("pass: %.300v", err)
		}
		w.play()
		if uid, exists := w.podUIDs()[second]; exists {
			uids[uid] = true
		}
	}
	if len(uids) != 1 || !isReady(w.pod(second)) {
		t.Errorf("pod %s was created %d times; Ready is %.200s", second, len(uids), w.condition("Ready").Message)
	}
}

// A status that was lost, a member that lies, and others that are not ready for a moment. Static and insecure clusters.
func TestALiarHasNoEphemeralPodsDeletedWithoutAStatus(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := begun(t, inPods(of(3)))
			before := w.podUIDs()
			w.forgetStatus()
			w.restart()
			names := w.names(mode)
			self, _ := w.etcd.Member(names.PeerURL(third))
			w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
				if len(urls) == 1 && urls[0] == names.ClientURL(third) {
					return &liar{w.etcd, self}, nil
				}
				return w.etcd.Dial(ctx, urls, identity)
			}
			w.setUnready(first)
			w.setUnready(second)
			for range 10 {
				_, _ = w.try()
			}
			if after := w.podUIDs(); !maps.Equal(before, after) {
				t.Errorf("pods with data %v become %v; Ready is %s: %s", before, after, w.condition("Ready").Reason, w.condition("Ready").Message)
			}
		})
	}
}

func (w *world) names(mode string) model.Names {
	names := model.Names{Namespace: w.namespace, Cluster: cluster}
	switch mode {
	case "static":
		names.Mode = model.Static
	case "insecure":
		names.Mode = model.Insecure
	}
	return names
}

// The label of a claim is taken off before its member has joined.
func TestAClaimWithoutItsLabelIsMarkedBeforeClientsAreSentToItsMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	for range 10 {
		w.reconcile()
		if len(w.claims()) > 0 {
			break
		}
	}
	claim := w.claims()[0]
	w.patch(&claim, merge(`{"metadata": {"labels": {%q: null}}}`, model.ManagedByLabel))
	w.bring()
	if _, isMarked := w.claims()[0].Annotations[model.JoinedAnnotation]; !isMarked {
		t.Errorf("the pod is ready (%t), and the claim is not marked: %v", isReady(w.pod(first)), w.claims()[0].Annotations)
	}
	w.deletePods()
	w.volumes = map[types.UID]uint64{}
	w.etcd = &admintest.Fake{}
	w.forgetStatus()
	w.restart()
	w.turns()
	if w.etcd.Runs(first) {
		t.Errorf("a second cluster runs under the same name; Ready is %+v", w.condition("Ready"))
	}
}

// The claim has two labels of a cluster, as a copy of one of its claims, and is none of a member.
func TestAClaimOfATenantKeepsNoCA(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	w.access(w.namespace, "")
	w.wantAccess(w.namespace, "SecretReady")
	before := w.certificate(w.namespace + ".my-cluster-client-ca-cert")
	forged := &corev1.PersistentVolumeClaim{ObjectMeta: w.meta("innocent"), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	forged.Labels = map[string]string{model.ManagedByLabel: model.Manager, model.ClusterLabel: cluster}
	w.create(forged)
	w.delete(w.cluster())
	for range 3 {
		w.reconcile()
		w.play()
	}
	if !w.isGone() {
		t.Fatal("the cluster stays")
	}
	var kept corev1.SecretList
	if err := w.person.List(t.Context(), &kept, client.InNamespace(w.private)); err != nil {
		t.Fatal(err)
	}
	// what the garbage collector does
	w.deletePods()
	for _, kind := range []client.Object{
		&corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
	} {
		if err := w.person.DeleteAllOf(t.Context(), kind, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}
	}
	claims := w.claims()
	for i := range claims {
		if claims[i].Name != "innocent" {
			w.delete(&claims[i])
			w.patch(&claims[i], merge(`{"metadata": {"finalizers": null}}`))
		}
	}
	w.etcd, w.volumes = &admintest.Fake{}, map[types.UID]uint64{}
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(1)})
	w.restart()
	w.turns()
	w.turns()
	if ready := w.condition("Ready"); ready.Reason != "MembersReady" {
		t.Errorf("the new cluster does not begin: Ready is %s: %s", ready.Reason, ready.Message)
	}
	if after := w.certificate(w.namespace + ".my-cluster-client-ca-cert"); after.Equal(before) {
		t.Errorf("%d Secrets were kept, and the new cluster has the client CA of the deleted one", len(kept.Items))
	}
}

// The status is lost, one pod too, and its claim is another's for a moment.
func TestAClaimOfAnotherCostsNoMemberWithoutAStatus(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	before := w.idOf(third)
	w.forgetStatus()
	w.restart()
	w.lose(third)
	claim := &corev1.PersistentVolumeClaim{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "data-" + third}, claim); err != nil {
		t.Fatal(err)
	}
	claim.OwnerReferences = another()
	if err := w.person.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.turns()
	member, isListed := w.etcd.Member(w.names("").PeerURL(third))
	if !isListed || member.ID != before {
		t.Errorf("member %s was %x and is %x (%t) in etcd, although its data is on its claim; Ready is %s: %s", third, before, member.ID, isListed, w.condition("Ready").Reason, w.condition("Ready").Message)
	}
}

// A cluster that was restored loses its status.
func TestARestoreThatWasCarriedOutIsNotSaidToBeSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, restoring(1, fromVolume()))
	w.createBackupClaim()
	for range 20 {
		_, _ = w.try()
		w.play()
		w.restores(0, succeeded())
	}
	if w.status().Restored == nil {
		t.Fatalf("not restored: %+v", w.condition("Ready"))
	}
	w.forgetStatus()
	w.restart()
	w.turns()
	if w.told("RestoreSkipped") {
		t.Errorf("an event says that the restore was skipped; FieldsIgnored %+v, Restored %+v", w.condition(etcdv1beta2.ConditionFieldsIgnored), w.status().Restored)
	}
}

// Of the claims that an earlier cluster has left, only one says of which kind that was.
func TestClaimsOfAnotherSpecAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	claims := w.claims()
	for i := range claims {
		if claims[i].Name != "data-"+third {
			w.patch(&claims[i], merge(`{"metadata": {"annotations": {%q: null}}}`, model.JoinedAnnotation))
		}
	}
	w.leave()
	w.deletePods()
	w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: insecure(3)})
	w.restart()
	w.until("SpecDiffers")
	for _, claim := range w.claims() {
		if owners := claim.OwnerReferences; len(owners) > 0 {
			t.Errorf("claim %s is taken over by the cluster that does not use it, and is deleted with it: %v", claim.Name, owners[0].UID)
		}
	}
}

// A status of another day, as a tool that restores objects with their status writes it, or an operator that was stopped for a minute.
func TestAnOldStatusCostsNoData(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		for data, keep := range map[string]func(etcdv1beta2.EtcdClusterSpec) etcdv1beta2.EtcdClusterSpec{"in pods": inPods, "on claims": onClaims} {
			t.Run(mode+" "+data, func(t *testing.T) {
				t.Parallel()
				w := begun(t, keep(of(3)))
				old := w.cluster().Status.DeepCopy()
				w.change(`{"spec": {"pod": {"labels": {"example.com/team": "db"}}}}`)
				for range 80 {
					_, _ = w.try()
					w.play()
				}
				if ready := w.condition("Ready"); ready.Reason != "MembersReady" {
					t.Fatalf("Ready is %+v", ready)
				}
				before := w.podUIDs()
				stored := w.cluster()
				stored.Status = *old
				if err := w.person.Status().Update(t.Context(), stored); err != nil {
					t.Fatal(err)
				}
				least := 3
				for range 12 {
					_, _ = w.try()
					if n := len(w.podUIDs()); n < least {
						least = n
					}
				}
				t.Logf("Ready is %s: %s", w.condition("Ready").Reason, w.condition("Ready").Message)
				if after := w.podUIDs(); !maps.Equal(before, after) {
					t.Errorf("pods %v become %v, at one moment %d ran", before, after, least)
				}
			})
		}
	}
}

// stalled is a client whose first status waits for what another operator does meanwhile.
type stalled struct {
	client.Client

	meanwhile func()
}

func (s *stalled) Status() client.SubResourceWriter { return stalledStatus{s.Client.Status(), s} }

type stalledStatus struct {
	client.SubResourceWriter

	of *stalled
}

func (s stalledStatus) Apply(ctx context.Context, object runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	if do := s.of.meanwhile; do != nil {
		s.of.meanwhile = nil
		do()
	}
	return s.SubResourceWriter.Apply(ctx, object, opts...)
}

// Two operators: the first is stopped before it writes the status, and continues after the second has led for a while.
func TestAnOperatorThatWasStoppedDoesNotWriteAnOldStatus(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := begun(t, inPods(of(3)))
			w.change(`{"spec": {"pod": {"labels": {"example.com/team": "db"}}}}`)
			var before map[string]types.UID
			slow := &stalled{Client: w.asOperator, meanwhile: func() {
				w.restart()
				for range 80 {
					_, _ = w.try()
					w.play()
				}
				before = w.podUIDs()
			}}
			operator := w.asOperator
			w.asOperator = slow
			w.restart()
			first := w.operator
			w.asOperator = operator
			_, _ = first.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.cluster())})
			if before == nil {
				t.Fatal("the first operator wrote no status")
			}
			w.restart()
			for range 12 {
				_, _ = w.try()
			}
			t.Logf("Ready is %s: %s", w.condition("Ready").Reason, w.condition("Ready").Message)
			if after := w.podUIDs(); !maps.Equal(before, after) {
				t.Errorf("pods with data %v become %v", before, after)
			}
			if ready := w.condition("Ready"); ready.Reason != "MembersReady" {
				t.Errorf("the cluster does not come back by itself: %+v", ready)
			}
		})
	}
}

// A crash after each write of a takeover after the status was lost.
func TestACrashAfterEachWriteOfATakeoverCostsNothing(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		for data, keep := range map[string]func(etcdv1beta2.EtcdClusterSpec) etcdv1beta2.EtcdClusterSpec{"in pods": inPods, "on claims": onClaims} {
			t.Run(mode+" "+data, func(t *testing.T) {
				t.Parallel()
				w := begun(t, keep(of(3)))
				before, ids := w.podUIDs(), w.ids()
				w.clock.SetTime(w.clock.Now().Add(-10 * time.Minute)) // and a clock that is late
				w.forgetStatus()
				for range 30 {
					w.restart()
					w.writer.crashAt = 2
					_, _ = w.try()
				}
				w.restart()
				w.bring()
				if !maps.Equal(w.podUIDs(), before) || !maps.Equal(w.ids(), ids) {
					t.Errorf("pods %v become %v, members %v become %v", before, w.podUIDs(), ids, w.ids())
				}
			})
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

// A member that lies about the ids of the others while the status is lost and the others are not ready.
func TestALiarGivesNoIDsWithoutAStatus(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	ids := w.ids()
	w.forgetStatus()
	w.restart()
	names := w.names("")
	w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
		if len(urls) == 1 && urls[0] == names.ClientURL(third) {
			return renaming{w.etcd}, nil
		}
		return w.etcd.Dial(ctx, urls, identity)
	}
	w.setUnready(first)
	w.setUnready(second)
	for range 6 {
		_, _ = w.try()
	}
	w.dial = nil // the liar is found and stopped
	w.setPodReady(first)
	w.setPodReady(second)
	w.turns()
	if after := w.ids(); !maps.Equal(ids, after) {
		t.Errorf("members were %v and are %v; Ready is %s: %s", ids, after, w.condition("Ready").Reason, w.condition("Ready").Message)
	}
}

type renaming struct{ *admintest.Fake }

func (r renaming) Members(ctx context.Context) ([]admin.Member, error) {
	members, err := r.Fake.Members(ctx)
	for i := range members[:min(2, len(members))] {
		members[i].ID += 0xbad0
	}
	return members, err
}

// The status is lost, and so is the first claim. The others are marked, and have another owner.
func TestMarkedClaimsOfAnotherOwnerKeepAClusterFromBeginningAnew(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := begun(t, of(3))
			w.deletePods()
			for _, claim := range w.claims() {
				if claim.Name == "data-"+first {
					w.delete(&claim)
					w.patch(&claim, merge(`{"metadata": {"finalizers": null}}`))
					continue
				}
				claim.OwnerReferences = another()
				if err := w.person.Update(t.Context(), &claim); err != nil {
					t.Fatal(err)
				}
			}
			w.etcd = &admintest.Fake{} // what starts is a cluster of its own
			w.forgetStatus()
			w.restart()
			w.turns()
			t.Logf("Ready is %s: %s", w.condition("Ready").Reason, w.condition("Ready").Message)
			if w.etcd.Runs(first) {
				t.Error("a new cluster has begun beside the data of the earlier one")
			}
		})
	}
}

// The marks of two claims of three are gone; all data are there. Then the status is lost.
func TestMissingMarksDoNotKeepAClusterFromComingBack(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	ids := w.ids()
	w.deletePods()
	claims := w.claims()
	for i := range claims {
		if claims[i].Name != "data-"+first {
			w.patch(&claims[i], merge(`{"metadata": {"annotations": {%q: null}}}`, model.JoinedAnnotation))
		}
	}
	w.forgetStatus()
	w.restart()
	w.turns()
	w.turns()
	if ready := w.condition("Ready"); ready.Reason != "MembersReady" || !maps.Equal(ids, w.ids()) {
		t.Errorf("members were %v and are %v; Ready is %s: %s", ids, w.ids(), ready.Reason, ready.Message)
	}
}

// A client with a certificate gives a member a second peer URL, which is not the operator's.
func TestASecondPeerURLIsNamed(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	w.look()
	w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) {
		return twofold{w.etcd}, nil
	}
	w.look()
	if ready := w.condition("Ready"); ready.Reason != "PeerURLChanged" {
		t.Errorf("Ready is %+v", ready)
	}
}

type twofold struct{ *admintest.Fake }

func (o twofold) Members(ctx context.Context) ([]admin.Member, error) {
	members, err := o.Fake.Members(ctx)
	if len(members) > 1 {
		members[1].PeerURLs = append([]string{"https://evil.example.com:2380"}, members[1].PeerURLs...)
	}
	return members, err
}

// The status is lost and etcd does not answer for a while, or what is left is of another spec: the pods have the only data.
func TestABudgetProtectsPodsThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *world){
		"the status is lost, and etcd does not answer": func(w *world) {
			w.forgetStatus()
			w.restart()
			w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) {
				return nil, errors.New("nothing answers")
			}
		},
		"another spec": func(w *world) {
			w.leave()
			w.create(&etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster), Spec: of(3)})
			w.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := begun(t, inPods(of(3)))
			lose(w)
			w.turns()
			budget := &policyv1.PodDisruptionBudget{}
			w.get(cluster, budget)
			t.Logf("Ready is %s: %.120s", w.condition("Ready").Reason, w.condition("Ready").Message)
			if pods := len(w.podUIDs()); budget.Spec.MinAvailable.IntValue() < 2 {
				t.Errorf("%d pods have the only data, and the budget keeps %d", pods, budget.Spec.MinAvailable.IntValue())
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
