package apitest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/entityoperator"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	topiccontroller "github.com/keyturn/keyturn/internal/topic/controller"
	usercontroller "github.com/keyturn/keyturn/internal/user/controller"
)

var update = flag.Bool("update", false, "write down what becomes of manifests, unless one fares worse than before")

const (
	manifests = "testdata/manifests"
	outcomes  = "testdata/outcomes.yaml"
)

// fates are what can become of a manifest, from the best to the worst. That of a manifest is that of its object which
// fares worst.
func fates() []string {
	return []string{"runs", "ignored, named", "not done, named", "refused, named"}
}

const (
	runs = iota
	ignored
	notDone
	refused
)

// outcome is what becomes of a manifest, as testdata/outcomes.yaml has it.
type outcome struct {
	Manifest string `json:"manifest"`
	// About is its first line.
	About string `json:"about"`
	Fate  string `json:"fate"`
	// Says are the fields and refusals that are named.
	Says []string `json:"says,omitempty"`
}

// Manifests as people have them are put to the API server and to the operators. What becomes of one may only get better.
func TestManifestsRunOrAreNamed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifest was found: %v", err)
	}
	recorded := readOutcomes(t)
	if len(recorded) != len(files) && !*update {
		t.Errorf("outcomes of %d manifests are recorded, and there are %d", len(recorded), len(files))
	}
	var found outcomesFound
	t.Cleanup(func() { found.write(t) })
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			result := replay(t, file)
			found.add(result)
			before := slices.DeleteFunc(slices.Clone(recorded), func(o outcome) bool { return o.Manifest != result.Manifest })
			for _, worse := range worsened(before, []outcome{result}) {
				t.Error(worse)
			}
			if diff := cmp.Diff(before, []outcome{result}); diff != "" && !*update {
				t.Errorf("the outcome differs; if it is better, run this test with -update and then make generate (-recorded +found):\n%s", diff)
			}
		})
	}
}

func readOutcomes(t *testing.T) []outcome {
	t.Helper()
	data, err := os.ReadFile(outcomes)
	if err != nil {
		t.Fatal(err)
	}
	var recorded []outcome
	if err := yaml.UnmarshalStrict(data, &recorded); err != nil {
		t.Fatal(err)
	}
	return recorded
}

// outcomesFound are those of this run.
type outcomesFound struct {
	mu   sync.Mutex
	list []outcome
}

func (f *outcomesFound) add(o outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, o)
}

