package model

import (
	corev1 "k8s.io/api/core/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/imagepull"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

// nodeTemplate is what is added to the pods of a pool: its own template replaces that of the Kafka as a whole, as in Strimzi.
// The pool is nil when its resource is gone.
func nodeTemplate(kafka *kafkav1.Kafka, pool *kafkav1.KafkaNodePool) *kafkav1.PodTemplate {
	switch template := kafka.Spec.Kafka.Template; {
	case pool != nil && pool.Spec.Template != nil:
		return pool.Spec.Template.Pod
	case template != nil:
		return template.Pod
	default:
		return nil
	}
}

// pullSecrets are the Secrets that the images of pods are pulled with: those of the template, also if these are none, or
// those of the operator. A template may be wrong while a node is lost: what is wrong in it is left out.
func (s Settings) pullSecrets(template *kafkav1.PodTemplate) []corev1.LocalObjectReference {
	if template == nil || template.ImagePullSecrets == nil {
		return s.PullSecrets
	}
	usable, _ := imagepull.Usable(references(template))
	return usable
}

// PullReasons says why the pod of a node is to be replaced that waits for its image: another one has a pull Secret that this
// one lacks. A pod that has its image needs none, so that no change of pull Secrets restarts it.
func (c Cluster) PullReasons(node Node, pod *corev1.Pod) []rollout.Reason {
	pool, _ := c.Pool(node.Pool)
	if !imagepull.Lacks(pod, pool.pullSecrets) {
		return nil
	}
	return []rollout.Reason{{Code: rollout.PodSpecChanged, Note: "the pod waits for its image without a pull Secret that is set now"}}
}

func references(template *kafkav1.PodTemplate) []corev1.LocalObjectReference {
	secrets := make([]corev1.LocalObjectReference, 0, len(template.ImagePullSecrets))
	for _, secret := range template.ImagePullSecrets {
		secrets = append(secrets, corev1.LocalObjectReference{Name: secret.Name})
	}
	return secrets
}

// checkTemplate refuses a template of which a part of the pull Secrets would be left out.
func (r *resolver) checkTemplate(object, path string, template *kafkav1.PodTemplate) {
	if template == nil {
		return
	}
	_, wrong := imagepull.Usable(references(template))
	for _, problem := range wrong {
		r.errorf(object, "%s.pod.imagePullSecrets: %s: name each Secret once", path, problem)
	}
}

func (r *resolver) checkTemplates() {
	spec := r.in.Kafka.Spec
	if template := spec.Kafka.Template; template != nil {
		r.checkTemplate(r.kafkaObject(), "spec.kafka.template", template.Pod)
	}
}

// withPullSecrets adds Secrets to a pod.
func withPullSecrets(pod *coreac.PodSpecApplyConfiguration, secrets []corev1.LocalObjectReference) *coreac.PodSpecApplyConfiguration {
	for _, secret := range secrets {
		pod.WithImagePullSecrets(coreac.LocalObjectReference().WithName(secret.Name))
	}
	return pod
}
