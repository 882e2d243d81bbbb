package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// Everybody who writes to the namespace of a world is in the world, so what was read
// there is so until somebody writes. Nothing is read twice in between: an operator
// that looks at everything every second reads caches, and a world has none.

// picture is what the clients of a namespace have read since it was written.
type picture struct {
	namespace string
	mu        sync.Mutex
	seen      map[request]answer
	// doubted, if not nil, is told of everything that is shown, and how it differs from
	// what there is.
	doubted func(seen request, diff string)
}

// request is one of the ways to ask for an object, or for objects of a kind.
type request struct {
	kind schema.GroupKind
	// name is empty for a list.
	name string
	// words tell all else: who asks, for which version and type, and what is selected.
	words string
}

// answer is what was read: an object, a list, or that there is none.
type answer struct {
	object runtime.Object
	err    error
}

func newPicture(namespace string) *picture {
	return &picture{namespace: namespace, seen: map[request]answer{}}
}

// of is a client that reads what the picture shows and writes past it.
func (p *picture) of(who string, api client.Client) pictureClient {
	return pictureClient{Client: api, picture: p, who: who}
}

// known is the answer to a request, if it is in the picture.
func (p *picture) known(r request) (answer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, found := p.seen[r]
	return a, found
}

func (p *picture) add(r request, a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[r] = a
}

// forget drops an object that is written, and the lists of its kind; all of the kind
// when it has no name.
func (p *picture) forget(kind schema.GroupKind, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.seen, func(r request, _ answer) bool {
		return r.kind == kind && (r.name == name || r.name == "" || name == "")
	})
}

// pictureClient is somebody who acts in the namespace of a picture.
type pictureClient struct {
	client.Client

	picture *picture
	who     string
}

// Get reads an object of the namespace once.
func (c pictureClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	read := func(into runtime.Object) error { return c.Client.Get(ctx, key, into.(client.Object), opts...) }
	if key.Namespace != c.picture.namespace || len(opts) > 0 {
		return read(into)
	}
	return c.read(into, key.Name, "", read)
}

// List reads a list of the namespace once.
func (c pictureClient) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	read := func(into runtime.Object) error { return c.Client.List(ctx, into.(client.ObjectList), opts...) }
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if options.Namespace != c.picture.namespace {
		return read(into)
	}
	return c.read(into, "", fmt.Sprintf("%+v", options.AsListOptions()), read)
}

func (c pictureClient) read(into runtime.Object, name, selected string, read func(runtime.Object) error) error {
	kind, err := c.GroupVersionKindFor(into)
	if err != nil {
		return err
	}
	r := request{kind: groupKind(kind), name: name, words: fmt.Sprintf("%s %T %s %s", c.who, into, kind, selected)}
	a, found := c.picture.known(r)
	if !found {
		empty := emptyLike(into)
		a = answer{object: empty, err: read(empty)}
		if a.err != nil && !apierrors.IsNotFound(a.err) {
			return a.err
		}
		c.picture.add(r, a)
	} else if c.picture.doubted != nil {
		c.doubt(r, a, emptyLike(into), read)
	}
	if a.err != nil {
		return a.err
	}
	overwrite(into, a.object.DeepCopyObject())
	return nil
}

// doubt reads again what the picture shows.
func (c pictureClient) doubt(r request, shown answer, now runtime.Object, read func(runtime.Object) error) {
	err := read(now)
	if apierrors.IsNotFound(err) != apierrors.IsNotFound(shown.err) {
		c.picture.doubted(r, fmt.Sprintf("it was read with %v, and is with %v", shown.err, err))
		return
	}
	c.picture.doubted(r, cmp.Diff(items(shown.object), items(now)))
}

