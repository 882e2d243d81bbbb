package apitest

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// What carries no label of the cluster is not shown by any list. It exists all the
// same.

// unlabel takes the cluster's label off an object.
func (w *world) unlabel(object client.Object, name string) {
	w.t.Helper()
	w.patch(object, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"strimzi.io/cluster": nil}}})
}

func (w *world) label(object client.Object, name string) {
	w.t.Helper()
	w.patch(object, name, map[string]any{"metadata": map[string]any{"labels": map[string]any{"strimzi.io/cluster": clusterName}}})
}

func TestASilentPodWithoutItsLabelIsNotPassedBy(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.silent["my-dual-1"] = true
	w.unlabel(&corev1.Pod{}, "my-dual-1")

	w.replace(authorities.Cluster)
	w.run(10)

	if w.presents(1, nextV)() {
		t.Error("a node presents the new authority, and nobody knows what my-dual-1 trusts")
	}
	w.wantCondition(clusterTrust, "my-dual-1")

	w.label(&corev1.Pod{}, "my-dual-1")
	delete(w.silent, "my-dual-1")
	w.settle()

	w.wantRemainder(firstV, nextV)
	w.wantRestarts(0)
}

func TestAPodWithoutItsLabelTakesPartInEverything(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	w.unlabel(&corev1.Pod{}, "my-dual-1")

	w.replace(authorities.Cluster)
	w.run(20)
	w.wantRemainder(firstV, nextV)
	w.wantRestarts(0)

	w.configure("log.retention.hours", "12")
	w.settle() // the pod that is made in its place carries the label
	w.wantRestarts(1)
	w.wantAlone(nextV)
}

func TestAPodThatBelongsToNobodyCountsAsAProcessOfWhichNothingIsKnown(t *testing.T) {
	t.Parallel()
	for name, labelled := range map[string]bool{"with the cluster's label": true, "without it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.patch(&corev1.Pod{}, "my-dual-1", map[string]any{"metadata": map[string]any{"ownerReferences": nil}})
			if !labelled {
				w.unlabel(&corev1.Pod{}, "my-dual-1")
			}

			w.replace(authorities.Cluster)
			w.run(10)

			if w.presents(1, nextV)() {
				t.Error("a node presents the new authority, and nobody knows what my-dual-1 trusts")
			}
			w.wantCondition(condition.Warning, "my-dual-1", "belongs to something else")
			if len(w.faulty.podsDeleted) > 0 {
				t.Errorf("deleted: %v", w.faulty.podsDeleted)
			}

			w.delete(&corev1.Pod{}, "my-dual-1")
			w.settle()
			w.wantRemainderOrAlone()
		})
	}
}

// wantRemainderOrAlone checks that the new authority is the one in use.
func (w *world) wantRemainderOrAlone() {
	w.t.Helper()
	if !w.presents(3, nextV)() {
		w.t.Errorf("roles are %v, want %s presented by all", w.roles(), nextV)
	}
}

func TestABrokerWithoutItsLabelLeavesLikeAnyOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	w.topic("orders", 0, 1, 3)
	for _, name := range []string{"my-extra-3", "my-extra-4"} {
		w.unlabel(&corev1.Pod{}, name)
	}

	w.delete(&kafkav1.KafkaNodePool{}, "extra")
	w.run(20)

	if !slices.Equal(w.faulty.podsDeleted, []string{"my-extra-4"}) {
		t.Errorf("deleted: %v, want the empty broker alone", w.faulty.podsDeleted)
	}
	for what, object := range map[string]client.Object{
		"my-extra": &podsetv1.StrimziPodSet{}, "my-extra-3": &corev1.Secret{}, "data-my-extra-3": &corev1.PersistentVolumeClaim{},
	} {
		if w.missing(object, what) {
			t.Errorf("%T %s is gone, and the broker holds a partition", object, what)
		}
	}

	w.kafka.Reassign("orders", 0, 0, 1, 2)
	w.settle()

	if want := []string{"my-extra-4", "my-extra-3"}; !slices.Equal(w.faulty.podsDeleted, want) {
		t.Errorf("deleted: %v, want %v", w.faulty.podsDeleted, want)
	}
}

func TestASecretWithoutItsLabelIsNotLost(t *testing.T) {
	t.Parallel()
	secrets := []string{
		"my-cluster-ca", "my-cluster-ca-cert", "my-cluster-ca-trusted-certs",
		"my-clients-ca", "my-clients-ca-cert", "my-clients-ca-trusted-certs",
		"my-cluster-operator-certs", "my-dual-0", "my-dual-2",
	}
	for name, of := range map[string][]string{
		"the key of the cluster CA": {"my-cluster-ca"}, "the key of the clients CA": {"my-clients-ca"},
		"a node's": {"my-dual-0"}, "all": secrets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			before := map[string]map[string][]byte{}
			for _, secret := range secrets {
				before[secret] = w.secret(secret).Data
			}
			for _, secret := range of {
				w.unlabel(&corev1.Secret{}, secret)
			}

			w.settle()

			for _, secret := range secrets {
				after := w.secret(secret)
				if !maps.EqualFunc(before[secret], after.Data, slices.Equal[[]byte]) {
					t.Errorf("Secret %s holds something else", secret)
				}
				if after.Labels["strimzi.io/cluster"] != clusterName {
					t.Errorf("Secret %s is without its label", secret)
				}
			}
			w.wantRestarts(0)
		})
	}
}

func TestAUsersSecretNeedsNoLabel(t *testing.T) {
	t.Parallel()
	w, _ := corporate(t)
	for _, secret := range []string{"my-cluster-ca", "my-cluster-ca-cert"} {
		w.unlabel(&corev1.Secret{}, secret)
	}

	w.settle()

	if !has(w.getKafka(), condition.Ready) {
		t.Errorf("conditions are %+v, want Ready", w.getKafka().Status.Conditions)
	}
	if has(w.getKafka(), condition.Warning) {
		t.Errorf("conditions are %+v, and nothing is wrong", w.getKafka().Status.Conditions)
	}
	w.wantOwn("corporate one")
	w.wantRestarts(0)
}

func TestAPodSetWithoutItsLabelIsNotLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(w *world)
		gone   []string
	}{
		"of a pool": {change: func(*world) {}},
		"of a pool whose resource is gone": {
			change: func(w *world) { w.delete(&kafkav1.KafkaNodePool{}, "extra") }, gone: []string{"my-extra-4", "my-extra-3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.extraBrokers(claims(true))
			w.pin()
			w.unlabel(&podsetv1.StrimziPodSet{}, "my-extra")
			c.change(w)
			w.replace(authorities.Cluster)
			w.settle()

			if !slices.Equal(w.faulty.podsDeleted, c.gone) {
				t.Errorf("deleted: %v, want %v", w.faulty.podsDeleted, c.gone)
			}
			w.wantRemainderOrAlone()
		})
	}
}
