package apitest

import (
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/pki"
)

// Two operators that both believe to lead, one of which sees an old picture; and
// operators whose clock is wrong.

// laggingClient reads what it has read before until it is refreshed.
type laggingClient struct {
	client.Client

	lists   map[string]client.ObjectList
	objects map[string]client.Object
}

func newLaggingClient(up client.Client) *laggingClient {
	c := &laggingClient{Client: up}
	c.refresh()
	return c
}

func (c *laggingClient) refresh() {
	c.lists, c.objects = map[string]client.ObjectList{}, map[string]client.Object{}
}

// Get reads an object once.
func (c *laggingClient) Get(ctx context.Context, name client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	key := fmt.Sprintf("%T %s %s", into, into.GetObjectKind().GroupVersionKind(), name)
	if known, found := c.objects[key]; found {
		overwrite(into, known.DeepCopyObject())
		return nil
	}
	if err := c.Client.Get(ctx, name, into, opts...); err != nil {
		return err
	}
	copied, _ := into.DeepCopyObject().(client.Object)
	c.objects[key] = copied
	return nil
}

// List reads a list once.
func (c *laggingClient) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	key := fmt.Sprintf("%T %s", into, into.GetObjectKind().GroupVersionKind())
	if known, found := c.lists[key]; found {
		overwrite(into, known.DeepCopyObject())
		return nil
	}
	if err := c.Client.List(ctx, into, opts...); err != nil {
		return err
	}
	copied, _ := into.DeepCopyObject().(client.ObjectList)
	c.lists[key] = copied
	return nil
}

// refreshAllBut forgets what was read of all kinds but these.
func (c *laggingClient) refreshAllBut(kinds ...string) {
	kept := func(key string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(key+" ", "Kind="+kind+" ") })
	}
	maps.DeleteFunc(c.lists, func(key string, _ client.ObjectList) bool { return !kept(key) })
	maps.DeleteFunc(c.objects, func(key string, _ client.Object) bool { return !kept(key) })
}

func overwrite(into, known any) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(known).Elem())
}

func TestTwoOperatorsNeverDisruptTwoPods(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"rolling": func(w *world) { w.configure("log.retention.hours", "12") },
		"scaling down while rolling": func(w *world) {
			w.scale("extra", 0)
			w.configure("log.retention.hours", "12")
		},
		"rolling while the CA is replaced": func(w *world) {
			w.replace(authorities.Cluster)
			w.configure("log.retention.hours", "12")
		},
	} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s %d", name, seed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.extraBrokers(claims(true))
				lagging := newLaggingClient(w.faulty)
				other := w.newReconciler(lagging)
				w.reconcile(other)

				change(w)
				w.interleave(rand.New(rand.NewPCG(seed, 1)), other, lagging)
				w.settle()

				if !has(w.getKafka(), condition.Ready) {
					t.Errorf("conditions are %+v, want Ready", w.getKafka().Status.Conditions)
				}
				w.wantOncePerReason("my-dual-0", "my-dual-1", "my-dual-2", "my-extra-3", "my-extra-4")
			})
		}
	}
}

// wantOncePerReason checks that each of the pods was restarted or taken away, and
// none of them twice for the same reason.
func (w *world) wantOncePerReason(pods ...string) {
	w.t.Helper()
	for _, pod := range pods {
		times, deletions := map[string]int{}, 0
		for _, note := range w.events.notes {
			if rolled, why, is := strings.Cut(note, " due to "); is && strings.HasSuffix(rolled, "Rolling Pod "+pod) {
				code, _, _ := strings.Cut(why, ":")
				times[code]++
			}
			if strings.HasSuffix(note, "with pod "+pod) {
				times["Removed"]++
			}
		}
		for _, deleted := range w.faulty.podsDeleted {
			if deleted == pod {
				deletions++
			}
		}
		for reason, n := range times {
			if n > 1 {
				w.t.Errorf("%s was restarted %d times for %s", pod, n, reason)
			}
		}
		if deletions == 0 || deletions > len(times) {
			w.t.Errorf("%s was deleted %d times, for %v", pod, deletions, times)
		}
	}
}

func TestALeaderWithAnOldPictureTurnsNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.extraBrokers(claims(true))
	lagging := newLaggingClient(w.faulty)
	other := w.newReconciler(lagging)
	w.reconcile(other)
	w.configure("log.retention.hours", "12")
	w.settle()

	for range 5 {
		lagging.refreshAllBut("Kafka", "KafkaNodePoolList", "KafkaNodePool")
		w.reconcile(other)
		w.run(1)
	}
	w.settle()

	w.wantOncePerReason("my-dual-0", "my-dual-1", "my-dual-2", "my-extra-3", "my-extra-4")
}

