package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Named watches single objects of one kind, each by its name and only while referrers refer to it. It
// tells them when something has happened to the object. Of an object it keeps only the seen version, and
// of others nothing, so that a watch costs the same however many objects there are.
type Named struct {
	resource schema.GroupVersionResource

	mu sync.Mutex
	// names are what each referrer refers to, and referrers who refers to each object.
	names     map[types.NamespacedName][]types.NamespacedName
	referrers map[types.NamespacedName]map[types.NamespacedName]bool
	// changed holds something while Run has not seen the last change of referrers.
	changed chan struct{}
}

// NewNamed returns a Named for the objects of a resource. Nothing is watched before Run.
func NewNamed(resource schema.GroupVersionResource) *Named {
	return &Named{
		resource:  resource,
		names:     map[types.NamespacedName][]types.NamespacedName{},
		referrers: map[types.NamespacedName]map[types.NamespacedName]bool{},
		changed:   make(chan struct{}, 1),
	}
}

// Refer replaces what the referrer refers to: objects in its own namespace, none when it
// is gone. A referrer that reads an object after this is told of every later change: the
// first look at an object counts as one.
func (n *Named) Refer(referrer types.NamespacedName, names []string) {
	objects := make([]types.NamespacedName, 0, len(names))
	for _, name := range names {
		objects = append(objects, types.NamespacedName{Namespace: referrer.Namespace, Name: name})
	}
	n.ReferTo(referrer, objects)
}

// ReferTo is Refer for objects of any namespace.
func (n *Named) ReferTo(referrer types.NamespacedName, objects []types.NamespacedName) {
	objects = slices.Compact(slices.SortedFunc(slices.Values(objects), func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	}))
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Equal(n.names[referrer], objects) {
		return
	}
	for _, object := range n.names[referrer] {
		delete(n.referrers[object], referrer)
		if len(n.referrers[object]) == 0 {
			delete(n.referrers, object)
		}
	}
	delete(n.names, referrer)
	for _, object := range objects {
		if n.referrers[object] == nil {
			n.referrers[object] = map[types.NamespacedName]bool{}
		}
		n.referrers[object][referrer] = true
	}
	if len(objects) > 0 {
		n.names[referrer] = objects
	}
	select {
	case n.changed <- struct{}{}:
	default: // Run has not seen the one before, either
	}
}

// Len is how many referrers and objects are remembered.
func (n *Named) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.names) + len(n.referrers)
}

// Run watches until the context ends. tell must not block.
func (n *Named) Run(ctx context.Context, client metadata.Interface, tell func(referrer types.NamespacedName)) {
	ends := map[types.NamespacedName]context.CancelFunc{}
	for {
		wanted := n.objects()
		for object, end := range ends {
			if !wanted[object] {
				end()
				delete(ends, object)
			}
		}
		for object := range wanted {
			if ends[object] == nil {
				ends[object] = n.watch(ctx, client, object, tell)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-n.changed:
		}
	}
}

// Source has referrers reconciled, by a controller of the manager, when something has happened to what they refer to. It calls the
// functions with each of them before, which must not block.
func (n *Named) Source(mgr manager.Manager, before ...func(referrer types.NamespacedName)) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		server, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
		if err != nil {
			return fmt.Errorf("preparing to watch %s by their names: %w", n.resource.Resource, err)
		}
		go n.Run(ctx, server, func(referrer types.NamespacedName) {
			for _, call := range before {
				call(referrer)
			}
			queue.Add(reconcile.Request{NamespacedName: referrer})
		})
		return nil
	})
}

// objects are all that a referrer refers to.
func (n *Named) objects() map[types.NamespacedName]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	objects := make(map[types.NamespacedName]bool, len(n.referrers))
	for object := range n.referrers {
		objects[object] = true
	}
	return objects
}

func (n *Named) referrersOf(object types.NamespacedName) []types.NamespacedName {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.referrers[object]))
}

// watch begins to watch one object, and returns how to end that.
func (n *Named) watch(ctx context.Context, client metadata.Interface, object types.NamespacedName,
	tell func(referrer types.NamespacedName),
) context.CancelFunc {
	ctx, end := context.WithCancel(ctx)
	seen := &sighting{tell: func() {
		for _, referrer := range n.referrersOf(object) {
			tell(referrer)
		}
	}}
	reflector := cache.NewReflectorWithOptions(n.source(client, object), &metav1.PartialObjectMetadata{}, seen,
		cache.ReflectorOptions{Name: n.resource.Resource + " " + object.String()})
	go reflector.RunWithContext(ctx)
	return end
}

// source lists and watches the metadata of one object. The API server finds who watches
// an object of these kinds by its name, as every kubelet does.
func (n *Named) source(client metadata.Interface, object types.NamespacedName) cache.ListerWatcher {
	resource := client.Resource(n.resource).Namespace(object.Namespace)
	byName := func(options metav1.ListOptions) metav1.ListOptions {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, object.Name).String()
		return options
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, byName(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, byName(options))
		},
	}, client)
}

// sighting is what is known of a watched object: the version of it that was seen last.
type sighting struct {
	tell func()
	// version is empty where there is no object; looked tells that from never having looked.
	version string
	looked  bool
}

// Add notes a version of the object.
func (s *sighting) Add(object any) error {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	s.saw(string(accessor.GetUID()) + "/" + accessor.GetResourceVersion())
	return nil
}

// Update notes a version of the object.
func (s *sighting) Update(object any) error { return s.Add(object) }

// Delete notes that the object is gone.
func (s *sighting) Delete(any) error {
	s.saw("")
	return nil
}

// Replace notes what a list has shown.
func (s *sighting) Replace(objects []any, _ string) error {
	if len(objects) == 0 {
		s.saw("")
		return nil
	}
	return s.Add(objects[0])
}

// Resync does nothing: nothing is kept that could have got lost.
func (s *sighting) Resync() error { return nil }

// saw tells of a version that is not the one seen last.
func (s *sighting) saw(version string) {
	if s.looked && s.version == version {
		return
	}
	s.version, s.looked = version, true
	s.tell()
}
