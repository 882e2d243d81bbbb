package controller

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// lists is what an API server does for a cache: it lists objects, by their labels and as
// metadata where that is asked for, and keeps watches open in which nothing happens.
type lists struct {
	kinds   []schema.GroupVersionKind
	objects []*unstructured.Unstructured
	// secrets is how many Secrets there are besides, with the labels, and with an
	// annotation of 100 KiB each.
	secrets int
	labels  labels.Set
	// sought is told which single objects are asked for. There are none.
	sought chan<- string
}

// RoundTrip answers a request.
func (l lists) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := request.URL.Query()
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: request}
	switch {
	case asked.Get("sendInitialEvents") != "": // old servers know lists alone
		answer.StatusCode = http.StatusUnprocessableEntity
		answer.Body = body(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		})
	case names(request.URL.Path):
		if l.sought != nil {
			l.sought <- request.URL.Path
		}
		answer.StatusCode = http.StatusNotFound
		answer.Body = body(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		})
	case asked.Get("watch") != "":
		silent, end := io.Pipe()
		context.AfterFunc(request.Context(), func() { _ = end.Close() })
		answer.Body = silent
	default:
		selector, err := labels.Parse(asked.Get("labelSelector"))
		if err != nil {
			return nil, err
		}
		path := strings.Split(request.URL.Path, "/")
		metadata := strings.Contains(request.Header.Get("Accept"), "as=PartialObjectMetadataList")
		answer.Body = body(l.list(path[len(path)-1], selector, metadata))
	}
	return answer, nil
}

// names reports whether a path is that of one object in a namespace.
func names(path string) bool {
	_, within, namespaced := strings.Cut(path, "/namespaces/")
	return namespaced && strings.Count(within, "/") == 2
}

func body(content any) io.ReadCloser {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return io.NopCloser(bytes.NewReader(text))
}

func (l lists) list(resource string, selector labels.Selector, metadata bool) map[string]any {
	at := slices.IndexFunc(l.kinds, func(kind schema.GroupVersionKind) bool { return resourceOf(kind) == resource })
	version, kind := l.kinds[at].ToAPIVersionAndKind()
	items := []any{}
	add := func(object *unstructured.Unstructured) {
		if !selector.Matches(labels.Set(object.GetLabels())) {
			return
		}
		if metadata {
			items = append(items, map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object.Object["metadata"]})
			return
		}
		items = append(items, object.Object)
	}
	for _, object := range l.objects {
		if resourceOf(object.GroupVersionKind()) == resource {
			add(object)
		}
	}
	for i := range l.secrets {
		if resource == "secrets" && selector.Matches(l.labels) {
			add(large(i, l.labels))
		}
	}
	if metadata {
		kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
	}
	return map[string]any{"apiVersion": version, "kind": kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
}

func resourceOf(kind schema.GroupVersionKind) string {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource.Resource
}

func large(i int, of labels.Set) *unstructured.Unstructured {
	secret := rawObject(secretKind())
	secret.SetNamespace("ns")
	secret.SetName(fmt.Sprintf("large-%d", i))
	secret.SetLabels(of)
	secret.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 100<<10)})
	return secret
}

// watched is all there is to watch, companions included.
func watched() []client.Object {
	r := New(Options{Metrics: metrics.New(), Companions: func(model.Cluster) []companion.Companion { return nil }})
	return append(r.labelled(), metadataObject(kafkaKind()))
}

// known are all kinds of the API.
func known(tb testing.TB) (*apiruntime.Scheme, meta.RESTMapper) {
	tb.Helper()
	scheme := kubetest.Scheme(tb, kafkav1.AddToScheme, podsetv1.AddToScheme)
	mapper := meta.NewDefaultRESTMapper(nil)
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return scheme, mapper
}

