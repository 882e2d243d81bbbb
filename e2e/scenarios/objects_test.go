package scenarios

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/e2e/harness"
)

// handEditsArePutBack changes and deletes what the operator made.
func handEditsArePutBack(s *stage) {
	s.onShared()
	s.underLoad(harness.EveryKind()...)
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	foreign := s.foreignPod()

	service := &corev1.Service{}
	s.must(s.kube.Get(s.ctx, s.kafka.Key("my-cluster-kafka-bootstrap"), service))
	s.step("a Service is put back", func() error {
		edited := service.DeepCopy()
		edited.Spec.Ports[1].TargetPort = intstr.FromInt32(1234)
		err := s.kube.MergePatch(s.ctx, service.DeepCopy(), map[string]any{"spec": map[string]any{
			"ports": edited.Spec.Ports, "selector": map[string]any{"wrong": "pods"},
		}})
		if err != nil {
			return err
		}
		return s.untilObject(&corev1.ServiceList{}, service.Name, func(object client.Object) bool {
			now, ok := object.(*corev1.Service)
			return ok && equality.Semantic.DeepEqual(now.Spec, service.Spec)
		})
	})
	config := &corev1.ConfigMap{}
	s.must(s.kube.Get(s.ctx, s.kafka.Key(before.Names()[0]), config))
	text := config.Data["server.config"]
	s.step("a ConfigMap is put back", func() error {
		if err := s.kube.MergePatch(s.ctx, config.DeepCopy(), map[string]any{"data": map[string]any{"server.config": text + "\nauto.create.topics.enable=false\n"}}); err != nil {
			return err
		}
		return s.untilObject(&corev1.ConfigMapList{}, config.Name, func(object client.Object) bool {
			now, ok := object.(*corev1.ConfigMap)
			return ok && now.Data["server.config"] == text
		})
	})
	for name, list := range map[string]client.ObjectList{
		"my-cluster-cluster-ca-trusted-certs": &corev1.SecretList{},
		"my-cluster-kafka-brokers":            &corev1.ServiceList{},
		"my-cluster-network-policy-kafka":     &networkingv1.NetworkPolicyList{},
		"my-cluster-kafka":                    &policyv1.PodDisruptionBudgetList{},
		before.Names()[1]:                     &corev1.ConfigMapList{},
	} {
		s.step(fmt.Sprintf("deleted %s is made again", name), func() error { return s.deleted(name, list) })
	}
	s.step("settled", func() error { return s.kafka.UntilSettled(s.ctx) })
	s.quietly()
	s.restarted(before.Names(), 0)

	now := &corev1.Pod{}
	s.must(s.kube.Get(s.ctx, client.ObjectKeyFromObject(foreign), now))
	if now.UID != foreign.UID || now.DeletionTimestamp != nil || len(now.OwnerReferences) > 0 {
		s.Errorf("pod %s, which somebody else made with labels of the cluster, was touched", foreign.Name)
	}
	s.must(s.kube.Delete(s.ctx, now, client.GracePeriodSeconds(0)))
}

// deleted deletes an object and waits for its successor.
func (s *stage) deleted(name string, list client.ObjectList) error {
	var gone client.Object
	err := s.untilObject(list, name, func(object client.Object) bool {
		gone = object
		return true
	})
	if err != nil {
		return err
	}
	if err := s.kube.Delete(s.ctx, gone); err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return s.untilObject(list, name, func(object client.Object) bool { return object.GetUID() != gone.GetUID() })
}

// untilObject waits for an object that exists and is as asked for.
func (s *stage) untilObject(list client.ObjectList, name string, holds func(client.Object) bool) error {
	return s.untilObjectIn(s.kafka.Namespace, list, name, holds)
}

// untilObjectIn is untilObject for an object of another namespace.
func (s *stage) untilObjectIn(namespace string, list client.ObjectList, name string, holds func(client.Object) bool) error {
	err := s.kube.Follow(s.ctx, list, func(objects harness.Objects) (bool, error) {
		object, found := objects[name]
		return found && holds(object), nil
	}, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", name, err)
	}
	return nil
}

// foreignPod is one with labels of the cluster that no pod set of it owns. It is
// never scheduled, so that no client is led to it.
func (s *stage) foreignPod() *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: s.meta(clusterName + "-dual-role-7")}
	model := &corev1.Pod{}
	s.must(s.kube.Get(s.ctx, s.kafka.Key(clusterName+"-dual-role-0"), model))
	pod.Labels = model.Labels
	pod.Labels["strimzi.io/pod-name"] = pod.Name
	pod.Spec.NodeSelector = map[string]string{"no": "such-node"}
	pod.Spec.Containers = []corev1.Container{{Name: "kafka", Image: "example.com/nothing"}}
	s.must(s.kube.Create(s.ctx, pod))
	return pod
}
