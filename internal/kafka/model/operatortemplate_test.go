package model

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func withEnv(names ...string) *kafkav1.EntityOperator {
	var env []corev1.EnvVar
	for _, name := range names {
		env = append(env, corev1.EnvVar{Name: name, Value: "a"})
	}
	container := &kafkav1.OperatorContainerTemplate{Env: written(env)}
	return &kafkav1.EntityOperator{Template: &kafkav1.EntityOperatorTemplate{TopicOperatorContainer: container}}
}

// written is a value as it is in a manifest.
func written(value any) *runtime.RawExtension {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return &runtime.RawExtension{Raw: data}
}

func scheduling() corev1.PodSpec {
	return corev1.PodSpec{
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
	want := scheduling()
	template := &kafkav1.OperatorPodTemplate{
		Affinity: written(want.Affinity), Tolerations: written(want.Tolerations), TopologySpreadConstraints: written(want.TopologySpreadConstraints),
		PriorityClassName: want.PriorityClassName, SchedulerName: want.SchedulerName,
	}
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
	want.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "operators"}}
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

// Whoever may write a Kafka may not read Secrets by that.
func TestAVariableFromASecretIsRefused(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	env := []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "password"}}}}
	in.Kafka.Spec.EntityOperator = &kafkav1.EntityOperator{Template: &kafkav1.EntityOperatorTemplate{UserOperatorContainer: &kafkav1.OperatorContainerTemplate{Env: written(env)}}}
	_, findings := Resolve(in)
	if err := findings.Err(); err == nil || !strings.Contains(err.Error(), "template.userOperatorContainer.env must not take A from a Secret") {
		t.Errorf("error %v, want that it is refused", err)
	}
}

func TestVariablesOfStrimzisOperatorsAreNamed(t *testing.T) {
	t.Parallel()
	in := withOperatorsSecret()
	in.Kafka.Spec.EntityOperator = withEnv("STRIMZI_USE_FINALIZERS", "HTTPS_PROXY", "STRIMZI_ALTERABLE_TOPIC_CONFIG")
	_, findings := resolved(t, in)
	i := slices.IndexFunc(findings.Warnings, func(f Finding) bool { return f.Reason == ReasonDiffersFromSpec })
	const says = "template.topicOperatorContainer.env has variables that Keyturn's operators do not read: STRIMZI_ALTERABLE_TOPIC_CONFIG, STRIMZI_USE_FINALIZERS;"
	if i < 0 || !strings.Contains(findings.Warnings[i].Message, says) {
		t.Errorf("warnings %+v, want one that says %q", findings.Warnings, says)
	}
}

// Weights are of 32 bits, and the API server lets larger ones pass.
func TestAKafkaWhoseTemplateCannotBeReadIsDecodedAndNamesIt(t *testing.T) {
	t.Parallel()
	for path, text := range map[string]string{
		"template.pod":                        `{"pod": {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3000000000}]}}}}`,
		"template.topicOperatorContainer.env": `{"topicOperatorContainer": {"env": {"name": "a"}}}`,
	} {
		in := exampleInput()
		in.Kafka.Spec.EntityOperator = &kafkav1.EntityOperator{Template: &kafkav1.EntityOperatorTemplate{}}
		if err := json.Unmarshal([]byte(text), in.Kafka.Spec.EntityOperator.Template); err != nil {
			t.Errorf("%s keeps the Kafka, and with it all others, from being decoded: %v", path, err)
		}
		_, findings := Resolve(in)
		if err := findings.Err(); err == nil || !strings.Contains(err.Error(), path+" cannot be read") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}
