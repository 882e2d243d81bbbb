package apitest

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// Events are gone after an hour, and conditions show only the present.
func TestTheLogTellsTheCourseOfARotationAndNoKeys(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)

	w.replace(authorities.Cluster)
	w.settle()

	written := w.log.String()
	for _, want := range []string{
		`"reason":"CaKeyReplacementStarted"`, `"type":"ClusterCATrust","status":"False"`, `"type":"ClusterCATrust","status":"True","reason":"RaftRestartsPending"`,
		`"reason":"ClusterCaCertKeyReplaced"`, `"kafka":"` + w.namespace + `/my"`,
	} {
		if !strings.Contains(written, want) {
			t.Errorf("the log does not say %s", want)
		}
	}
	secrets := &corev1.SecretList{}
	if err := w.api.List(t.Context(), secrets, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	looked := 0
	for i := range secrets.Items {
		for key, value := range secrets.Items[i].Data {
			if !strings.HasSuffix(key, ".key") && !strings.HasSuffix(key, "password") {
				continue
			}
			looked++
			for line := range bytes.Lines(value) {
				text := strings.TrimSpace(string(line))
				if text != "" && strings.Contains(written, text) {
					t.Errorf("the log holds a line of %s of Secret %s", key, secrets.Items[i].Name)
				}
			}
		}
	}
	if looked == 0 {
		t.Error("no key was looked for")
	}
}
