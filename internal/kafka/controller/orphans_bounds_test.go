package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// littered is an API server with objects under names of nodes that never were, and a count
// of what is read of it one by one.
func littered(count int, object func(name string) client.Object, shown func(client.Object)) (client.Client, *int) {
	var objects []client.Object
	for i := range count {
		objects = append(objects, object(fmt.Sprintf("my-x-%d", i)))
	}
	reads := 0
	get := func(ctx context.Context, api client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
		reads++
		err := api.Get(ctx, key, into, options...)
		if err == nil && shown != nil {
			shown(into)
		}
		return err
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithObjects(objects...).Build(), interceptor.Funcs{Get: get}), &reads
}

func labelledSecret(name string) client.Object {
	return &corev1.Secret{ObjectMeta: named(name, map[string]string{model.ClusterLabel: "my"})}
}

func TestWhatIsKeptOfSecretsOfNodesThatNeverWereIsBoundedWithTheirAnnotations(t *testing.T) {
	t.Parallel()
	live, _ := littered(400, labelledSecret, func(o client.Object) {
		o.SetAnnotations(map[string]string{"junk": strings.Repeat("x", 250<<10)})
	})
	r := New(Options{Client: live, Live: live, Metrics: metrics.New()})
	c := clusterWithSets()
	if err := r.observeSecrets(t.Context(), c.observation); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for name := range c.secrets {
		kept += len(c.secrets[name].Annotations["junk"])
	}
	if kept > maxTraces+maxTrace {
		t.Errorf("%d MiB are kept of %d Secrets, want at most %d MiB", kept>>20, len(c.secrets), maxTraces>>20)
	}
}

func TestHowManySecretsOfNodesThatNeverWereAreReadIsBounded(t *testing.T) {
	t.Parallel()
	const beside = 10 // the Secrets of the CAs, and the operator's own
	for name, c := range map[string]struct {
		shown  func(client.Object)
		atMost int
	}{
		"empty": {nil, model.MaxNodes + beside},
		"larger than any of a node": {func(o client.Object) {
			if s, is := o.(*corev1.Secret); is {
				s.Data = map[string][]byte{"junk": make([]byte, maxTrace+1)}
			}
		}, maxTraces/maxTrace + 1 + beside},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live, reads := littered(3000, labelledSecret, c.shown)
			r := New(Options{Client: live, Live: live, Metrics: metrics.New()})
			p := clusterWithSets()
			if err := r.observeSecrets(t.Context(), p.observation); err != nil {
				t.Fatal(err)
			}
			if *reads > c.atMost {
				t.Errorf("%d reads in one reconcile, want at most %d", *reads, c.atMost)
			}
		})
	}
}

func TestHowManyPodsOfNodesThatNeverWereAreLookedForIsBounded(t *testing.T) {
	t.Parallel()
	ofKafka := []metav1.OwnerReference{{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: "my", UID: "1"}}
	for name, c := range map[string]struct {
		config metav1.ObjectMeta
		atMost int
	}{
		"of names of no nodes":                 {metav1.ObjectMeta{Name: "anything-", OwnerReferences: ofKafka}, 0},
		"that only carry the cluster's label":  {metav1.ObjectMeta{Name: ""}, 0},
		"that somebody has called the Kafka's": {metav1.ObjectMeta{Name: "", OwnerReferences: ofKafka}, model.MaxNodes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live, reads := littered(3000, func(name string) client.Object {
				config := &corev1.ConfigMap{ObjectMeta: named(c.config.Name+name, map[string]string{model.ClusterLabel: "my", model.PoolLabel: "x"})}
				config.OwnerReferences = c.config.OwnerReferences
				return config
			}, nil)
			r := New(Options{Client: live, Live: live, Metrics: metrics.New()})
			p := clusterWithSets()
			if err := r.observeOwned(t.Context(), p.observation); err != nil {
				t.Fatal(err)
			}
			if err := r.observePods(t.Context(), p.observation); err != nil {
				t.Fatal(err)
			}
			if *reads > c.atMost {
				t.Errorf("%d pods are looked for in one reconcile that no node has, want at most %d", *reads, c.atMost)
			}
		})
	}
}

// What the cluster has for certain is found however much somebody puts beside it, and under
// whichever names.
func TestWhatTheClusterHasIsReadBeforeWhatOnlyCarriesItsLabel(t *testing.T) {
	t.Parallel()
	own := corev1.Secret{ObjectMeta: named("my-z-0", map[string]string{model.ClusterLabel: "my"})}
	own.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: "my", UID: "1"}}
	asked := corev1.Secret{ObjectMeta: named("my-y-0", map[string]string{model.ClusterLabel: "my"})}
	for name, c := range map[string]struct {
		object client.Object
		read   bool
	}{
		"the Kafka owns it":                    {&own, true},
		"a pool asks for its node":             {&asked, true},
		"nothing tells it from what is junk":   {&corev1.Secret{ObjectMeta: named("my-xx-0", map[string]string{model.ClusterLabel: "my"})}, false},
		"and before that in order of the name": {&corev1.Secret{ObjectMeta: named("my-a-0", map[string]string{model.ClusterLabel: "my"})}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live, _ := littered(3000, labelledSecret, nil)
			if err := live.Create(t.Context(), c.object); err != nil {
				t.Fatal(err)
			}
			p := clusterWithSets()
			p.pools = []*pool{{KafkaNodePool: kafkav1.KafkaNodePool{ObjectMeta: named("y", nil)}}}
			if err := New(Options{Client: live, Live: live, Metrics: metrics.New()}).observeSecrets(t.Context(), p.observation); err != nil {
				t.Fatal(err)
			}
			if _, read := p.secrets[c.object.GetName()]; read != c.read {
				t.Errorf("it is read: %t, want %t", read, c.read)
			}
		})
	}
}