// What a leader has decided may be done by another one before it acts.
func TestAPodThatHasJustBeenRestartedIsNotRestartedForTheSame(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"trust, loaded by restarts": func(w *world) { w.replace(authorities.Cluster) },
		"configuration":             func(w *world) { w.configure("log.retention.hours", "12") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := turning(t, 3)
			w.annotate(&kafkav1.Kafka{}, clusterName, map[string]any{"keyturn.dev/reload": "false"})
			w.settle()
			const times = 12
			reads := w.overtake(w.newReconciler(w.faulty), times)

			change(w)
			w.settle()

			for pod := range w.podUIDs() {
				w.wantNewReasons(pod)
			}
			if reads.times == times {
				t.Error("nobody was overtaken")
			}
		})
	}
}

// wantNewReasons checks that a pod was restarted, and each time for something that
// it was not restarted for before. How it is told to load is no reason by itself.
func (w *world) wantNewReasons(pod string) {
	w.t.Helper()
	seen, restarts := map[string]bool{}, 0
	restarting, isNew := false, false
	for _, note := range append(slices.Clone(w.events.notes), "") {
		_, why, rolled := strings.Cut(note, "Rolling Pod "+pod+" due to ")
		if restarting && !rolled && !isNew {
			w.t.Errorf("%s was restarted for the same again, after\n%s", pod, strings.Join(w.events.notes, "\n"))
		}
		if rolled && !restarting {
			restarts, isNew = restarts+1, false
		}
		if rolled && !seen[why] && !strings.Contains(why, "keyturn.dev/reload") {
			seen[why], isNew = true, true
		}
		restarting = rolled
	}
	deletions := 0
	for _, deleted := range w.faulty.podsDeleted {
		if deleted == pod {
			deletions++
		}
	}
	if restarts == 0 || deletions != restarts {
		w.t.Errorf("%s was deleted %d times, in %d restarts, after\n%s", pod, deletions, restarts, strings.Join(w.events.notes, "\n"))
	}
}

// overtaken is what an operator reads while another one is faster. A pass begins with
// the pools. It asks what disruption is recorded before it decides, and again when
// it is about to act: then the other one gets on first.
type overtaken struct {
	client.Client

	asked, times int
	getsOn       func()
}

// List notes that a pass begins.
func (o *overtaken) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if _, begins := into.(*unstructured.UnstructuredList); begins {
		o.asked = 0
	}
	return o.Client.List(ctx, into, opts...)
}

// Get lets the other operator get on, so many times.
func (o *overtaken) Get(ctx context.Context, name client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if name.Name == "my-disruption" {
		o.asked++
		if o.asked == 2 && o.times > 0 {
			o.times--
			o.getsOn()
		}
	}
	return o.Client.Get(ctx, name, into, opts...)
}

// overtake lets another operator, the kubelet and the pods get on whenever the
// operator is about to act.
func (w *world) overtake(other *controller.Reconciler, times int) *overtaken {
	rounds := 0
	reads := &overtaken{Client: w.faulty, times: times, getsOn: func() {
		rounds = rounds%3 + 1 // it is met at every stage of a restart
		for range rounds {
			w.reconcile(other)
			if err := w.keepPods(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
			w.runKubelet(w.t.Context())
			w.clock.SetTime(w.clock.Now().Add(time.Second))
		}
	}}
	w.reconciler = w.newReconcilerBeside(w.faulty, reads)
	return reads
}

// interleave lets both operators, pod set controller and kubelet work in an order
// of chance; the lagging one sees news now and then.
func (w *world) interleave(chance *rand.Rand, other *controller.Reconciler, lagging *laggingClient) {
	w.t.Helper()
	for range 120 {
		switch chance.IntN(6) {
		case 0, 1:
			w.reconcile(w.reconciler)
		case 2:
			w.reconcile(other)
		case 3:
			if err := w.keepPods(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		case 4:
			w.runKubelet(w.t.Context())
			w.act()
			w.clock.SetTime(w.clock.Now().Add(time.Second))
		default:
			if chance.IntN(3) == 0 {
				lagging.refresh()
			}
		}
	}
}

// reconcile has an operator do what it does until nothing more is reported to it.
func (w *world) reconcile(operator *controller.Reconciler) {
	w.t.Helper()
	w.reconcileWhile(operator, func() bool { return true })
}

// reconcileWhile ends before that once something no longer holds.
func (w *world) reconcileWhile(operator *controller.Reconciler, holds func() bool) {
	w.t.Helper()
	for news := true; news && holds(); news = len(operator.PollOnce(w.t.Context())) > 0 {
		if _, err := operator.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key(clusterName)}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestAWrongClockBreaksNothing(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ahead = ahead
			w.dualRole(3)
			w.settle()
			w.wantValid()

			w.renew(authorities.Cluster)
			w.settle()

			w.wantValid()
			w.wantLoaded(w.caCertificate(authorities.Cluster))
		})
	}
}

func TestAClockThatIsSetRightBreaksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ahead = 10 * time.Minute
	w.dualRole(3)
	w.settle()
	writes := w.faulty.Written

	w.ahead = 0
	w.settle()

	if w.faulty.Written != writes {
		t.Errorf("%d writes, want none", w.faulty.Written-writes)
	}
	w.wantValid()
}

func TestAnOperatorWhoseClockIsWrongTouchesNothingUntilItIsRight(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"a day ahead": 24 * time.Hour, "a day behind": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			writes := w.faulty.Written

			w.ahead = ahead
			w.delete(&corev1.Secret{}, "my-dual-0")
			w.renew(authorities.Cluster)
			w.run(10)
			if got := w.faulty.Written - writes; got != 1 {
				t.Errorf("%d writes, want that of the status", got)
			}
			i := slices.IndexFunc(w.getKafka().Status.Conditions, func(c condition.Condition) bool { return c.Reason == "ClockDiffers" })
			if i < 0 {
				t.Fatalf("conditions are %+v, want ClockDiffers", w.getKafka().Status.Conditions)
			}
			said := w.getKafka().Status.Conditions[i]
			if since, err := time.Parse(time.RFC3339, said.LastTransitionTime); err != nil || since.After(w.clock.Now()) || w.clock.Now().Sub(since) > time.Minute {
				t.Errorf("it is said to be so since %s, now is %s", said.LastTransitionTime, w.clock.Now())
			}
			if !strings.Contains(said.Message, "more than 15m0s "+strings.Fields(name)[2]) {
				t.Errorf("it says %q", said.Message)
			}

			w.ahead = 0
			w.settle()
			w.wantValid()
			w.wantLoaded(w.caCertificate(authorities.Cluster))
			w.wantRestarts(0)
			if slices.ContainsFunc(w.getKafka().Status.Conditions, func(c condition.Condition) bool { return c.Reason == "ClockDiffers" }) {
				t.Error("ClockDiffers has not gone")
			}
		})
	}
}

// The clock of the machine of one node is an hour behind when its certificate is issued:
// by that clock it is not valid yet.
func TestANodeWhoseClockIsBehindIsNotRestartedForWhatIsNotValidYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	pod := slices.Sorted(maps.Keys(w.ran))[0]
	w.behind[pod] = time.Hour

	w.delete(&corev1.Secret{}, pod)
	for range 60 {
		w.run(1)
		w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
	}
	issued := w.certs.in(w.secret(pod).Data[pod+".crt"])[0]
	if w.presentsLeaf(pod, issued) {
		t.Error("it presents the new leaf")
	}

	delete(w.behind, pod)
	w.settle()
	w.wantRestarts(0)
	if !w.presentsLeaf(pod, issued) {
		t.Error("it does not present the new leaf")
	}
}

// presentsLeaf reports whether all listeners of a node present a leaf.
func (w *world) presentsLeaf(pod string, leaf *x509.Certificate) bool {
	s, runs := w.serverOf(pod)
	if !runs {
		return false
	}
	for _, has := range s.loaded {
		if !has.chain[0].Equal(leaf) {
			return false
		}
	}
	return true
}

// wantValid checks that the cluster is ready and that its nodes, whose clocks are
// right, accept each other now.
func (w *world) wantValid() {
	w.t.Helper()
	if !has(w.getKafka(), condition.Ready) {
		w.t.Errorf("conditions are %+v, want Ready", w.getKafka().Status.Conditions)
	}
	w.wantVerified()
}

// wantVerified expects every node to have a certificate that the cluster CA verifies.
func (w *world) wantVerified() {
	w.t.Helper()
	ca := w.caCertificate(authorities.Cluster)
	for pod := range w.podUIDs() {
		chain, err := pki.ParseBundle(w.secret(pod).Data[pod+".crt"])
		if err != nil {
			w.t.Fatal(err)
		}
		if err := pki.Verify(chain, bundle(ca), w.clock.Now(), pki.BothUsages()...); err != nil {
			w.t.Errorf("pod %s is refused: %v", pod, err)
		}
	}
}
