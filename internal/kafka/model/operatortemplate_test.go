package model

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func withEnv(names ...string) *kafkav1.EntityOperator {
	container := &kafkav1.OperatorContainerTemplate{}
	for _, name := range names {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: "a"})
	}
	return &kafkav1.EntityOperator{Template: &kafkav1.EntityOperatorTemplate{TopicOperatorContainer: container}}
}

func scheduled() *kafkav1.OperatorPodTemplate {
	return &kafkav1.OperatorPodTemplate{
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kafka", Operator: corev1.NodeSelectorOpExists}}}},
		}}},
		Tolerations: []corev1.Toleration{{Key: "kafka", Operator: corev1.TolerationOpExists}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{ClusterLabel: "my-cluster"}},
		}},
		PriorityClassName: "high", SchedulerName: "own",
	}
}

func TestThePodOfOperatorsRunsWhereItsTemplateSays(t *testing.T) {
	t.Parallel()
	in := withOperatorsSecret()
	template := scheduled()
	in.Kafka.Spec.EntityOperator = &kafkav1.EntityOperator{Template: &kafkav1.EntityOperatorTemplate{Pod: template}}
	cluster, _ := resolved(t, in)
	data, err := json.Marshal(cluster.OperatorPod())
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.PodSpec
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := corev1.PodSpec{
		Affinity: template.Affinity, Tolerations: template.Tolerations, TopologySpreadConstraints: template.TopologySpreadConstraints,
		PriorityClassName: "high", SchedulerName: "own", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "operators"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the pod differs (-want +got):\n%s", diff)
	}
}

func TestAnOperatorHasTheEnvironmentOfItsOwnContainer(t *testing.T) {
	t.Parallel()
	in := withOperatorsSecret()
	in.Kafka.Spec.EntityOperator = withEnv("HTTPS_PROXY")
	cluster, _ := resolved(t, in)
	for container, want := range map[string][]string{TopicOperatorContainer: {"HTTPS_PROXY=a"}, UserOperatorContainer: nil} {
		var got []string
		for _, variable := range cluster.OperatorContainer(container, nil).Env {
			got = append(got, *variable.Name+"="+*variable.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the environment of %s differs (-want +got):\n%s", container, diff)
		}
	}
}
