package harness

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImagesBecomeValues(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		images  images
		further map[string]any
		want    string
		fails   bool
	}{
		"a registry with a port": {
			images: images{operator: "registry:5000/keyturn:1.0", kafka: "4.3.1=apache/kafka:4.3.1"},
			want:   `{"image":{"pullPolicy":"IfNotPresent","repository":"registry:5000/keyturn","tag":"1.0"},"kafkaImages":[{"image":"apache/kafka:4.3.1","version":"4.3.1"}]}`,
		},
		"content that replaces pods": {
			images: images{operator: "k:dev", kafka: "4.3.1=i", content: "abc"},
			want:   `{"image":{"pullPolicy":"IfNotPresent","repository":"k","tag":"dev"},"kafkaImages":[{"image":"i","version":"4.3.1"}],"podAnnotations":{"keyturn.dev/content":"abc"}}`,
		},
		"what a scenario adds": {
			images:  images{operator: "k:dev", kafka: "4.3.1=i"},
			further: map[string]any{"accessOperator": map[string]any{"enabled": true}},
			want:    `{"accessOperator":{"enabled":true},"image":{"pullPolicy":"IfNotPresent","repository":"k","tag":"dev"},"kafkaImages":[{"image":"i","version":"4.3.1"}]}`,
		},
		"an image without a tag":            {images: images{operator: "registry:5000/keyturn", kafka: "4.3.1=i"}, fails: true},
		"a Kafka image without its version": {images: images{operator: "k:dev", kafka: "apache/kafka:4.3.1"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.images.values(test.further)
			if test.fails != (err != nil) {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManifestsAreReadAndChanged(t *testing.T) {
	t.Parallel()
	manifest, err := ParseManifest([]byte("# a comment\nkind: A\nmetadata: {name: a}\n---\nkind: B\nmetadata: {name: b}\nspec: {replicas: 3}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 2 {
		t.Fatalf("%d objects were read", len(manifest))
	}
	if err := manifest.Set("B", "b", int64(0), "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"replicas": int64(0)}, manifest[1].Object["spec"]); diff != "" {
		t.Error(diff)
	}
	if err := manifest.Set("B", "a", int64(0), "spec", "replicas"); err == nil {
		t.Error("an object that is not there is changed")
	}
}

func TestABrokerIsReplacedInItsPartitions(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]int32{0, 2, 1}, without([]int32{0, 3, 2}, 3, []int32{0, 1, 2})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int32{0, 1, 2}, without([]int32{0, 1, 2, 3}, 3, []int32{0, 1, 2})); diff != "" {
		t.Error(diff)
	}
}
