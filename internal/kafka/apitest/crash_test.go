package apitest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// The operator crashes after each of its writes, or once after its nth one, for every
// n; another one that remembers nothing goes on from what is stored. However that is,
// the cluster comes to the same end, and no write ever leaves two nodes disrupted.

// crashScenario is a change that an operator carries out.
type crashScenario struct {
	// world is where the change begins: a new one each time, or the same one for
	// a change that can be asked for again and again.
	world func(t *testing.T) func() *world
	// change is what a person asks for, for the nth time. Odd and even times may
	// ask for different things.
	change func(w *world, n int)
	// afterwards, if not nil, rids the end of what depends on how far the change had
	// come when something else happened.
	afterwards func(w *world)
}

// inNewWorlds prepares another world for each run.
func inNewWorlds(prepare func(w *world)) func(t *testing.T) func() *world {
	return func(t *testing.T) func() *world {
		t.Helper()
		return func() *world {
			w := newWorld(t)
			prepare(w)
			return w
		}
	}
}

// inOneWorld prepares a world for all runs.
func inOneWorld(prepare func(w *world)) func(t *testing.T) func() *world {
	return func(t *testing.T) func() *world {
		t.Helper()
		w := newWorld(t)
		prepare(w)
		return func() *world { return w }
	}
}

func runningCluster(w *world) {
	w.dualRole(3)
	w.settle()
}

func TestWhateverWriteTheOperatorCrashesAfterTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	for name, scenario := range map[string]crashScenario{
		"creating a cluster": {
			world:  inNewWorlds(func(*world) {}),
			change: func(w *world, _ int) { w.dualRole(3) },
		},
		"creating controllers and brokers of their own": {
			world: inNewWorlds(func(*world) {}),
			change: func(w *world, _ int) {
				w.create(kafkaResource(w.namespace), poolResource(w.namespace, "ctrl", 1, kafkav1.RoleController),
					poolResource(w.namespace, "more", 2, kafkav1.RoleController), poolResource(w.namespace, "brk", 3, kafkav1.RoleBroker))
			},
		},
		"creating a cluster with certificates of an issuer": {
			world: inNewWorlds(func(w *world) {
				ca := caNamed(w.t, issuersOne, longLasting)
				w.hasIssuer(ca)
				w.bringsBundle(ca.Certificate())
			}),
			change: func(w *world, _ int) { w.asksOutside(2) },
		},
		"creating a cluster where a certificate was left": {
			world: inNewWorlds(func(w *world) {
				w.createCA(authorities.Cluster, newCA(w.t), "1")
				w.delete(&corev1.Secret{}, "my-cluster-ca")
			}),
			change: func(w *world, _ int) { w.dualRole(1) },
		},
		"scaling up and down": {
			world: inOneWorld(func(w *world) {
				w.dualRole(3)
				w.create(poolResource(w.namespace, "extra", 1, kafkav1.RoleBroker), poolResource(w.namespace, "more", 0, kafkav1.RoleBroker))
				w.settle()
			}),
			change: func(w *world, n int) {
				w.scale("extra", n%2)
				w.scale("more", 1-n%2)
			},
		},
		"rolling all nodes": {
			world:  inOneWorld(runningCluster),
			change: func(w *world, n int) { w.configure("log.retention.hours", strconv.Itoa(12+n)) },
		},
		"changing the version": {
			world:  inNewWorlds(func(w *world) { w.olderVersion() }),
			change: func(w *world, _ int) { w.patchKafka(map[string]any{"version": "4.3.1"}) },
		},
		"losing the certificate of the cluster CA": {
			world:  inOneWorld(runningCluster),
			change: func(w *world, _ int) { w.delete(&corev1.Secret{}, "my-cluster-ca-cert") },
		},
		"replacing the certificate of a listener": {
			world:  inOneWorld(func(w *world) { w.customListener("custom") }),
			change: func(w *world, _ int) { w.replaceCertificate("custom", w.issue(listenerLeaf{})) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAfterEveryWrite(t, scenario)
		})
	}
}

