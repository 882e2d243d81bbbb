package apitest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/publication"
)

// Whoever may annotate pods may write any number.
func TestARevisionBeyondAllCountingOnAPodIsNobodys(t *testing.T) {
	t.Parallel()
	for name, number := range map[string]string{"the highest number": "9223372036854775807", "the highest revision": "1099511627776"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			w.annotate(&corev1.Pod{}, "my-dual-0", map[string]any{agent.PublishedAnnotation: number})
			w.configure("log.retention.hours", "12")
			w.settle()
			published, err := publication.ParsePublication(w.secret("my-dual-0").Data[agent.PublicationKey])
			if err != nil || published.Revision > 100 {
				t.Errorf("revision %d is published: %v", published.Revision, err)
			}
		})
	}
}
