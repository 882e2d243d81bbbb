package apitest

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
)

// What belongs to the cluster is what its Kafka owns, or what its label names and nobody
// else owns.

// unmark takes everything off an object that says whose it is.
func (w *world) unmark(object client.Object, name string) {
	w.t.Helper()
	w.patch(object, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"strimzi.io/cluster": nil}, "ownerReferences": nil}})
}

// hasReason reports whether a condition has the reason.
func (w *world) hasReason(reason string) bool {
	w.t.Helper()
	return slices.ContainsFunc(w.getKafka().Status.Conditions, func(c condition.Condition) bool { return c.Reason == reason })
}

// wantToldOnce checks that people are told of somebody else's object by condition and one
// event, and that nobody looks again each second, or writes.
func (w *world) wantToldOnce(object string) {
	w.t.Helper()
	w.wantCondition(condition.NotReady, object, "not touched")
	if !w.hasReason("ForeignObject") {
		w.t.Errorf("conditions are %+v", w.getKafka().Status.Conditions)
	}
	writes := w.faulty.Written
	for range 8 {
		result, err := w.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key(clusterName)})
		if err != nil || result.RequeueAfter < 10*time.Second || result.RequeueAfter > time.Minute {
			w.t.Errorf("the next look is in %s, %v", result.RequeueAfter, err)
		}
		w.goOn(w.t.Context())
	}
	if w.faulty.Written != writes {
		w.t.Errorf("%d objects were written beside it", w.faulty.Written-writes)
	}
	told := slices.DeleteFunc(slices.Clone(w.events.reasons), func(reason string) bool { return reason != "ForeignObject" })
	if len(told) != 1 {
		w.t.Errorf("%d events tell of it, want one", len(told))
	}
}

// wantExpired checks which pods present what has expired.
func (w *world) wantExpired(want ...string) {
	w.t.Helper()
	var late []string
	for _, s := range w.servers {
		if loaded, listens := s.loaded["replication-9091"]; listens && w.clock.Now().After(loaded.chain[0].NotAfter) {
			late = append(late, s.pod)
		}
	}
	if slices.Sort(late); !slices.Equal(late, want) {
		w.t.Errorf("expired certificates are presented by %v, want %v", late, want)
	}
}

func TestASecretOfARunningClusterThatNothingMarksIsToldAndNotWritten(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"my-dual-1", "my-cluster-ca", "my-cluster-ca-cert", "my-cluster-ca-trusted-certs", "my-clients-ca", "my-cluster-operator-certs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			pods := w.podUIDs()
			w.unmark(&corev1.Secret{}, name)
			unmarked := w.secret(name)

			w.run(5)

			w.wantToldOnce("Secret " + name)
			if !w.untouched(unmarked) {
				t.Errorf("it was written: %v", unmarked.ManagedFields)
			}
			w.wantRestarts(0)
			if len(pods) != len(w.podUIDs()) {
				t.Errorf("pods were %v and are %v", pods, w.podUIDs())
			}

			w.label(&corev1.Secret{}, name)
			w.settle()
			w.wantReady()
		})
	}
}

func TestOnlyTheNodeWhoseSecretIsSomebodyElsesMissesARenewal(t *testing.T) {
	t.Parallel()
	for name, invalid := range map[string]bool{"of a cluster as it is asked for": false, "of an invalid resource": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			w.nobodyReads()
			if invalid {
				w.patchKafka(map[string]any{"version": "3.9.0"})
				w.run(3)
			}
			w.unmark(&corev1.Secret{}, "my-dual-1")
			w.run(5)
			w.wantToldOnce("Secret my-dual-1")

			w.clock.SetTime(nearTheEnd())
			w.run(10)
			w.clock.SetTime(start().Add(366 * authority.Day))
			w.run(5)

			w.wantExpired("my-dual-1")
			w.wantCondition(condition.NotReady, "my-dual-1")
		})
	}
}