// crashAfterEveryWrite carries a change out undisturbed, with an operator that gets no
// further than one write, and with one that crashes once, after its nth write: for
// every n that is played.
func crashAfterEveryWrite(t *testing.T, scenario crashScenario) {
	t.Helper()
	t.Logf("one in %d of all writes is chosen by -seed=%d", sampled, chosen())
	next, times := scenario.world(t), 0
	finish := func(how string, settle func(w *world)) []string {
		t.Helper()
		times++
		return next().finish(scenario, times-1, how, settle)
	}
	// They say how the odd and the even times have to end.
	ends := [2][]string{finish("undisturbed", (*world).settle), finish("undisturbed", (*world).settle)}
	play := func(how string, settle func(w *world)) {
		t.Helper()
		want := ends[times%2]
		if diff := cmp.Diff(want, finish(how, settle)); diff != "" {
			t.Fatalf("%s the cluster ends otherwise (-want +got):\n%s", how, diff)
		}
	}

	play("after a crash at each write", (*world).settleWithCrashes)
	played, crashed := 0, true
	for n := 1; crashed; n++ {
		if !isPlayed(fmt.Sprintf("%s %d", t.Name(), n)) {
			continue
		}
		play(fmt.Sprintf("after a crash at write %d", n), func(w *world) { crashed = w.settleWithCrashAt(n) })
		played++
	}
	t.Logf("crashed once after each of %d writes", played-1)
}

// finish carries out a change for the nth time and returns how it ends.
func (w *world) finish(scenario crashScenario, n int, how string, settle func(w *world)) []string {
	w.t.Helper()
	scenario.change(w, n)
	settle(w)
	if scenario.afterwards != nil {
		scenario.afterwards(w)
	}
	if kafka := w.getKafka(); !has(kafka, condition.Ready) {
		w.t.Fatalf("%s the cluster ends as %+v", how, kafka.Status.Conditions)
	}
	return append(w.inventory(), w.standing()...)
}

// settleWithCrashAt settles with an operator that crashes when it is about to write for
// the nth time, and reports whether it came so far.
func (w *world) settleWithCrashAt(n int) bool {
	w.t.Helper()
	w.faulty.CrashAt = w.faulty.Sent + n
	err := w.trySettle(w.t.Context())
	w.faulty.CrashAt = 0
	crashed := errors.Is(err, kubetest.ErrCrash)
	if err != nil && !crashed {
		w.t.Fatalf("before the crash at write %d: %v", n, err)
	}
	w.startOperator()
	w.settle()
	return crashed
}

// maxCrashes is far more than any change has writes.
const maxCrashes = 1000

// settleWithCrashes settles with operators each of which crashes after the first write
// that changes something. Everybody else goes on all the while.
func (w *world) settleWithCrashes() {
	w.t.Helper()
	w.faulty.frail = true
	defer func() { w.faulty.frail = false }()
	for crashes := range maxCrashes {
		err := w.trySettle(w.t.Context())
		if err == nil && crashes > 0 {
			w.t.Logf("crashed after each of %d writes", crashes)
			return
		}
		if !errors.Is(err, kubetest.ErrCrash) {
			w.t.Fatalf("after %d crashes, one at each write: %v", crashes, err)
		}
		w.startOperator()
		w.goOn(w.t.Context())
	}
	w.t.Fatalf("%d operators come to no end: %s, after\n%s", maxCrashes, w.status(w.t.Context()), w.told())
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
			names = append(names, kind+" "+lasting(&typed.Items[i])+" "+typed.Items[i].Annotations[model.KafkaVersionAnnotation])
		}
	case *corev1.SecretList:
		for i := range typed.Items {
			names = append(names, fmt.Sprintf("%s %s with %d keys", kind, typed.Items[i].Name, undated(typed.Items[i].Data)))
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

// lasting is the name of a pod without what a Deployment adds to it.
func lasting(pod *corev1.Pod) string {
	if pod.Labels[model.PodLabel] == "" {
		return "of " + pod.Labels[model.NameLabel]
	}
	return pod.Name
}

// undated counts the entries that are not kept from earlier.
func undated(data map[string][]byte) int {
	n := 0
	for key := range data {
		if !strings.HasPrefix(key, "ca-2") {
			n++
		}
	}
	return n
}
