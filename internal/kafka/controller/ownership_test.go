package controller

import (
	"maps"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// ofMy is what is observed of the Kafka "my", which has one pool.
func ofMy() *observation {
	return &observation{
		kafka:   kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "my", UID: "1"}},
		pools:   []*pool{{KafkaNodePool: kafkav1.KafkaNodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}}},
		podSets: map[string]podsetv1.StrimziPodSet{}, anothersSets: map[string]bool{},
	}
}

// mark is what tells on an object whose it is.
type mark func(*metav1.ObjectMeta)

func marked(marks []mark) metav1.ObjectMeta {
	object := metav1.ObjectMeta{Namespace: "ns", Name: "my-pool"}
	for _, mark := range marks {
		mark(&object)
	}
	return object
}

func labelled(cluster string) mark {
	return func(object *metav1.ObjectMeta) { object.Labels = map[string]string{model.ClusterLabel: cluster} }
}

func ownedBy(apiVersion, kind, name string, uid types.UID) mark {
	return func(object *metav1.ObjectMeta) {
		object.OwnerReferences = append(object.OwnerReferences, metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid})
	}
}

func ownedByIts(kafka types.UID) mark { return ownedBy("kafka.strimzi.io/v1", "Kafka", "my", kafka) }

// controlled says that the owner named before is the controller.
func controlled(object *metav1.ObjectMeta) {
	object.OwnerReferences[len(object.OwnerReferences)-1].Controller = new(true)
}

func writtenAs(manager, subresource string) mark {
	return func(object *metav1.ObjectMeta) {
		entry := writtenBy(manager)
		entry.Subresource = subresource
		object.ManagedFields = append(object.ManagedFields, entry)
	}
}

func byThisOperator(object *metav1.ObjectMeta) { writtenAs(string(fieldOwner), "")(object) }

// updatedByThisOperator is what a patch, or anybody who uses the operator's name for an
// update, leaves.
func updatedByThisOperator(object *metav1.ObjectMeta) {
	byThisOperator(object)
	object.ManagedFields[len(object.ManagedFields)-1].Operation = metav1.ManagedFieldsOperationUpdate
}

func byAnother(object *metav1.ObjectMeta) { writtenAs("another", "")(object) }

func TestAnObjectIsTheClustersByItsOwnerOrByItsLabelIfNobodyElseOwnsIt(t *testing.T) {
	t.Parallel()
	user := ownedBy("kafka.strimzi.io/v1", "KafkaUser", "app", "2")
	shop := ownedBy("apps/v1", "Deployment", "shop", "3")
	for name, c := range map[string]struct {
		object  []mark
		ours    bool
		another string
	}{
		"nothing marks it":                             {},
		"its Kafka owns it":                            {object: []mark{ownedByIts("1")}, ours: true},
		"its Kafka controls it":                        {object: []mark{ownedByIts("1"), controlled}, ours: true},
		"it has the label":                             {object: []mark{labelled("my")}, ours: true},
		"it has another cluster's label":               {object: []mark{labelled("other")}},
		"labelled, and another controls it":            {object: []mark{labelled("my"), shop, controlled}, another: "shop"},
		"owned, and another controls it":               {object: []mark{ownedByIts("1"), shop, controlled}, another: "shop"},
		"labelled, and a user owns it":                 {object: []mark{labelled("my"), user}, another: "app"},
		"owned, and a user owns it too":                {object: []mark{ownedByIts("1"), user}, ours: true},
		"labelled, and what has no labels owns it":     {object: []mark{labelled("my"), shop}, ours: true},
		"labelled, and owned by its Kafka before":      {object: []mark{labelled("my"), ownedByIts("0")}, ours: true},
		"labelled, and controlled by its Kafka before": {object: []mark{labelled("my"), ownedByIts("0"), controlled}, another: "my"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, object := ofMy(), marked(c.object)
			if got := o.isOurs(&object); got != c.ours {
				t.Errorf("it is the cluster's: %t, want %t", got, c.ours)
			}
			who := ""
			if owner := otherOwner(&object, o); owner != nil {
				who = owner.Name
			}
			if who != c.another {
				t.Errorf("it belongs to %q, want %q", who, c.another)
			}
		})
	}
}

