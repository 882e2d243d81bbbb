package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// logLines are kept of each container's log.
const logLines = 2000

// Diagnose writes down what a person would look at after a failure: resources,
// events, pods and logs, and no Secret.
func (k Kafka) Diagnose(ctx context.Context, folder string) error {
	folder = filepath.Join(folder, "diagnostics")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making folder of diagnostics: %w", err)
	}
	var problems []error
	for name, list := range map[string]client.ObjectList{
		"kafkas": &kafkav1.KafkaList{}, "kafkanodepools": &kafkav1.KafkaNodePoolList{}, "strimzipodsets": &podsetv1.StrimziPodSetList{},
		"pods": &corev1.PodList{}, "events": &eventsv1.EventList{}, "configmaps": &corev1.ConfigMapList{},
		"services": &corev1.ServiceList{}, "claims": &corev1.PersistentVolumeClaimList{},
		"kafkausers": &kafkav1.KafkaUserList{}, "kafkaaccesses": &accessv1alpha1.KafkaAccessList{}, "deployments": &appsv1.DeploymentList{},
		"etcdclusters": &etcdv1beta2.EtcdClusterList{},
	} {
		problems = append(problems, k.dump(ctx, filepath.Join(folder, name+".yaml"), list))
	}
	pods := &corev1.PodList{}
	problems = append(problems, k.Kube.List(ctx, pods, client.InNamespace(k.Namespace)))
	operators := &corev1.PodList{}
	problems = append(problems, k.Kube.List(ctx, operators, client.InNamespace(OperatorNamespace)))
	all := slices.Concat(pods.Items, operators.Items)
	for i := range all {
		problems = append(problems, k.logs(ctx, folder, &all[i]))
	}
	return errors.Join(problems...)
}

func (k Kafka) dump(ctx context.Context, file string, list client.ObjectList) error {
	if err := k.Kube.List(ctx, list, client.InNamespace(k.Namespace)); err != nil {
		return fmt.Errorf("listing %T: %w", list, err)
	}
	data, err := yaml.Marshal(list)
	if err != nil {
		return fmt.Errorf("encoding %T: %w", list, err)
	}
	return os.WriteFile(file, data, 0o644)
}

// logs keeps those of the present and of the previous containers.
func (k Kafka) logs(ctx context.Context, folder string, pod *corev1.Pod) error {
	var problems []error
	for _, container := range pod.Spec.Containers {
		for suffix, previous := range map[string]bool{"": false, "-previous": true} {
			options := &corev1.PodLogOptions{Container: container.Name, Previous: previous, TailLines: new(int64(logLines))}
			data, err := k.Kube.Plain.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
			if err != nil {
				continue // a container that has not run has no log
			}
			name := fmt.Sprintf("%s-%s%s.log", pod.Name, container.Name, suffix)
			problems = append(problems, os.WriteFile(filepath.Join(folder, name), data, 0o644))
		}
	}
	return errors.Join(problems...)
}