func TestWhatIsReadOfASecretOfANodeSaysWhoWroteItAndNothingOfOthers(t *testing.T) {
	t.Parallel()
	secret := corev1.Secret{ObjectMeta: named("my-x-0", map[string]string{model.ClusterLabel: "my", "app.kubernetes.io/name": "x"}), Data: map[string][]byte{"my-x-0.crt": {1}}}
	secret.Annotations = map[string]string{"junk": "x", authorities.ClusterCertGenerationAnnotation: "3"}
	secret.ManagedFields = []metav1.ManagedFieldsEntry{writtenBy("junk"), writtenBy(string(fieldOwner))}
	got := trimSecret(secret)
	want := corev1.Secret{ObjectMeta: named("my-x-0", secret.Labels), Data: secret.Data}
	want.Annotations = map[string]string{authorities.ClusterCertGenerationAnnotation: "3"}
	want.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: string(fieldOwner), Operation: secret.ManagedFields[1].Operation}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !kube.Wrote(&got, fieldOwner) {
		t.Error("nobody knows any more who wrote it")
	}
}

// Whoever deletes what the Kafka owns deletes the keys of its nodes.
func TestNobodyIsToldToDeleteASecretOfTheKafkas(t *testing.T) {
	t.Parallel()
	c := clusterWithSets()
	c.secrets = map[string]corev1.Secret{"my-x-2": {}}
	c.unread = []orphanCandidate{{name: "my-x-0", owned: true}, {name: "my-x-1"}, {name: "my-x-2"}}
	c.noteHidden()
	if len(c.notes) != 1 || c.notes[0].Reason != reasonSecretsUnread {
		t.Fatalf("notes are %v, want one that calls nothing foreign", c.notes)
	}
	own, labelled, two := strings.Cut(c.notes[0].Message, ". ")
	if !two || !strings.Contains(own, "belong to this Kafka") || !strings.Contains(own, "my-x-0;") || !strings.Contains(labelled, "my-x-1;") {
		t.Errorf("it says %s", c.notes[0].Message)
	}
	for _, wrong := range []string{"delete", "my-x-2"} {
		if strings.Contains(c.notes[0].Message, wrong) {
			t.Errorf("it says %q in: %s", wrong, c.notes[0].Message)
		}
	}
}

// The list is only read past the cache when Secrets of the CAs are missing: then with the
// annotations of everything that carries the label.
func TestSecretsAreListedPastTheCacheInPages(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"": "second", "second": "third", "third": ""}
	var limits []int64
	live := interceptor.NewClient(fake.NewClientBuilder().WithObjects(labelledSecret("my-x-0"), labelledSecret("my-x-1"), labelledSecret("my-x-2")).Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			asked := (&client.ListOptions{}).ApplyOptions(options)
			limits = append(limits, asked.Limit)
			list, is := into.(*metav1.PartialObjectMetadataList)
			if !is {
				return fmt.Errorf("%T is listed", into)
			}
			list.Continue = pages[asked.Continue]
			list.Items = []metav1.PartialObjectMetadata{{ObjectMeta: labelledSecret(fmt.Sprintf("my-x-%d", len(limits)-1)).(*corev1.Secret).ObjectMeta}}
			return nil
		},
	})
	c := clusterWithSets()
	if err := New(Options{Client: live, Live: live, Metrics: metrics.New()}).observeSecrets(t.Context(), c.observation); err != nil {
		t.Fatal(err)
	}
	if len(c.secrets) != 3 || len(limits) != 3 || slices.Contains(limits, 0) {
		t.Errorf("%d Secrets are read of pages of %v, want one of each of three", len(c.secrets), limits)
	}
}

func TestWhatMayBeANodeIsLookedForAndKeepsItsID(t *testing.T) {
	t.Parallel()
	c := clusterWithSets()
	c.secrets = map[string]corev1.Secret{"my-x-8": {}} // which was read after all, and is no node's
	c.unread = []orphanCandidate{{name: "my-x-7"}, {name: "my-x-8"}, {name: "my-operator-certs", owned: true}}
	if names := c.nodeNames(); !names["my-x-7"] || len(names) != 1 {
		t.Errorf("pods are looked for of %v", names)
	}
	if taken := c.taken()["x"]; !slices.Equal(taken, []model.NodeID{7}) {
		t.Errorf("ids of the pool are %v", taken)
	}
}

// Pods, pod sets and the CA are lost. Nothing but the Secret of a node tells that there was
// a cluster, whose CA must not be made anew before somebody has looked.
func TestASecretOfANodeThatIsTooLargeToBeReadStillDependsOnTheAuthority(t *testing.T) {
	t.Parallel()
	live, _ := littered(1, labelledSecret, func(o client.Object) {
		if s, is := o.(*corev1.Secret); is && s.Name == "my-x-0" {
			s.Data = map[string][]byte{agent.PublicationKey: []byte("{}"), "my-x-0.crt": {1}, "external-9094.crt": make([]byte, maxTrace)}
		}
	})
	r := New(Options{Client: live, Live: live, Metrics: metrics.New()})
	c := clusterWithSets()
	if err := r.observeSecrets(t.Context(), c.observation); err != nil {
		t.Fatal(err)
	}
	evidence := c.dependants(authorities.Cluster)
	if len(evidence.Dependants) != 1 || len(evidence.Unread) != 1 {
		t.Errorf("on the cluster CA depend %v, of which are unread %v, want the node's Secret: a new CA would be made in place of the lost one",
			evidence.Dependants, evidence.Unread)
	}
}