func TestAnObjectWithoutOwnerAndLabelIsUnmarked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		object   []mark
		unmarked bool
	}{
		"nothing marks it":            {[]mark{byThisOperator}, true},
		"it has the label":            {[]mark{labelled("my")}, false},
		"it has another's label":      {[]mark{labelled("other")}, false},
		"its Kafka before owns it":    {[]mark{ownedByIts("0")}, false},
		"something else has taken it": {[]mark{ownedBy("apps/v1", "Deployment", "shop", "3")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if object := marked(c.object); isUnmarked(&object) != c.unmarked {
				t.Errorf("it is unmarked: %t, want %t", !c.unmarked, c.unmarked)
			}
		})
	}
}

func TestPodSetsAreTakenFromThisOperatorAndOthersAreToldApart(t *testing.T) {
	t.Parallel()
	renamed := func(object *metav1.ObjectMeta) { object.Name = "my-copy" }
	traced := func(object *metav1.ObjectMeta) { object.Annotations = map[string]string{model.NodesAnnotation: "{}"} }
	take, takeOwner := (*observation).takePodSet, (*observation).takeOwner
	for name, c := range map[string]struct {
		take     func(*observation, *podsetv1.StrimziPodSet)
		set      []mark
		taken    bool
		anothers map[string]bool
	}{
		"written, and labelled":               {take: take, set: []mark{byThisOperator, labelled("my")}, taken: true},
		"written, and owned":                  {take: take, set: []mark{byThisOperator, ownedByIts("1")}, taken: true},
		"written, and nothing marks it":       {take: take, set: []mark{byThisOperator}, taken: true},
		"written, and another's by its label": {take: take, set: []mark{byThisOperator, labelled("other")}},
		"not applied, and labelled":           {take: take, set: []mark{updatedByThisOperator, labelled("my")}, anothers: map[string]bool{"my-pool": true}},
		"not applied, and nothing marks it":   {take: take, set: []mark{updatedByThisOperator}},
		"another's, of a pool":                {take: take, set: []mark{byAnother, labelled("my")}, anothers: map[string]bool{"my-pool": true}},
		"another's, owned by the Kafka":       {take: take, set: []mark{byAnother, renamed, ownedByIts("1")}, anothers: map[string]bool{"my-copy": true}},
		"another's, of no pool":               {take: take, set: []mark{byAnother, renamed, labelled("my")}, anothers: map[string]bool{"my-copy": false}},
		"another's, of another cluster":       {take: take, set: []mark{byAnother, labelled("other")}},
		"another's, and nothing marks it":     {take: take, set: []mark{byAnother}},
		"another's, with a trace":             {take: take, set: []mark{byAnother, labelled("my"), traced}, anothers: map[string]bool{"my-pool": true}},
		"of pods, with a trace":               {take: takeOwner, set: []mark{byAnother, labelled("my"), traced}, taken: true},
		"of pods, without a trace":            {take: takeOwner, set: []mark{byAnother, labelled("my")}, anothers: map[string]bool{"my-pool": true}},
		"of pods, of another cluster":         {take: takeOwner, set: []mark{byAnother, labelled("other"), traced}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, set := ofMy(), &podsetv1.StrimziPodSet{ObjectMeta: marked(c.set)}
			c.take(o, set)
			if _, taken := o.podSets[set.Name]; taken != c.taken {
				t.Errorf("it is taken: %t, want %t", taken, c.taken)
			}
			if !maps.Equal(o.anothersSets, c.anothers) {
				t.Errorf("another operator's sets are %v, want %v", o.anothersSets, c.anothers)
			}
		})
	}
}

func TestAPodSetThatTheOperatorHasWrittenAfterAllIsNoLongerAnothers(t *testing.T) {
	t.Parallel()
	o := ofMy()
	for _, writer := range []mark{byAnother, byThisOperator} {
		o.takePodSet(&podsetv1.StrimziPodSet{ObjectMeta: marked([]mark{labelled("my"), writer})})
	}
	if _, taken := o.podSets["my-pool"]; !taken || len(o.anothersSets) > 0 {
		t.Errorf("taken: %t; another operator's: %v", taken, o.anothersSets)
	}
}
