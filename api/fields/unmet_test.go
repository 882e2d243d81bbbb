package fields

import (
	"slices"
	"testing"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// A line that names no field without effect is misspelled, or the field is acted on by now.
func TestEveryFieldThatIsMissedIsOneWithoutEffect(t *testing.T) {
	t.Parallel()
	kinds := map[string]Paths{"Kafka": PathsOf[kafkav1.Kafka](), "KafkaNodePool": PathsOf[kafkav1.KafkaNodePool]()}
	for kind, listed := range unmet() {
		for _, line := range listed {
			isNamed := func(path string) bool { return names(line, path) }
			if !slices.ContainsFunc(kinds[kind].Unmet, isNamed) {
				t.Errorf("%s of a %s names no field without effect", line, kind)
			}
		}
	}
}
