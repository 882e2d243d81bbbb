package certmanager

import (
	"context"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// WatchOptions are what a Watch needs.
type WatchOptions struct {
	Live

	// Metadata watches the definition of Certificates. Who may not read definitions has none: Certificates are then
	// watched from the first owner that refers to them, and asked for again until there is a definition.
	Metadata metadata.Interface
	// Namespaces are those whose Certificates are watched; all when there are none.
	Namespaces []string
	// Selector leaves out Certificates of others.
	Selector labels.Selector
	// OwnersOf maps a Certificate to what has to be reconciled when it changes.
	OwnersOf handler.MapFunc
}

// Watch is a source of a controller: it watches Certificates for as long as their CustomResourceDefinition exists,
// whether that is before or after the operator starts. It is also the cache from which Certificates are read.
type Watch struct {
	options WatchOptions

	mu sync.Mutex
	// informers are those of the namespaces, nil while there is no definition.
	informers map[string]cache.SharedIndexInformer
	// waiting are told when Certificates can be written, and when they no longer can.
	waiting map[types.NamespacedName]bool
	// demand is called with each owner that refers.
	demand func()
}

var (
	_ CertificateReader = &Watch{}
	_ source.Source     = &Watch{}
)

// NewWatch returns a Watch. Nothing is watched before Start.
func NewWatch(options WatchOptions) *Watch {
	if len(options.Namespaces) == 0 {
		options.Namespaces = []string{metav1.NamespaceAll}
	}
	return &Watch{options: options, waiting: map[types.NamespacedName]bool{}, demand: func() {}}
}

// Refer notes that an owner needs Certificates: it is reconciled when cert-manager is installed and when it is removed.
// It must be called before the first request of an owner, and costs nothing when it is called again.
func (w *Watch) Refer(owner types.NamespacedName) {
	w.mu.Lock()
	w.waiting[owner] = true
	demand := w.demand
	w.mu.Unlock()
	demand()
}

// Forget drops an owner that is gone or needs no Certificates any more.
func (w *Watch) Forget(owner types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiting, owner)
}

// Start implements source.Source. It does not wait for anything, and ends with the context.
func (w *Watch) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if w.options.Metadata == nil {
		w.startOnDemand(ctx, queue)
		return nil
	}
	end := func() {}
	definition := &definition{
		appears: func() { end = w.begin(ctx, queue) },
		vanishes: func() {
			end()
			w.set(nil)
			w.wake(queue)
		},
	}
	resource := w.options.Metadata.Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	byName := func(options metav1.ListOptions) metav1.ListOptions {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, Definition).String()
		return options
	}
	lister := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, byName(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, byName(options))
		},
	}, w.options.Metadata)
	go cache.NewReflectorWithOptions(lister, &metav1.PartialObjectMetadata{}, definition,
		cache.ReflectorOptions{Name: Definition}).RunWithContext(ctx)
	return nil
}

// startOnDemand watches Certificates as soon as something refers to them.
func (w *Watch) startOnDemand(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	begin := sync.OnceFunc(func() { w.begin(ctx, queue) })
	w.mu.Lock()
	w.demand = begin
	isReferredTo := len(w.waiting) > 0
	w.mu.Unlock()
	if isReferredTo {
		begin()
	}
}

// begin watches Certificates, and returns how to end that. Those who wait are told when the API server has answered: it
// does so a moment after the definition was created.
func (w *Watch) begin(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) context.CancelFunc {
	ctx, end := context.WithCancel(ctx)
	tell := func(object any) {
		if gone, is := object.(cache.DeletedFinalStateUnknown); is {
			object = gone.Obj
		}
		if certificate, is := object.(client.Object); is {
			for _, owner := range w.options.OwnersOf(ctx, certificate) {
				queue.Add(owner)
			}
		}
	}
	informers := map[string]cache.SharedIndexInformer{}
	for _, namespace := range w.options.Namespaces {
		informer := cache.NewSharedIndexInformer(w.source(namespace), &unstructured.Unstructured{}, 0, cache.Indexers{})
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only when it has ended
			AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) }, DeleteFunc: tell,
		})
		informers[namespace] = informer
	}
	w.set(informers)
	for _, informer := range informers {
		go informer.RunWithContext(ctx)
		go func() {
			if cache.WaitFor(ctx, Definition, informer.HasSyncedChecker()) {
				w.wake(queue)
			}
		}()
	}
	return end
}

func (w *Watch) source(namespace string) cache.ListerWatcher {
	resource := w.options.Server.Resource(certificates()).Namespace(namespace)
	selected := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector = w.options.Selector.String()
		return options
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, selected(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, selected(options))
		},
	}, w.options.Server)
}

func (w *Watch) set(informers map[string]cache.SharedIndexInformer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.informers = informers
}

func (w *Watch) wake(queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for owner := range w.waiting {
		queue.Add(reconcile.Request{NamespacedName: owner})
	}
}

// store is what is cached of a namespace; nil while that is not known to be complete.
func (w *Watch) store(namespace string) cache.Store {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watched := range []string{namespace, metav1.NamespaceAll} {
		if informer := w.informers[watched]; informer != nil && informer.HasSynced() {
			return informer.GetStore()
		}
	}
	return nil
}

// Certificate implements CertificateReader.
func (w *Watch) Certificate(ctx context.Context, key types.NamespacedName) (*unstructured.Unstructured, error) {
	store := w.store(key.Namespace)
	if store == nil {
		return w.options.Certificate(ctx, key)
	}
	object, exists, err := store.GetByKey(key.String())
	if err != nil {
		return nil, fmt.Errorf("reading Certificate %s from the cache: %w", key, err)
	}
	if certificate, is := object.(*unstructured.Unstructured); exists && is {
		return certificate, nil
	}
	return w.options.Certificate(ctx, key)
}

// Certificates implements CertificateReader.
func (w *Watch) Certificates(ctx context.Context, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, error) {
	store := w.store(namespace)
	if store == nil {
		return w.options.Certificates(ctx, namespace, selector)
	}
	var found []*unstructured.Unstructured
	for _, object := range store.List() {
		certificate, is := object.(*unstructured.Unstructured)
		if is && certificate.GetNamespace() == namespace && selector.Matches(labels.Set(certificate.GetLabels())) {
			found = append(found, certificate)
		}
	}
	return found, nil
}

// definition is whether the CustomResourceDefinition exists, as a reflector tells it: one event after the other.
type definition struct {
	appears, vanishes func()
	exists            bool
}

func (d *definition) become(exists bool) {
	if d.exists == exists {
		return
	}
	d.exists = exists
	if exists {
		d.appears()
		return
	}
	d.vanishes()
}

// Add implements cache.ReflectorStore.
func (d *definition) Add(any) error {
	d.become(true)
	return nil
}

// Update implements cache.ReflectorStore.
func (d *definition) Update(any) error { return d.Add(nil) }

// Delete implements cache.ReflectorStore.
func (d *definition) Delete(any) error {
	d.become(false)
	return nil
}

// Replace implements cache.ReflectorStore.
func (d *definition) Replace(objects []any, _ string) error {
	d.become(len(objects) > 0)
	return nil
}

// Resync implements cache.ReflectorStore.
func (d *definition) Resync() error { return nil }
