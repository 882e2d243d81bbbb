package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kube"
)

func TestWhatIsTakenOutOfATemplateLeavesTheSecret(t *testing.T) {
	t.Parallel()
	const remembered = `{"labels":["team"],"annotations":["note"]}`
	own := func() kube.SecretIntent {
		return kube.SecretIntent{Name: "s", Labels: map[string]string{"ours": "1"}, Annotations: map[string]string{"generation": "0"}}
	}
	for name, c := range map[string]struct {
		template *kafkav1.MetadataTemplate
		stored   string
		want     kube.SecretIntent
	}{
		"nothing was ever in it": {nil, "", own()},
		"it is remembered what is in it": {
			&kafkav1.MetadataTemplate{Labels: map[string]string{"team": "x", "ours": "2"}, Annotations: map[string]string{"note": "y"}}, "",
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1", "team": "x"},
				Annotations: map[string]string{"generation": "0", "note": "y", templateAnnotation: remembered},
			},
		},
		"one key is taken out": {
			&kafkav1.MetadataTemplate{Labels: map[string]string{"team": "x"}}, remembered,
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1", "team": "x"}, RemoveAnnotations: []string{"note"},
				Annotations: map[string]string{"generation": "0", templateAnnotation: `{"labels":["team"]}`},
			},
		},
		"everything is taken out": {
			nil, remembered,
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1"}, Annotations: map[string]string{"generation": "0"},
				RemoveLabels: []string{"team"}, RemoveAnnotations: []string{"note", templateAnnotation},
			},
		},
		"somebody has made the memory unreadable": {
			nil, "x",
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1"}, Annotations: map[string]string{"generation": "0"},
				RemoveAnnotations: []string{templateAnnotation},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &pass{observation: &observation{secrets: map[string]corev1.Secret{}}}
			if c.template != nil {
				p.kafka.Spec.Kafka.Template = &kafkav1.KafkaTemplate{ClusterCaCert: &kafkav1.ResourceTemplate{Metadata: c.template}}
			}
			if c.stored != "" {
				p.secrets["s"] = corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{templateAnnotation: c.stored}}}
			}
			intent := own()
			p.addTemplate(&intent)
			if diff := cmp.Diff(c.want, intent); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
