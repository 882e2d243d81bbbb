package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// Anybody who may create pods may label as many as he likes, with annotations of any size,
// and call one of them a node's of a set that does not name it.
func TestHowMuchIsReadOfPodsPastTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	const strange = 300
	ofSet := honestPod()
	ofSet.Name, ofSet.UID, ofSet.ResourceVersion = "my-dual-7", "7", ""
	cached, live := []client.Object{ofSet.DeepCopy()}, []client.Object{ofSet.DeepCopy()}
	for i := range strange {
		junk := &corev1.Pod{ObjectMeta: named(fmt.Sprintf("junk-%d", i), map[string]string{model.ClusterLabel: "my"})}
		cached = append(cached, junk.DeepCopy())
		junk.Annotations = map[string]string{"junk": strings.Repeat("x", 200<<10)}
		live = append(live, junk)
	}
	most := 0
	api := interceptor.NewClient(fake.NewClientBuilder().WithObjects(live...).Build(), interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := api.List(ctx, list, options...)
			if pods, is := list.(*corev1.PodList); is {
				asked := (&client.ListOptions{}).ApplyOptions(options)
				bytes := 0
				for i := range pods.Items {
					if asked.Limit == 0 || int64(i) < asked.Limit {
						bytes += pods.Items[i].Size()
					}
				}
				most = max(most, bytes)
			}
			return err
		},
	})
	r := New(Options{Client: fake.NewClientBuilder().WithObjects(cached...).Build(), Live: api, Metrics: metrics.New()})
	c := clusterWithSets()
	set := setOf("x")
	set.UID = "set"
	c.podSets["my-dual"] = *set

	if err := r.observePods(t.Context(), c.observation); err != nil {
		t.Fatal(err)
	}

	kept := 0
	for _, pod := range c.others {
		kept += pod.Size()
	}
	if most > 0 || kept > 1<<20 {
		t.Errorf("one answer holds %d MiB of pods, and %d MiB of them are kept for the reconcile", most>>20, kept>>20)
	}

	if err := r.readPods(t.Context(), c.observation, r.livePods); err != nil {
		t.Fatal(err)
	}

	kept = 0
	for _, pod := range c.others {
		kept += pod.Size()
	}
	if len(c.others) != strange || most > 8<<20 || kept > 1<<20 {
		t.Errorf("one answer holds %d MiB of pods, and %d MiB of %d are kept for the reconcile", most>>20, kept>>20, len(c.others))
	}
}

// The set is read past the cache, in which its old pod may still be shown.
func TestAPodThatOnlyTheCacheStillShowsIsNoNode(t *testing.T) {
	t.Parallel()
	gone, followed, stays := honestPod(), honestPod(), honestPod()
	for i, pod := range []*corev1.Pod{gone, followed, stays} {
		pod.Name, pod.UID, pod.ResourceVersion = fmt.Sprintf("my-dual-%d", 7+i), types.UID(fmt.Sprint(i)), ""
	}
	newer := followed.DeepCopy()
	newer.UID = "newer"
	live := fake.NewClientBuilder().WithObjects(newer, stays.DeepCopy()).Build()
	r := New(Options{Client: fake.NewClientBuilder().WithObjects(gone, followed, stays).Build(), Live: live, Metrics: metrics.New()})
	c := clusterWithSets()
	set := setOf("x")
	set.UID = "set"
	c.podSets["my-dual"] = *set

	if err := r.observePods(t.Context(), c.observation); err != nil {
		t.Fatal(err)
	}

	if got := slices.Sorted(maps.Keys(c.pods)); !slices.Equal(got, []string{"my-dual-8", "my-dual-9"}) {
		t.Errorf("pods of nodes are %v, want those that run", got)
	}
}
