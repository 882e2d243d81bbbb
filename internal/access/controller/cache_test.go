package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func cachedKafka() *kafkav1.Kafka {
	kafka := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-cluster", UID: "1", ResourceVersion: "1", Generation: 1}}
	kafka.Spec.Kafka.Listeners = []kafkav1.Listener{{Name: "tls", TLS: true}}
	kafka.Status.Listeners = []kafkav1.ListenerStatus{{Name: "tls", BootstrapServers: "host:9093", Certificates: []string{"first"}}}
	return kafka
}

func cachedUser() *kafkav1.KafkaUser {
	user := &kafkav1.KafkaUser{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kafka", Name: "my-user", UID: "1", ResourceVersion: "1", Labels: map[string]string{"strimzi.io/cluster": "my-cluster"},
	}}
	user.Spec.Authentication = &kafkav1.UserAuthentication{Type: kafkav1.UserTLS}
	user.Status.Secret, user.Status.Username = "my-user", "CN=my-user"
	return user
}

// isUpdateNews is what the predicate says of a change, as the cache keeps both versions.
func isUpdateNews(t *testing.T, before, after client.Object) bool {
	t.Helper()
	after.SetResourceVersion("2")
	versions := make([]client.Object, 0, 2)
	for _, object := range []client.Object{before, after} {
		kept, err := mentioned(object)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, kept.(client.Object))
	}
	return isNews().Update(event.UpdateEvent{ObjectOld: versions[0], ObjectNew: versions[1]})
}

func TestChangesOfAKafkaAreNewsIfASecretDependsOnThem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(kafka *kafkav1.Kafka)
		want   bool
	}{
		"nothing":         {change: func(*kafkav1.Kafka) {}},
		"a condition":     {change: func(k *kafkav1.Kafka) { k.Status.Conditions = []condition.Condition{{Type: condition.Ready}} }},
		"a configuration": {change: func(k *kafkav1.Kafka) { k.Generation, k.Spec.Kafka.Version = 2, "4.3.1" }},
		"a certificate":   {change: func(k *kafkav1.Kafka) { k.Status.Listeners[0].Certificates[0] = "second" }},
		"a listener":      {change: func(k *kafkav1.Kafka) { k.Spec.Kafka.Listeners[0].TLS = false }, want: true},
		"an address":      {change: func(k *kafkav1.Kafka) { k.Status.Listeners[0].BootstrapServers = "elsewhere:9093" }, want: true},
		"another Kafka":   {change: func(k *kafkav1.Kafka) { k.UID = "2" }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := cachedKafka()
			test.change(after)
			if got := isUpdateNews(t, cachedKafka(), after); got != test.want {
				t.Errorf("it is news: %t, want %t", got, test.want)
			}
		})
	}
}

func TestChangesOfAUserAreNewsIfASecretDependsOnThem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(user *kafkav1.KafkaUser)
		want   bool
	}{
		"a condition":        {change: func(u *kafkav1.KafkaUser) { u.Status.Conditions = []condition.Condition{{Type: condition.Ready}} }},
		"its Secret":         {change: func(u *kafkav1.KafkaUser) { u.Status.Secret = "pre-my-user" }, want: true},
		"its name":           {change: func(u *kafkav1.KafkaUser) { u.Status.Username = "my-user" }, want: true},
		"its authentication": {change: func(u *kafkav1.KafkaUser) { u.Spec.Authentication.Type = kafkav1.UserSCRAM }, want: true},
		"its cluster":        {change: func(u *kafkav1.KafkaUser) { u.Labels["strimzi.io/cluster"] = "other" }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := cachedUser()
			test.change(after)
			if got := isUpdateNews(t, cachedUser(), after); got != test.want {
				t.Errorf("it is news: %t, want %t", got, test.want)
			}
		})
	}
}

// What the cache selects and what is watched by name must be each other's complement: a Secret in neither would
// change unnoticed.
func TestASecretIsWatchedByItsLabelOrByItsName(t *testing.T) {
	t.Parallel()
	var selector labels.Selector
	for object, by := range CacheOptions(nil).ByObject {
		if _, is := object.(*corev1.Secret); is {
			selector = by.Label
		}
	}
	for _, manager := range []string{"strimzi-cluster-operator", "strimzi-user-operator", "kafka-access-operator", "helm", ""} {
		of := map[string]string{"app.kubernetes.io/managed-by": manager}
		if manager == "" {
			of = nil
		}
		if selector.Matches(labels.Set(of)) != isLabelled(of) {
			t.Errorf("managed by %q: the cache has it: %t, it is not watched by name: %t", manager, selector.Matches(labels.Set(of)), isLabelled(of))
		}
	}
}

func TestTheCacheKeepsNoContent(t *testing.T) {
	t.Parallel()
	kept, err := mentioned(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kafka", Name: "my-user", ResourceVersion: "1",
		Annotations:   map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "password"},
		ManagedFields: []metav1.ManagedFieldsEntry{{}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if metadata := kept.(*metav1.PartialObjectMetadata); metadata.Annotations != nil || metadata.ManagedFields != nil || metadata.Name != "my-user" {
		t.Errorf("the cache keeps %+v", metadata)
	}
}
