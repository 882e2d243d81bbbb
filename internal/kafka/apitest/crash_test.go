package apitest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// The operator crashes after its nth write, for every n, and another one that
// remembers nothing goes on from what is stored. Whatever n is, the cluster comes
// to the same end, and no write ever leaves two nodes disrupted.

// crashScenario is a change that an operator carries out.
type crashScenario struct {
	// prepare brings the world to where the change begins, without crashes.
	prepare func(w *world)
	// change is what a person then asks for.
	change func(w *world)
}

func TestWhateverWriteTheOperatorCrashesAfterTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]crashScenario{
		"creating a cluster": {
			prepare: func(*world) {},
			change:  func(w *world) { w.dualRole(3) },
		},
		"scaling up and down": {
			prepare: func(w *world) {
				w.dualRole(3)
				w.create(poolResource(w.namespace, "extra", 1, kafkav1.RoleBroker))
				w.settle()
			},
			change: func(w *world) {
				w.scale("extra", 0)
				w.create(poolResource(w.namespace, "more", 1, kafkav1.RoleBroker))
			},
		},
		"rolling all nodes": {
			prepare: func(w *world) {
				w.dualRole(3)
				w.settle()
			},
			change: func(w *world) { w.configure("log.retention.hours", "12") },
		},
		"renewing the cluster CA": {
			prepare: func(w *world) {
				w.dualRole(3)
				w.settle()
			},
			change: func(w *world) {
				w.annotate(&corev1.Secret{}, "my-cluster-ca-cert", map[string]any{"strimzi.io/force-renew": "true"})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAfterEveryWrite(t, scenario)
		})
	}
}

func crashAfterEveryWrite(t *testing.T, scenario crashScenario) {
	t.Helper()
	undisturbed := finish(t, scenario, 0)
	for n := 1; n <= undisturbed.writes; n++ {
		disturbed := finish(t, scenario, n)
		if !slices.Equal(disturbed.end, undisturbed.end) {
			t.Fatalf("after a crash at write %d of %d the cluster ends as\n%v\nand not as\n%v",
				n, undisturbed.writes, disturbed.end, undisturbed.end)
		}
	}
	t.Logf("crashed after each of %d writes", undisturbed.writes)
}

// finished is what a scenario came to.
type finished struct {
	writes int
	end    []string
}

// finish carries out a scenario with a crash after the nth write of the change;
// 0 means no crash.
func finish(t *testing.T, scenario crashScenario, n int) finished {
	t.Helper()
	w := newWorld(t)
	scenario.prepare(w)
	before := w.faulty.writes
	w.faulty.afterWrite = w.atMostOneDisrupted
	scenario.change(w)
	if n > 0 {
		w.faulty.crashAfter = before + n
		if err := w.trySettle(t.Context()); err != nil && !errors.Is(err, errCrash) && !errors.Is(err, errStuck) {
			t.Fatalf("before the crash after write %d: %v", n, err)
		}
		w.faulty.crashAfter = 0
		w.startOperator()
	}
	w.settle()
	if kafka := w.getKafka(); !has(kafka, condition.Ready) {
		t.Fatalf("after a crash at write %d the cluster ends as %+v", n, kafka.Status.Conditions)
	}
	return finished{writes: w.faulty.writes - before, end: w.inventory()}
}

// inventory names everything that exists and what matters of it, without what
// differs from run to run.
func (w *world) inventory() []string {
	var names []string
	for kind, list := range map[string]client.ObjectList{
		"pod": &corev1.PodList{}, "secret": &corev1.SecretList{}, "configmap": &corev1.ConfigMapList{}, "service": &corev1.ServiceList{},
	} {
		if err := w.api.List(w.t.Context(), list, client.InNamespace(w.namespace), client.HasLabels{"strimzi.io/cluster"}); err != nil {
			w.t.Fatal(err)
		}
		names = append(names, inventoryOf(kind, list)...)
	}
	slices.Sort(names)
	return names
}

func inventoryOf(kind string, list client.ObjectList) []string {
	var names []string
	switch typed := list.(type) {
	case *corev1.PodList:
		for i := range typed.Items {
			names = append(names, kind+" "+typed.Items[i].Name+" "+typed.Items[i].Annotations["strimzi.io/cluster-ca-cert-generation"])
		}
	case *corev1.SecretList:
		for i := range typed.Items {
			names = append(names, fmt.Sprintf("%s %s with %d keys", kind, typed.Items[i].Name, len(typed.Items[i].Data)))
		}
	case *corev1.ConfigMapList:
		for i := range typed.Items {
			names = append(names, kind+" "+typed.Items[i].Name)
		}
	case *corev1.ServiceList:
		for i := range typed.Items {
			names = append(names, kind+" "+typed.Items[i].Name)
		}
	}
	return names
}

// atMostOneDisrupted fails the test when two nodes that should run do not.
func (w *world) atMostOneDisrupted() {
	var pods corev1.PodList
	if err := w.api.List(w.t.Context(), &pods, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	running := 0
	for i := range pods.Items {
		if _, loaded := w.loaded[pods.Items[i].UID]; loaded && pods.Items[i].DeletionTimestamp == nil {
			running++
		}
	}
	if running < len(w.loaded)-1 {
		w.t.Errorf("%d nodes run of %d that did: two are disrupted at once", running, len(w.loaded))
	}
}
