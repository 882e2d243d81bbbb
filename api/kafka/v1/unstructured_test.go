package v1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// The operator reads Kafkas as they were written and converts them, which is another way than JSON.
func TestConfigSurvivesTheWayThroughUnstructured(t *testing.T) {
	t.Parallel()
	object := map[string]any{"spec": map[string]any{"kafka": map[string]any{"config": map[string]any{
		"integer": int64(3), "fraction": 0.5, "boolean": true, "text": "a", "nothing": nil,
	}}}}
	var kafka kafkav1.Kafka
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &kafka); err != nil {
		t.Fatal(err)
	}
	want := kafkav1.Config{"integer": "3", "fraction": "0.5", "boolean": "true", "text": "a", "nothing": ""}
	if diff := cmp.Diff(want, kafka.Spec.Kafka.Config); diff != "" {
		t.Errorf("config differs (-want +got):\n%s", diff)
	}
}
