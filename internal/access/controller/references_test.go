package controller

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "kafka", Name: name}
}

func referrers(r *references, kind kind, name string) string {
	accesses := r.to(reference{kind, named(name)})
	found := make([]string, 0, len(accesses))
	for _, access := range accesses {
		found = append(found, access.Name)
	}
	slices.Sort(found)
	return strings.Join(found, ",")
}

func TestReferencesAreThoseOfTheLastReconcile(t *testing.T) {
	t.Parallel()
	r := newReferences()
	kafka, secret := reference{ofKafka, named("my-cluster")}, reference{ofSecret, named("my-cluster")}
	r.add(named("first"), kafka)
	r.add(named("first"), secret)
	r.add(named("second"), kafka)

	if got := referrers(r, ofKafka, "my-cluster"); got != "first,second" {
		t.Errorf("the Kafka is referred to by %q", got)
	}
	if got := referrers(r, ofSecret, "my-cluster"); got != "first" {
		t.Errorf("the Secret is referred to by %q", got)
	}
	if got := referrers(r, ofUser, "my-cluster"); got != "" {
		t.Errorf("a KafkaUser of the same name is referred to by %q", got)
	}

	r.trim(named("first"), map[reference]string{secret: "1"})
	if got := referrers(r, ofKafka, "my-cluster") + " " + referrers(r, ofSecret, "my-cluster"); got != "second first" {
		t.Errorf("after the first one was trimmed, the referrers are %q", got)
	}
	r.trim(named("first"), nil)
	r.trim(named("second"), nil)
	if left := len(r.accesses) + len(r.of); left != 0 {
		t.Errorf("%d references are left of what is gone", left)
	}
}
