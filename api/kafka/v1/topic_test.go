package v1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// What is written as a list is one value in Kafka, whichever way the operator reads the object.
func TestSettingsOfATopicAreReadAsTheTextThatKafkaHas(t *testing.T) {
	t.Parallel()
	object := map[string]any{"spec": map[string]any{"config": map[string]any{
		"integer": int64(3), "fraction": 0.5, "boolean": true, "text": "a", "nothing": nil,
		"list": []any{"compact", "delete"}, "numbers": []any{int64(1), int64(2)}, "empty": []any{},
	}}}
	want := kafkav1.TopicConfig{
		"integer": "3", "fraction": "0.5", "boolean": "true", "text": "a", "nothing": "",
		"list": "compact,delete", "numbers": "1,2", "empty": "",
	}
	var converted, parsed kafkav1.KafkaTopic
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &converted); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &parsed); err != nil {
		t.Fatal(err)
	}
	for way, topic := range map[string]kafkav1.KafkaTopic{"unstructured": converted, "JSON": parsed} {
		if diff := cmp.Diff(want, topic.Spec.Config); diff != "" {
			t.Errorf("by %s, the settings differ (-want +got):\n%s", way, diff)
		}
	}
}
