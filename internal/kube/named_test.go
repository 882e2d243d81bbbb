package kube_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/keyturn/keyturn/internal/kube"
)

// watched is a Named that runs against an API server which shows of the Secrets of a
// namespace those that it is asked for by name, and who was told.
type watched struct {
	*kube.Named

	t      *testing.T
	server *metadatafake.FakeMetadataClient

	mu      sync.Mutex
	told    []string
	watches []*byName
}

// byName is one open watch.
type byName struct {
	*watch.FakeWatcher

	namespace, name string
}

func secrets() schema.GroupVersionResource { return corev1.SchemeGroupVersion.WithResource("secrets") }

func newWatched(t *testing.T, there ...string) *watched {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &watched{Named: kube.NewNamed(secrets()), t: t, server: metadatafake.NewSimpleMetadataClient(scheme)}
	w.server.PrependReactor("list", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := &metav1.List{}
		asked, _ := action.(clienttesting.ListAction)
		if name := nameIn(asked.GetListRestrictions().Fields); slices.Contains(there, name) {
			list.Items = append(list.Items, runtime.RawExtension{Object: versionOf(name, "1")})
		}
		return true, list, nil
	})
	w.server.PrependWatchReactor("secrets", func(action clienttesting.Action) (bool, watch.Interface, error) {
		asked, _ := action.(clienttesting.WatchAction)
		opened := &byName{watch.NewFake(), action.GetNamespace(), nameIn(asked.GetWatchRestrictions().Fields)}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watches = append(w.watches, opened)
		return true, opened, nil
	})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		synctest.Wait()
	})
	go w.Run(ctx, w.server, func(referrer types.NamespacedName) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, referrer.Name)
	})
	return w
}

func nameIn(selector fields.Selector) string {
	name, _ := selector.RequiresExactMatch(metav1.ObjectNameField)
	return name
}

func versionOf(name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid of " + name), ResourceVersion: version,
	}}
}

func (w *watched) refer(kafka string, names ...string) {
	w.Refer(types.NamespacedName{Namespace: "ns", Name: kafka}, names)
}

// heard are those who were told since it was asked last, sorted.
func (w *watched) heard() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	told := slices.Sorted(slices.Values(w.told))
	w.told = nil
	return told
}

// open are the names that are watched now.
func (w *watched) open() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, opened := range w.watches {
		if !opened.IsStopped() {
			names = append(names, opened.namespace+"/"+opened.name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// happens lets the API server tell who watches an object.
func (w *watched) happens(event watch.EventType, name, version string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, opened := range w.watches {
		if opened.name == name && !opened.IsStopped() {
			opened.Action(event, versionOf(name, version))
		}
	}
}

func (w *watched) want(what string, got []string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s: -want +got\n%s", what, diff)
	}
}

func TestWhoRefersToAnObjectIsToldOfEachOfItsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t, "key")
		w.refer("a", "key")
		w.refer("b", "key", "other")
		w.want("at the first look at both", slices.Compact(w.heard()), "a", "b")

		w.happens(watch.Modified, "key", "2")
		w.want("after a change", w.heard(), "a", "b")
		w.happens(watch.Modified, "key", "2")
		w.want("after the same version once more", w.heard())
		w.happens(watch.Deleted, "key", "3")
		w.want("after it was deleted", w.heard(), "a", "b")
		w.happens(watch.Added, "other", "4")
		w.want("after one that was missing was made", w.heard(), "b")
	})
}

func TestOnlyWhatSomebodyRefersToIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		w.want("at first", w.open())
		w.refer("a", "key", "key", "old")
		w.refer("b", "key")
		w.want("with two referrers", w.open(), "ns/key", "ns/old")
		w.refer("a", "key", "new")
		w.want("after a reference was changed", w.open(), "ns/key", "ns/new")
		w.refer("a")
		w.want("after one referrer is gone", w.open(), "ns/key")
		w.refer("b")
		w.want("after both are gone", w.open())
		if left := w.Len(); left != 0 {
			t.Errorf("%d things are remembered of those who are gone", left)
		}
	})
}

func TestObjectsOfOtherNamespacesAreWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		referrer := types.NamespacedName{Namespace: "ns", Name: "a"}
		w.ReferTo(referrer, []types.NamespacedName{{Namespace: "other", Name: "key"}, {Namespace: "ns", Name: "key"}})
		w.want("in both namespaces", w.open(), "ns/key", "other/key")
		w.want("at the first look at both", slices.Compact(w.heard()), "a")
		w.ReferTo(referrer, nil)
		w.want("after the referrer is gone", w.open())
	})
}