// held starts the operator's cache, and returns what it holds of each kind, and how to end it.
func held(tb testing.TB, server lists) (objects map[string][]any, stop func()) {
	tb.Helper()
	scheme, mapper := known(tb)
	options := CacheOptions(nil)
	options.Scheme, options.Mapper, options.HTTPClient = scheme, mapper, &http.Client{Transport: server}
	all, err := cache.New(&rest.Config{Host: "http://server.invalid"}, options)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- all.Start(ctx) }()
	objects = map[string][]any{}
	for _, object := range watched() {
		informer, err := all.GetInformer(ctx, object)
		if err != nil {
			tb.Fatal(err)
		}
		indexed, is := informer.(toolscache.SharedIndexInformer)
		if !is || !all.WaitForCacheSync(ctx) {
			tb.Fatalf("%T holds nothing that could be looked at", object)
		}
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			tb.Fatal(err)
		}
		objects[kind.Kind] = indexed.GetStore().List()
	}
	return objects, func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	}
}

// bearing is an object of a cluster with a key everywhere where one may get.
func bearing(tb testing.TB, kind schema.GroupVersionKind, key string) *unstructured.Unstructured {
	tb.Helper()
	object := rawObject(kind)
	object.SetNamespace("ns")
	object.SetName("my-dual-0")
	object.SetLabels(map[string]string{model.ClusterLabel: "my", model.KindLabel: "Kafka"})
	object.SetAnnotations(map[string]string{
		corev1.LastAppliedConfigAnnotation: key, "example.com/copy": key,
		agent.PinAnnotation: "read", deleteClaimAnnotation: isTrue,
	})
	fields := []any{map[string]any{
		"manager": string(fieldOwner), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:" + key: map[string]any{}},
	}}
	if err := unstructured.SetNestedSlice(object.Object, fields, "metadata", "managedFields"); err != nil {
		tb.Fatal(err)
	}
	switch kind.Kind {
	case secretKind().Kind, configMapKind().Kind:
		object.Object["data"] = map[string]any{"ca.key": base64.StdEncoding.EncodeToString([]byte(key))}
	case kafkaKind().Kind, poolKind().Kind:
		object.Object["spec"] = map[string]any{"password": key}
	}
	return object
}

func privateKey(tb testing.TB) string {
	tb.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		tb.Fatal(err)
	}
	return string(key.PEM())
}

// everywhere is an API server with an object of each kind that is watched, with a key in it.
func everywhere(tb testing.TB) lists {
	tb.Helper()
	server, key := nowhere(tb), privateKey(tb)
	for _, kind := range server.kinds {
		server.objects = append(server.objects, bearing(tb, kind, key))
	}
	return server
}

// nowhere is an API server without any object.
func nowhere(tb testing.TB) lists {
	tb.Helper()
	server := lists{}
	scheme, _ := known(tb)
	for _, object := range watched() {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			tb.Fatal(err)
		}
		server.kinds = append(server.kinds, kind)
	}
	return server
}

func TestTheCacheHoldsNoKeys(t *testing.T) {
	t.Parallel()
	objects, stop := held(t, everywhere(t))
	defer stop()
	for kind, list := range objects {
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, sign := range []string{"PRIVATE KEY", base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIVATE KEY"))[:28]} {
			if bytes.Contains(text, []byte(sign)) {
				t.Errorf("%s: a key is in\n%s", kind, text)
			}
		}
		if len(list) != 1 {
			t.Errorf("%s: %d objects are held, want the one that there is", kind, len(list))
		}
	}
}

func TestTheCacheHoldsWhatIsReadFromIt(t *testing.T) {
	t.Parallel()
	objects, stop := held(t, everywhere(t))
	defer stop()
	for kind, want := range map[string]map[string]string{
		"Pod":                   {agent.PinAnnotation: "read", deleteClaimAnnotation: isTrue}, // the second has no effect there, which is told
		"PersistentVolumeClaim": {deleteClaimAnnotation: isTrue},
		"Deployment":            {agent.PinAnnotation: "read"},
		"ConfigMap":             nil,
		"Secret":                nil,
		podSetKind:              nil,
		kafkav1.KindKafka:       nil,
	} {
		object, is := objects[kind][0].(metav1.Object)
		if !is || !maps.Equal(object.GetAnnotations(), want) || object.GetLabels()[model.ClusterLabel] != "my" {
			t.Errorf("%s: what is left is %+v", kind, objects[kind][0])
		}
	}
	set, is := objects[podSetKind][0].(metav1.Object)
	if !is || !kube.Applied(set, fieldOwner) {
		t.Errorf("nobody can tell who wrote %+v", objects[podSetKind][0])
	}
}