// write records them where that is asked for, and none fares worse.
func (f *outcomesFound) write(t *testing.T) {
	t.Helper()
	if !*update || t.Failed() {
		return
	}
	slices.SortFunc(f.list, func(a, b outcome) int { return strings.Compare(a.Manifest, b.Manifest) })
	data, err := yaml.Marshal(f.list)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(outcomes, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// worsened are sentences about manifests that fare worse than it is recorded.
func worsened(recorded, found []outcome) []string {
	var sentences []string
	for _, before := range recorded {
		i := slices.IndexFunc(found, func(o outcome) bool { return o.Manifest == before.Manifest })
		if i >= 0 && slices.Index(fates(), found[i].Fate) > slices.Index(fates(), before.Fate) {
			sentences = append(sentences, fmt.Sprintf("%s: %s, and it was %s: %q", before.Manifest, found[i].Fate, before.Fate, found[i].Says))
		}
	}
	return sentences
}

func TestAManifestThatFaresWorseIsNamed(t *testing.T) {
	t.Parallel()
	recorded := []outcome{{Manifest: "a", Fate: fates()[ignored]}, {Manifest: "b", Fate: fates()[ignored]}, {Manifest: "c", Fate: fates()[runs]}}
	found := []outcome{{Manifest: "a", Fate: fates()[runs]}, {Manifest: "b", Fate: fates()[refused]}, {Manifest: "d", Fate: fates()[refused]}}
	if got := worsened(recorded, found); len(got) != 1 || !strings.HasPrefix(got[0], "b: ") {
		t.Errorf("%q is said, want one sentence about b", got)
	}
}

// replayed is a manifest in a namespace of its own.
type replayed struct {
	*world

	fate int
	says []string
}

func replay(t *testing.T, file string) outcome {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	about, _, _ := strings.Cut(strings.TrimPrefix(string(data), "# "), "\n")
	r := &replayed{world: newWorld(t)}
	r.settings.Versions = everyVersion()
	r.besides = func(c model.Cluster) []companion.Companion {
		r.companions = entityoperator.Companions(authority.WithStores, r.gates)(c)
		return r.companions
	}
	r.startOperator()
	objects := r.objects(t, data)
	for _, object := range objects {
		r.apply(object)
	}
	r.settle()
	r.operate(objects)
	for _, object := range objects {
		r.hear(object)
	}
	slices.Sort(r.says)
	return outcome{
		Manifest: strings.TrimSuffix(filepath.Base(file), ".yaml"), About: about, Fate: fates()[r.fate], Says: slices.Compact(r.says),
	}
}

func everyVersion() []model.KafkaVersion {
	var versions []model.KafkaVersion
	for _, r := range release.All() {
		for _, patch := range r.Patches {
			versions = append(versions, model.KafkaVersion{Name: patch, Image: "kafka:" + patch})
		}
	}
	slices.Reverse(versions)
	return versions
}

// objects reads a manifest for the cluster of the tests, whose keys are made quickly.
func (r *replayed) objects(t *testing.T, data []byte) []*unstructured.Unstructured {
	t.Helper()
	data = bytes.ReplaceAll(data, []byte("my-cluster"), []byte(clusterName))
	var objects []*unstructured.Unstructured
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		object.SetNamespace(r.namespace)
		if object.GetKind() == kafkav1.KindKafka {
			r.prepare(t, object)
		}
		objects = append(objects, object)
	}
	return objects
}

func (r *replayed) prepare(t *testing.T, kafka *unstructured.Unstructured) {
	t.Helper()
	for _, ca := range []string{"clusterCa", "clientsCa"} {
		if err := unstructured.SetNestedField(kafka.Object, "ECDSA", "spec", ca, "keyAlgorithm"); err != nil {
			t.Fatal(err)
		}
	}
	version, isSet, _ := unstructured.NestedString(kafka.Object, "spec", "kafka", "version")
	if _, isKnown := release.Of(version); isSet && isKnown {
		r.kafka.SetMetadataVersion(release.NewestMetadata(version).Level(), release.NewestMetadata(version).Level())
	}
}

// apply does what kubectl create and kubectl apply --server-side do.
func (r *replayed) apply(object *unstructured.Unstructured) {
	strict := client.WithFieldValidation(r.api, metav1.FieldValidationStrict)
	err := strict.Create(r.t.Context(), object.DeepCopy())
	if err == nil {
		err = strict.Apply(r.t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl"), client.ForceOwnership)
	}
	if err != nil {
		r.say(refused, object, err.Error())
	}
}

// operate lets the operators of topics and users do their work.
func (r *replayed) operate(objects []*unstructured.Unstructured) {
	r.t.Helper()
	cluster := r.key(clusterName)
	operators := map[string]reconcile.Reconciler{
		"KafkaTopic": topiccontroller.New(topiccontroller.Options{
			Client: kubetest.Indexed{Client: r.api, Field: topiccontroller.NameIndex, Of: topiccontroller.Index}, Live: r.api, Events: events.NewFakeRecorder(100), Log: logr.Discard(), Clock: r.clock, Cluster: cluster,
			Metrics: topiccontroller.NewMetrics(cluster), Kafka: adminfake.NewTopics(3),
		}),
		"KafkaUser": usercontroller.New(usercontroller.Options{
			Client: r.api, Live: r.api, Events: events.NewFakeRecorder(100), Log: logr.Discard(), Clock: r.clock, Cluster: cluster,
			Metrics: usercontroller.NewMetrics(cluster), Kafka: adminfake.NewUsers(), Stores: authority.WithStores, ReissueRate: 1,
		}),
	}
	for range 3 {
		for _, object := range objects {
			operator, isTheirs := operators[object.GetKind()]
			if !isTheirs {
				continue
			}
			if _, err := operator.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}); err != nil {
				r.t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
		}
	}
}

// hear takes down what the conditions of an object say. What no operator looks at has none.
func (r *replayed) hear(object *unstructured.Unstructured) {
	r.t.Helper()
	var stored struct {
		Status struct {
			Conditions []condition.Condition `json:"conditions"`
		} `json:"status"`
	}
	current := &unstructured.Unstructured{}
	current.SetGroupVersionKind(object.GroupVersionKind())
	if err := r.api.Get(r.t.Context(), client.ObjectKeyFromObject(object), current); err != nil {
		return // refused, which has been said
	}
	data, err := current.MarshalJSON()
	if err == nil {
		err = yaml.Unmarshal(data, &stored)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	isReady := slices.Contains([]string{"ConfigMap", kafkav1.KindKafkaNodePool}, object.GetKind())
	for _, c := range stored.Status.Conditions {
		switch {
		case c.Type == condition.NotReady || c.Type == condition.Ready && c.Status != condition.True:
			r.say(refused, object, c.Reason+": "+c.Message)
		case c.Type == condition.Warning:
			r.warn(object, c)
		case c.Type == condition.Ready:
			isReady = true
		}
	}
	if !isReady && r.fate != refused {
		r.t.Errorf("nothing says what has become of %s %s: %+v", object.GetKind(), object.GetName(), stored.Status.Conditions)
	}
}

var listed = regexp.MustCompile(`: (spec\.[^;]*);`)

func (r *replayed) warn(object *unstructured.Unstructured, c condition.Condition) {
	said := c.Reason
	if fields := listed.FindStringSubmatch(c.Message); fields != nil {
		said += ": " + fields[1]
	}
	switch c.Reason {
	case "DiffersFromSpec":
		r.say(notDone, object, said)
	case "FieldsWithoutEffect":
		r.say(ignored, object, said)
	default:
		r.say(runs, object, said)
	}
}

var ownName = regexp.MustCompile(`\b` + clusterName + `\b`)

func (r *replayed) say(fate int, object *unstructured.Unstructured, what string) {
	r.fate = max(r.fate, fate)
	what = strings.ReplaceAll(what, r.namespace, "kafka")
	r.says = append(r.says, object.GetKind()+": "+ownName.ReplaceAllString(what, "my-cluster"))
}