func TestASecretThatSomebodyElseHasMadeInPlaceOfALostOneIsToldAndNotWritten(t *testing.T) {
	t.Parallel()
	for what, invalid := range map[string]bool{"of a cluster as it is asked for": false, "of an invalid resource": true} {
		for _, name := range []string{"my-dual-1", "my-cluster-ca", "my-cluster-ca-trusted-certs", "my-clients-ca-cert", "my-cluster-operator-certs"} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.dualRole(3)
				w.settle()
				w.lockedOut = true // what the node knows others by went with its Secret
				if invalid {
					w.patchKafka(map[string]any{"version": "3.9.0"})
					w.run(3)
				}
				object := foreignSecret(name)
				object.SetNamespace(w.namespace)
				w.delete(&corev1.Secret{}, name)
				w.create(object)

				w.run(5)

				w.wantToldOnce("Secret " + name)
				if !w.untouched(object) {
					t.Errorf("it was written: %v", object.GetManagedFields())
				}
				w.wantRestarts(0)
			})
		}
	}
}

// theirs are owners that are not the Kafka of the test, by their kinds.
func theirs() map[string]metav1.OwnerReference {
	owner := func(group, kind string, controller *bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: group + "/v1", Kind: kind, Name: "other", UID: types.UID("uid-" + kind), Controller: controller}
	}
	return map[string]metav1.OwnerReference{
		"another Kafka":     owner("kafka.strimzi.io", "Kafka", nil),
		"a user":            owner("kafka.strimzi.io", "KafkaUser", nil),
		"any controller":    owner("apps", "Deployment", new(true)),
		"a Connect cluster": owner("kafka.strimzi.io", "KafkaConnect", new(true)),
	}
}

func TestWhatSomebodyElseOwnsIsNotTheClustersWhateverItsLabelSays(t *testing.T) {
	t.Parallel()
	for whose, owner := range theirs() {
		t.Run(whose, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.create(poolResource(w.namespace, "more", 1, kafkav1.RoleBroker))
			w.settle()
			pods := len(w.podUIDs())
			named := func(name string) metav1.ObjectMeta {
				return metav1.ObjectMeta{
					Name: name, Namespace: w.namespace, OwnerReferences: []metav1.OwnerReference{owner},
					Labels:      map[string]string{"strimzi.io/cluster": clusterName, "strimzi.io/pool-name": "x"},
					Annotations: map[string]string{"strimzi.io/delete-claim": "true"},
				}
			}
			objects := []client.Object{
				&corev1.Secret{ObjectMeta: named("my-more-4"), Data: map[string][]byte{"user.key": []byte("theirs")}},
				&corev1.Secret{ObjectMeta: named("my-x-9"), Data: w.secret("my-dual-0").Data},
				&corev1.ConfigMap{ObjectMeta: named("theirs")},
				&corev1.PersistentVolumeClaim{ObjectMeta: named("theirs"), Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				}},
				&podsetv1.StrimziPodSet{ObjectMeta: named("my-connect"), Spec: podsetv1.StrimziPodSetSpec{
					Selector: metav1.LabelSelector{MatchLabels: map[string]string{"theirs": "true"}}, Pods: w.strimziPodSet(w.getKafka()).Spec.Pods[:0],
				}},
			}
			w.create(objects...)

			w.run(5)
			w.wantReady()
			w.scale("more", 2)
			w.run(8)

			w.wantToldOnce("Secret my-more-4 has a name that this cluster needs, and belongs to " + owner.Kind + " other")
			for _, object := range objects {
				if !w.untouched(object) || object.GetDeletionTimestamp() != nil {
					t.Errorf("%T %s was touched: %v", object, object.GetName(), object.GetManagedFields())
				}
			}
			if got := len(w.podUIDs()); got != pods {
				t.Errorf("there are %d pods, want %d", got, pods)
			}
		})
	}
}