func TestOfSecretsTheCacheHoldsThoseOfClustersAlone(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]labels.Set{
		"of strangers":         nil,
		"of users of clusters": {model.ClusterLabel: "my", model.KindLabel: kafkaUserKind},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := everywhere(t)
			server.secrets, server.labels = 3, others

			objects, stop := held(t, server)
			defer stop()

			if list := objects["Secret"]; len(list) != 1 {
				t.Errorf("%d Secrets are held, want the cluster's own", len(list))
			}
		})
	}
}

func TestAWholeSecretLosesItsContent(t *testing.T) {
	t.Parallel()
	for object, options := range CacheOptions(nil).ByObject {
		if _, ofSecrets := object.(*corev1.Secret); !ofSecrets {
			continue
		}
		left, err := options.Transform(&corev1.Secret{Data: map[string][]byte{"a": []byte("b")}, StringData: map[string]string{"c": "d"}})
		if err != nil {
			t.Fatal(err)
		}
		if secret, is := left.(*corev1.Secret); !is || len(secret.Data)+len(secret.StringData) > 0 {
			t.Errorf("what is left is %+v", left)
		}
		return
	}
	t.Error("nothing is said about Secrets")
}

// writtenBy is what tells of a writer.
func writtenBy(manager string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: podsetv1.GroupVersion.String(),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:pods":{}}}`),
	}
}

// clusterWithSets is a reconcile that has read no pod sets yet.
func clusterWithSets() *applied {
	c := clusterOf(&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "my", UID: "1"}}, nil)
	c.podSets, c.anothersSets = map[string]podsetv1.StrimziPodSet{}, map[string]bool{}
	return c
}

// setOf is a pod set for the Kafka that clusterWithSets is over, with a secret everywhere where one
// may get.
func setOf(secret string) *podsetv1.StrimziPodSet {
	pod := `{"metadata": {"name": "my-dual-0", "annotations": {%q: %q}},
		"spec": {"containers": [{"name": "kafka", "args": [%[2]q], "env": [{"name": "PASSWORD", "value": %[2]q}]}]}}`
	return &podsetv1.StrimziPodSet{
		TypeMeta: metav1.TypeMeta{APIVersion: podsetv1.GroupVersion.String(), Kind: podSetKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "my-dual", UID: "set", ResourceVersion: "7", Generation: 2,
			Labels:          map[string]string{model.ClusterLabel: "my", "copy": secret},
			Annotations:     map[string]string{"example.com/copy": secret},
			Finalizers:      []string{"example.com/" + secret},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "kafka.strimzi.io/v1", Kind: "Kafka", Name: "my", UID: "1"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{writtenBy("strimzi-cluster-operator"), writtenBy(secret)},
		},
		Spec: podsetv1.StrimziPodSetSpec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"copy": secret}},
			Pods:     []apiruntime.RawExtension{{Raw: fmt.Appendf(nil, pod, "example.com/copy", secret)}},
		},
		Status: podsetv1.StrimziPodSetStatus{Conditions: []condition.Condition{{Message: secret}}},
	}
}