// items are the objects of a list, or the object. The version of a list is that of
// everything there is.
func items(read runtime.Object) []string {
	objects := []runtime.Object{read}
	if meta.IsListType(read) {
		var err error
		if objects, err = meta.ExtractList(read); err != nil {
			panic(err)
		}
	}
	texts := make([]string, 0, len(objects))
	for _, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// emptyLike is an object of the same type and kind in which nothing was read.
func emptyLike(into runtime.Object) runtime.Object {
	empty := reflect.New(reflect.TypeOf(into).Elem()).Interface().(runtime.Object)
	empty.GetObjectKind().SetGroupVersionKind(into.GetObjectKind().GroupVersionKind())
	return empty
}

// wrote drops from the picture what was written.
func (c pictureClient) wrote(object any, name string) {
	written, isObject := object.(runtime.Object)
	if !isObject {
		panic(fmt.Sprintf("%T is not written by these clients", object))
	}
	kind, err := c.GroupVersionKindFor(written)
	if err != nil {
		panic(err)
	}
	c.picture.forget(groupKind(kind), name)
}

// namedIn is the name of what is applied.
func namedIn(obj runtime.ApplyConfiguration) string {
	return obj.(interface{ GetName() string }).GetName()
}

// groupKind is the kind of an object, or of those in a list.
func groupKind(of schema.GroupVersionKind) schema.GroupKind {
	return schema.GroupKind{Group: of.Group, Kind: strings.TrimSuffix(of.Kind, "List")}
}

func (c pictureClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	defer func() { c.wrote(obj, obj.GetName()) }() // its name may be made up there
	return c.Client.Create(ctx, obj, opts...)
}

func (c pictureClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	defer c.wrote(obj, obj.GetName())
	return c.Client.Update(ctx, obj, opts...)
}

func (c pictureClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	defer c.wrote(obj, obj.GetName())
	return c.Client.Patch(ctx, obj, patch, opts...)
}

func (c pictureClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	defer c.wrote(obj, namedIn(obj))
	return c.Client.Apply(ctx, obj, opts...)
}

func (c pictureClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	defer c.wrote(obj, obj.GetName())
	return c.Client.Delete(ctx, obj, opts...)
}

func (c pictureClient) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	defer c.wrote(obj, "")
	return c.Client.DeleteAllOf(ctx, obj, opts...)
}

func (c pictureClient) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c pictureClient) SubResource(name string) client.SubResourceClient {
	return pictureSubResource{SubResourceClient: c.Client.SubResource(name), of: c}
}

// pictureSubResource writes a part of objects.
type pictureSubResource struct {
	client.SubResourceClient

	of pictureClient
}

func (s pictureSubResource) Create(ctx context.Context, obj, part client.Object, opts ...client.SubResourceCreateOption) error {
	defer s.of.wrote(obj, obj.GetName())
	return s.SubResourceClient.Create(ctx, obj, part, opts...)
}

func (s pictureSubResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	defer s.of.wrote(obj, obj.GetName())
	return s.SubResourceClient.Update(ctx, obj, opts...)
}

func (s pictureSubResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	defer s.of.wrote(obj, obj.GetName())
	return s.SubResourceClient.Patch(ctx, obj, patch, opts...)
}

func (s pictureSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	defer s.of.wrote(obj, namedIn(obj))
	return s.SubResourceClient.Apply(ctx, obj, opts...)
}

// TestAWorldNeverSeesAnOldPicture lets everything happen that worlds are written by,
// and reads again whatever is answered from what was read before.
func TestAWorldNeverSeesAnOldPicture(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shown := 0
	w.picture.doubted = func(seen request, diff string) {
		shown++
		if diff != "" {
			t.Errorf("%s %s for %s is old %s", seen.kind, seen.name, seen.words, diff)
		}
	}
	w.extraBrokers(claims(true))
	w.pin()
	w.lag["my-dual-1"] = 1

	w.replace(authorities.Cluster)
	w.once(w.presents(1, nextV), func() { w.delete(&corev1.Secret{}, "my-dual-0") })
	w.settle()
	w.configure("log.retention.hours", "12")
	w.scale("extra", 1)
	w.settle()
	w.unlabel(&corev1.Pod{}, "my-dual-1")
	w.run(3)
	w.deleteCluster()
	w.run(3)

	if shown == 0 {
		t.Error("nothing was answered from what was read before")
	}
}
