package model

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
)

func TestATopicWithoutAnOperatorSaysWhichIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"no label": {nil, "Add the label with the name of its Kafka."},
		"a label":  {map[string]string{kafkamodel.ClusterLabel: "my-cluster"}, "Switch on that of Kafka my-cluster: with spec.entityOperator.topicOperator"},
	} {
		if got := Unattended().Message(&metav1.ObjectMeta{Labels: c.labels}); !strings.Contains(got, c.want) {
			t.Errorf("%s: it says %q, want %q", name, got, c.want)
		}
	}
}