func TestOfPodSetsTheCacheHoldsThatTheyExistAndIfTheOperatorWroteThemAlone(t *testing.T) {
	t.Parallel()
	server := nowhere(t)
	for name, change := range map[string]func(*podsetv1.StrimziPodSet){
		"my-own": func(set *podsetv1.StrimziPodSet) {
			set.ManagedFields = append(set.ManagedFields, writtenBy(string(fieldOwner)))
		},
		"my-owned":   func(*podsetv1.StrimziPodSet) {},
		"my-unowned": func(set *podsetv1.StrimziPodSet) { set.OwnerReferences = nil },
		"strange":    func(set *podsetv1.StrimziPodSet) { set.Labels = map[string]string{"copy": "planted"} },
	} {
		set := setOf("planted")
		set.Name = name
		change(set)
		fields, err := apiruntime.DefaultUnstructuredConverter.ToUnstructured(set)
		if err != nil {
			t.Fatal(err)
		}
		server.objects = append(server.objects, &unstructured.Unstructured{Object: fields})
	}

	objects, stop := held(t, server)
	defer stop()

	if len(objects[podSetKind]) != len(server.objects) {
		t.Fatalf("%d sets are held, want that all exist", len(objects[podSetKind]))
	}
	text, err := json.Marshal(objects[podSetKind])
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("planted")) {
		t.Errorf("what somebody wrote is in\n%s", text)
	}
	for _, object := range objects[podSetKind] {
		if set, is := object.(metav1.Object); !is || kube.Applied(set, fieldOwner) != (set.GetName() == "my-own") {
			t.Errorf("who wrote a set cannot be told from %+v", object)
		}
	}
}

func TestAPodSetIsTheSameOperatorsAsTheCacheHoldsItAndAsItIs(t *testing.T) {
	t.Parallel()
	pinned := fmt.Appendf(nil, `{"metadata": {"name": "my-dual-0", "annotations": {%q: "{}"}}}`, agent.PinAnnotation)
	for name, c := range map[string]struct {
		change func(*podsetv1.StrimziPodSet)
		ours   bool
	}{
		"another wrote it": {func(*podsetv1.StrimziPodSet) {}, false},
		"this one has written it": {func(set *podsetv1.StrimziPodSet) {
			set.ManagedFields = []metav1.ManagedFieldsEntry{writtenBy(string(fieldOwner))}
		}, true},
		"another has applied to it": {func(set *podsetv1.StrimziPodSet) {
			set.ManagedFields = append(set.ManagedFields, writtenBy(string(fieldOwner)))
		}, true},
		"nodes are recorded in it":  {func(set *podsetv1.StrimziPodSet) { set.Annotations[model.NodesAnnotation] = "{}" }, false},
		"a pod of it is as if told": {func(set *podsetv1.StrimziPodSet) { set.Spec.Pods[0].Raw = pinned }, false},
		"its status alone is theirs": {func(set *podsetv1.StrimziPodSet) {
			status := writtenBy(string(fieldOwner))
			status.Subresource = "status"
			set.ManagedFields = []metav1.ManagedFieldsEntry{status}
		}, false},
		"it was patched in the operator's name": {func(set *podsetv1.StrimziPodSet) {
			patch := writtenBy(string(fieldOwner))
			patch.Operation = metav1.ManagedFieldsOperationUpdate
			set.ManagedFields = []metav1.ManagedFieldsEntry{patch}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf("x")
			c.change(set)
			r := New(Options{Client: mentioning(t, set), Live: storing(t, set), Metrics: metrics.New()})
			p := clusterWithSets()

			if err := r.observePodSets(t.Context(), p.observation); err != nil {
				t.Fatal(err)
			}

			taken, ours := p.podSets["my-dual"]
			if ours != c.ours || len(p.anothersSets) != 1-len(p.podSets) {
				t.Errorf("ours: %t, another's: %v", ours, p.anothersSets)
			}
			if ours && len(p.describedPods(&taken)) != 1 {
				t.Errorf("it describes %v", taken.Spec.Pods)
			}
		})
	}
}

// storing is an API server with these sets.
func storing(t *testing.T, sets ...*podsetv1.StrimziPodSet) client.WithWatch {
	t.Helper()
	scheme, _ := known(t)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields()
	for _, set := range sets {
		stored := set.DeepCopy()
		stored.ResourceVersion = ""
		builder = builder.WithObjects(stored)
	}
	return builder.Build()
}

