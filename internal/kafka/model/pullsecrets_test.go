package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

// pulling is a template of pods with pull Secrets.
func pulling(names ...string) *kafkav1.PodTemplate {
	template := &kafkav1.PodTemplate{ImagePullSecrets: []kafkav1.ImagePullSecret{}}
	for _, name := range names {
		template.ImagePullSecrets = append(template.ImagePullSecrets, kafkav1.ImagePullSecret{Name: name})
	}
	return template
}

// withOperatorsSecret is an example whose operator has a pull Secret.
func withOperatorsSecret() Input {
	in := exampleInput()
	in.Settings.PullSecrets = []corev1.LocalObjectReference{{Name: "operators"}}
	return in
}

func namesOf(pod *coreac.PodSpecApplyConfiguration) []string {
	var names []string
	for _, secret := range pod.ImagePullSecrets {
		names = append(names, *secret.Name)
	}
	return names
}

func TestATemplateHasPullSecretsInPlaceOfTheOperators(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kafka *kafkav1.KafkaTemplate
		pool  *kafkav1.NodePoolTemplate
		want  []string
	}{
		"no template":                                {want: []string{"operators"}},
		"a template without pods":                    {kafka: &kafkav1.KafkaTemplate{}, want: []string{"operators"}},
		"a template of pods without any":             {kafka: &kafkav1.KafkaTemplate{Pod: &kafkav1.PodTemplate{}}, want: []string{"operators"}},
		"the Kafka's":                                {kafka: &kafkav1.KafkaTemplate{Pod: pulling("b", "a")}, want: []string{"b", "a"}},
		"an empty list":                              {kafka: &kafkav1.KafkaTemplate{Pod: pulling()}},
		"the pool's":                                 {kafka: &kafkav1.KafkaTemplate{Pod: pulling("a")}, pool: &kafkav1.NodePoolTemplate{Pod: pulling("c")}, want: []string{"c"}},
		"a template of the pool that says less":      {kafka: &kafkav1.KafkaTemplate{Pod: pulling("a")}, pool: &kafkav1.NodePoolTemplate{}, want: []string{"operators"}},
		"an empty list of the pool, and the Kafka's": {kafka: &kafkav1.KafkaTemplate{Pod: pulling("a")}, pool: &kafkav1.NodePoolTemplate{Pod: pulling()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := withOperatorsSecret()
			in.Kafka.Spec.Kafka.Template, in.Pools[0].Spec.Template = c.kafka, c.pool
			pod := firstPod(t, in, PodAnnotations{})
			if diff := cmp.Diff(c.want, namesOf(pod.Spec)); diff != "" {
				t.Errorf("pull Secrets (-want +got):\n%s", diff)
			}
			d := firstDescription(t, in)
			if diff := cmp.Diff(d.Pod.Spec.ImagePullSecrets, rendered(t, d).Spec.ImagePullSecrets); diff != "" {
				t.Errorf("pull Secrets (-described +rendered):\n%s", diff)
			}
		})
	}
}

func operatorsPulling(names ...string) *kafkav1.OperatorPodTemplate {
	return &kafkav1.OperatorPodTemplate{ImagePullSecrets: pulling(names...).ImagePullSecrets}
}

func TestOperatorsBesideTheNodesHavePullSecretsOfTheirOwnTemplate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		template *kafkav1.EntityOperatorTemplate
		want     []string
	}{
		"no template":             {nil, []string{"operators"}},
		"a template without pods": {&kafkav1.EntityOperatorTemplate{}, []string{"operators"}},
		"a template":              {&kafkav1.EntityOperatorTemplate{Pod: operatorsPulling("a")}, []string{"a"}},
		"an empty list":           {&kafkav1.EntityOperatorTemplate{Pod: operatorsPulling()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := withOperatorsSecret()
			in.Kafka.Spec.Kafka.Template = &kafkav1.KafkaTemplate{Pod: pulling("the-nodes")}
			in.Kafka.Spec.EntityOperator = &kafkav1.EntityOperator{UserOperator: &kafkav1.UserOperator{}, Template: c.template}
			cluster, _ := resolved(t, in)
			if diff := cmp.Diff(c.want, namesOf(cluster.OperatorPod())); diff != "" {
				t.Errorf("pull Secrets (-want +got):\n%s", diff)
			}
		})
	}
}

// A machine may die between a change of pull Secrets and the next restart, and while a template is wrong.
func TestALostNodeComesBackWithThePullSecretsOfNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Description)
		want   []corev1.LocalObjectReference
	}{
		"the operator's have changed": {func(d *Description) { d.Settings.PullSecrets[0].Name = "new" }, []corev1.LocalObjectReference{{Name: "new"}}},
		"the Kafka has got one": {
			func(d *Description) { d.Kafka.Spec.Kafka.Template = &kafkav1.KafkaTemplate{Pod: pulling("new")} },
			[]corev1.LocalObjectReference{{Name: "new"}},
		},
		"the pool has got one, and others that are wrong": {
			func(d *Description) {
				d.Pool.Spec.Template = &kafkav1.NodePoolTemplate{Pod: pulling("", "new", "new", "N")}
			},
			[]corev1.LocalObjectReference{{Name: "new"}},
		},
		"the pool is gone": {func(d *Description) { d.Pool = nil }, []corev1.LocalObjectReference{{Name: "operators"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := firstDescription(t, withOperatorsSecret())
			c.change(&d)
			if diff := cmp.Diff(c.want, rendered(t, d).Spec.ImagePullSecrets); diff != "" {
				t.Errorf("pull Secrets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPodIsReplacedForAPullSecretOnlyWhileItWaitsForItsImage(t *testing.T) {
	t.Parallel()
	cluster, _ := resolved(t, withOperatorsSecret())
	node := cluster.Nodes[0]
	running := &corev1.Pod{}
	if reasons := cluster.PullReasons(node, running); len(reasons) > 0 {
		t.Errorf("a pod that has its image is replaced for %v", reasons)
	}
	waiting := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}}}
	if diff := cmp.Diff([]rollout.ReasonCode{rollout.PodSpecChanged}, codes(cluster.PullReasons(node, waiting))); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	waiting.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "operators"}}
	if reasons := cluster.PullReasons(node, waiting); len(reasons) > 0 {
		t.Errorf("a pod that has the Secret is replaced for %v", reasons)
	}
}
