package apitest

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/publication"
)

// A node stays a node whatever becomes of its Secret: its pod set describes it, and
// the quorum counts it.

// neverForgets fails the test as soon as a pod set is written without one of the
// pods, or a configuration without one of the voters.
func (w *world) neverForgets(pods ...string) {
	w.t.Helper()
	after := w.faulty.After
	w.faulty.After = func(write kubetest.Write) {
		w.t.Helper()
		after(write)
		switch {
		case strings.HasPrefix(write.Target(), "StrimziPodSet "):
			w.wantDescribed(pods...)
		case strings.HasPrefix(write.Target(), "ConfigMap my-dual-"):
			w.wantVoters(len(pods))
		}
	}
}

func (w *world) wantDescribed(pods ...string) {
	w.t.Helper()
	sets, err := w.sets(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, pod := range pods {
		if !describes(sets, pod) {
			w.t.Errorf("no pod set describes %s, after\n%s", pod, w.told())
		}
	}
}

func (w *world) wantVoters(n int) {
	w.t.Helper()
	var configs corev1.ConfigMapList
	w.list(&configs)
	for i := range configs.Items {
		properties, ofNode := configs.Items[i].Data[contract.ServerConfigKey]
		if !ofNode {
			continue
		}
		if voters, err := model.ParseVoters(properties); err != nil || len(voters) != n {
			w.t.Errorf("the voters of %s are %v (%v), want %d", configs.Items[i].Name, voters, err, n)
		}
	}
}

func (w *world) published(pod string) publication.Publication {
	w.t.Helper()
	published, err := publication.ParsePublication(w.secret(pod).Data[agent.PublicationKey])
	if err != nil {
		w.t.Fatalf("the publication of %s: %v", pod, err)
	}
	return published
}

func TestAPublicationThatCannotBeReadIsWrittenAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(w *world){
		"it is no JSON":       func(w *world) { w.replaceData("my-dual-1", agent.PublicationKey, []byte("{")) },
		"it is gone":          func(w *world) { w.dropData("my-dual-1", agent.PublicationKey) },
		"it is of revision 0": func(w *world) { w.replaceData("my-dual-1", agent.PublicationKey, []byte(`{"revision":0}`)) },
	} {
		for moment, when := range map[string]func(w *world) func() bool{
			"at rest":           nil,
			"one trusts":        func(w *world) func() bool { return w.trusts(1, nextV) },
			"one presents":      func(w *world) func() bool { return w.presents(1, nextV) },
			"all have reloaded": func(w *world) func() bool { return w.presents(3, nextV) },
		} {
			t.Run(name+", "+moment, func(t *testing.T) {
				t.Parallel()
				w := turning(t, 3)
				w.lag["my-dual-1"] = 1
				w.neverForgets("my-dual-0", "my-dual-1", "my-dual-2")
				var before int64
				spoil := func() {
					before = w.published("my-dual-1").Revision
					damage(w)
				}
				if when == nil {
					spoil()
				} else {
					w.replace(authorities.Cluster)
					w.once(when(w), spoil)
				}

				w.settle()

				if after := w.published("my-dual-1").Revision; after <= before {
					t.Errorf("revision %d follows on %d", after, before)
				}
				w.wantRestarts(0)
				if when != nil {
					w.wantRemainder(firstV, nextV)
				}
			})
		}
	}
}

func TestAPublicationFromAnOldCopyDoesNotTurnRevisionsBack(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	copied := w.secret("my-dual-1").Data[agent.PublicationKey]
	w.replace(authorities.Cluster)
	w.settle()
	before := w.published("my-dual-1").Revision

	w.replaceData("my-dual-1", agent.PublicationKey, copied)
	w.settle()

	if after := w.published("my-dual-1").Revision; after <= before {
		t.Errorf("revision %d follows on %d", after, before)
	}
	w.wantRemainder(firstV, nextV)
	w.wantRestarts(0)
}

// unsignable is a cluster in the middle of a replacement that no CA can cross-sign,
// and of which my-dual-1 has lost its Secret: what it trusts is not known, so nobody
// may sign with the new key, and the old one is gone.
func unsignable(t *testing.T) *world {
	t.Helper()
	w := turning(t, 3)
	w.classic()
	w.silent["my-dual-2"] = true
	w.delete(&corev1.Secret{}, "my-cluster-ca")
	w.run(5)
	w.neverForgets("my-dual-0", "my-dual-1", "my-dual-2")
	return w
}

func TestANodeThatCannotBeGivenACertificateStaysANode(t *testing.T) {
	t.Parallel()
	w := unsignable(t)
	lost := w.secret("my-dual-1")
	w.lag["my-dual-1"] = stopped // there is nothing to mount
	w.delete(&corev1.Secret{}, "my-dual-1")
	w.run(5)

	w.wantDescribed("my-dual-0", "my-dual-1", "my-dual-2")
	w.wantVoters(3)
	w.wantCondition(condition.Warning, "my-dual-1", "cannot be given a certificate", "restore the Secret")
	w.wantRestarts(0)

	// It comes back, with what somebody has kept of it.
	var pod corev1.Pod
	w.get("my-dual-1", &pod)
	w.endPod(t.Context(), &pod)
	w.run(5)
	if w.missing(&corev1.Pod{}, "my-dual-1") {
		t.Error("the pod is not made again")
	}
	lost.ResourceVersion, lost.UID = "", ""
	w.create(lost)
	delete(w.lag, "my-dual-1")
	delete(w.silent, "my-dual-2")
	w.settle()

	w.wantAlone(nextV)
	w.wantVoters(3)
}