// mentioning is a cache with these sets.
func mentioning(t *testing.T, sets ...*podsetv1.StrimziPodSet) client.WithWatch {
	t.Helper()
	return interceptor.NewClient(storing(t, sets...), interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if err := api.List(ctx, into, options...); err != nil {
				return err
			}
			list, is := into.(*metav1.PartialObjectMetadataList)
			if !is {
				return fmt.Errorf("a cache of metadata holds no %T", into)
			}
			for i := range list.Items {
				stripPodSet(&list.Items[i])
			}
			return nil
		},
	})
}

// A cache that lags may show somebody else's set where one of this operator's is by now.
func TestASetIsNotAnothersForWhatTheCacheShowsLate(t *testing.T) {
	t.Parallel()
	now := setOf("x")
	now.ManagedFields = []metav1.ManagedFieldsEntry{writtenBy(string(fieldOwner))}
	r := New(Options{Client: mentioning(t, setOf("x")), Live: storing(t, now), Metrics: metrics.New()})
	c := clusterWithSets()
	c.pools = []*pool{{KafkaNodePool: kafkav1.KafkaNodePool{ObjectMeta: metav1.ObjectMeta{Name: "dual"}}}}

	if err := r.observePodSets(t.Context(), c.observation); err != nil {
		t.Fatal(err)
	}

	if ids := c.nodesOf(now).NodeIDs; !slices.Equal(ids, []model.NodeID{0}) || len(c.anothersSets) > 0 {
		t.Errorf("its nodes are %v, want the one that it describes; another's are %v", ids, c.anothersSets)
	}
}

func TestAClusterIsNotLookedAtBesideSetsThatDescribeMoreThanItCanHave(t *testing.T) {
	t.Parallel()
	const large = 1 << 20
	for count, told := range map[int]bool{1: false, maxDescribed / large: false, maxDescribed/large + 1: true} {
		t.Run(strconv.Itoa(count), func(t *testing.T) {
			t.Parallel()
			sets := make([]*podsetv1.StrimziPodSet, count)
			for i := range sets {
				sets[i] = setOf("x")
				sets[i].Name = fmt.Sprintf("my-forged-%d", i)
				sets[i].ManagedFields = []metav1.ManagedFieldsEntry{writtenBy(string(fieldOwner))}
				sets[i].Spec.Pods = nil
			}
			live := interceptor.NewClient(storing(t, sets...), interceptor.Funcs{
				Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					err := api.Get(ctx, key, object, options...)
					if set, is := object.(*podsetv1.StrimziPodSet); is {
						set.Spec.Pods = []apiruntime.RawExtension{{Raw: make([]byte, large)}}
					}
					return err
				},
			})
			r := New(Options{Client: mentioning(t, sets...), Live: live, Metrics: metrics.New()})

			err := r.observePodSets(t.Context(), clusterWithSets().observation)

			if _, is := errors.AsType[*tooManySetsError](err); is != told || !told && err != nil {
				t.Errorf("error %v, want one: %t", err, told)
			}
		})
	}
}

// BenchmarkCacheBesideSecrets reports how much more memory the cache holds beside 10,000
// Secrets of 100 KiB that are no cluster's, or that are of its users.
func BenchmarkCacheBesideSecrets(b *testing.B) {
	for name, others := range map[string]labels.Set{
		"strangers": nil,
		"users":     {model.ClusterLabel: "my", model.KindLabel: kafkaUserKind},
	} {
		b.Run(name, func(b *testing.B) {
			server := everywhere(b)
			for b.Loop() {
				server.secrets = 0
				alone := heapOf(b, server)
				server.secrets, server.labels = 10_000, others
				b.ReportMetric((heapOf(b, server)-alone)/(1<<10), "KiB")
			}
		})
	}
}

// heapOf is how many bytes are in use while the cache is full.
func heapOf(b *testing.B, server lists) float64 {
	b.Helper()
	_, stop := held(b, server)
	defer stop()
	var figures runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&figures)
	return float64(figures.HeapAlloc)
}
