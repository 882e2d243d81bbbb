package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
		template kafkav1.MetadataTemplate
		stored   string
		want     kube.SecretIntent
	}{
		"nothing was ever in it": {kafkav1.MetadataTemplate{}, "", own()},
		"it is remembered what is in it": {
			kafkav1.MetadataTemplate{Labels: map[string]string{"team": "x", "ours": "2"}, Annotations: map[string]string{"note": "y"}},
			"",
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1", "team": "x"},
				Annotations: map[string]string{"generation": "0", "note": "y", templateAnnotation: remembered},
			},
		},
		"one key is taken out": {
			kafkav1.MetadataTemplate{Labels: map[string]string{"team": "x"}},
			remembered,
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1", "team": "x"}, RemoveAnnotations: []string{"note"},
				Annotations: map[string]string{"generation": "0", templateAnnotation: `{"labels":["team"]}`},
			},
		},
		"everything is taken out": {
			kafkav1.MetadataTemplate{},
			remembered,
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1"}, Annotations: map[string]string{"generation": "0"},
				RemoveLabels: []string{"team"}, RemoveAnnotations: []string{"note", templateAnnotation},
			},
		},
		"a request that a template has made before is taken out, and labels that are rejected since": {
			kafkav1.MetadataTemplate{Labels: map[string]string{"team": "x"}},
			`{"labels":["strimzi.io/x","team"],"annotations":["generation","strimzi.io/force-renew"]}`,
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1", "team": "x"},
				RemoveLabels: []string{"strimzi.io/x"}, RemoveAnnotations: []string{"strimzi.io/force-renew"},
				Annotations: map[string]string{"generation": "0", templateAnnotation: `{"labels":["team"]}`},
			},
		},
		"somebody has made the memory unreadable": {
			kafkav1.MetadataTemplate{},
			"x",
			kube.SecretIntent{
				Name: "s", Labels: map[string]string{"ours": "1"}, Annotations: map[string]string{"generation": "0"},
				RemoveAnnotations: []string{templateAnnotation},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := map[string]string{}
			if c.stored != "" {
				stored[templateAnnotation] = c.stored
			}
			intent := own()
			addTemplate(&intent, c.template, stored)
			if diff := cmp.Diff(c.want, intent); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