// A pod must not exist before its certificate does. The node does.
func TestANodeThatWaitsForItsFirstCertificateIsRecorded(t *testing.T) {
	t.Parallel()
	w := unsignable(t)

	w.create(poolResource(w.namespace, "extra", 1, kafkav1.RoleBroker))
	w.run(3)
	w.create(poolResource(w.namespace, "another", 1, kafkav1.RoleBroker))
	w.run(3)
	w.startOperator()
	w.run(3)

	for set, id := range map[string]model.NodeID{"my-extra": 3, "my-another": 4} {
		var written podsetv1.StrimziPodSet
		w.get(set, &written)
		recorded, err := model.ParseRecordedNodes(written.Annotations[model.NodesAnnotation])
		if err != nil || !slices.Equal(recorded.IDs, []model.NodeID{id}) || recorded.Roles != (model.Roles{Broker: true}) {
			t.Errorf("%s records %+v (%v), want the broker %s", set, recorded, err, id)
		}
		if len(written.Spec.Pods) > 0 {
			t.Errorf("%s describes a pod that cannot start", set)
		}
	}
}

func TestANodeThatNeverHadAPodGoesWithoutBeingAsked(t *testing.T) {
	t.Parallel()
	w := unsignable(t)
	w.create(poolResource(w.namespace, "extra", 1, kafkav1.RoleBroker))
	w.run(3)

	w.scale("extra", 0)
	w.run(3)

	var written podsetv1.StrimziPodSet
	w.get("my-extra", &written)
	if recorded, err := model.ParseRecordedNodes(written.Annotations[model.NodesAnnotation]); err != nil || len(recorded.IDs) > 0 {
		t.Errorf("my-extra records %v (%v), want nobody", recorded.IDs, err)
	}
	if len(w.faulty.podsDeleted) > 0 {
		t.Errorf("deleted: %v", w.faulty.podsDeleted)
	}
}

// Nobody waits for a node that cannot be there yet.
func TestRestartsDoNotWaitForANodeWithoutItsFirstCertificate(t *testing.T) {
	t.Parallel()
	w := unsignable(t)
	delete(w.silent, "my-dual-2")
	w.create(poolResource(w.namespace, "extra", 1, kafkav1.RoleBroker))

	w.configure("log.retention.hours", "12")
	w.run(30)

	w.wantRestarts(1)
}

func TestAPoolThatIsRenamedInOneGoGetsOtherIds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(false))
	w.topic("orders", 0, 1, 3)

	w.delete(&kafkav1.KafkaNodePool{}, "extra")
	renamed := poolResource(w.namespace, "renamed", 2, kafkav1.RoleBroker)
	renamed.Spec.Storage = claims(false)
	w.create(renamed)
	w.run(25)
	w.wantUniqueIDs()

	w.kafka.Reassign("orders", 0, 0, 1, 2)
	w.settle()
	w.wantUniqueIDs()

	// The volumes of the old pool are kept, and their ids with them.
	w.create(poolResource(w.namespace, "late", 1, kafkav1.RoleBroker))
	w.settle()
	var pod corev1.Pod
	w.get("my-late-7", &pod)
}

// wantUniqueIDs checks that no two nodes have one id.
func (w *world) wantUniqueIDs() {
	w.t.Helper()
	holders := map[model.NodeID]string{}
	names := model.Names{Cluster: clusterName}
	for name := range w.podUIDs() {
		_, id, named := names.NodeOf(name)
		if other, taken := holders[id]; named && taken {
			w.t.Errorf("%s and %s have the same id", name, other)
		}
		holders[id] = name
	}
}

func TestTheNodesOfALostPodSetAreMadeAgainUnderTheirIds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(false))
	w.scale("extra", 3)
	w.settle()
	w.annotate(&kafkav1.KafkaNodePool{}, "extra", map[string]any{"strimzi.io/remove-node-ids": "[3]"})
	w.scale("extra", 2)
	w.settle()
	w.faulty.podsDeleted = nil

	var set podsetv1.StrimziPodSet
	w.get("my-extra", &set)
	w.loseControl(&set)
	w.delete(&set, "my-extra")
	w.settle()

	for _, name := range []string{"my-extra-4", "my-extra-5"} {
		var pod corev1.Pod
		w.get(name, &pod)
	}
	if !w.missing(&corev1.Pod{}, "my-extra-3") {
		t.Error("a node is made that had left")
	}
}

// loseControl deletes the pods of a set, as Kubernetes does when the set is gone.
func (w *world) loseControl(set *podsetv1.StrimziPodSet) {
	w.t.Helper()
	var pods corev1.PodList
	w.list(&pods)
	for i := range pods.Items {
		if metav1.IsControlledBy(&pods.Items[i], set) {
			w.endPod(w.t.Context(), &pods.Items[i])
		}
	}
}
