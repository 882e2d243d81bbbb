package scenarios

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
)

// extraPool has brokers only, and none at first.
const extraPool = "extra"

// wholeLife is the short proof that everything works together.
func wholeLife(s *stage) {
	manifest := withExtraPool(s, s.example("kafka-dual-role.yaml"))
	s.must(manifest.Set("Kafka", clusterName, false, "spec", "clusterCa", "generateSecretOwnerReference"))
	s.must(manifest.Set("Kafka", clusterName, false, "spec", "clientsCa", "generateSecretOwnerReference"))
	s.create(manifest)

	s.underLoad(harness.EveryKind()...)
	s.step("all nodes restarted", func() error { return s.kafka.Roll(s.ctx) })
	s.step("scaled up to 4", func() error { return scale(s, 1, 4) })
	refuseToScaleDown(s)
	s.step("scaled down to 3", func() error { return leaveExtra(s) })
	s.quietly()
	s.restarted(nodes("dual-role", 0, 1, 2), 1)

	s.step("deleted", func() error { return deleteKafka(s) })
	left := leftovers(s)
	want := []string{"Secret my-cluster-clients-ca", "Secret my-cluster-clients-ca-cert", "Secret my-cluster-cluster-ca", "Secret my-cluster-cluster-ca-cert"}
	if !slices.Equal(left, want) {
		s.Errorf("left behind are %q, to be left are %q", left, want)
	}
}

// withExtraPool adds a pool of brokers like the example's pool.
func withExtraPool(s *stage, manifest harness.Manifest) harness.Manifest {
	s.Helper()
	pool, err := manifest.Find("KafkaNodePool", "dual-role")
	s.must(err)
	extra := pool.DeepCopy()
	extra.SetName(extraPool)
	manifest = append(manifest, extra)
	s.must(manifest.Set("KafkaNodePool", extraPool, []any{"broker"}, "spec", "roles"))
	s.must(manifest.Set("KafkaNodePool", extraPool, int64(0), "spec", "replicas"))
	return manifest
}

func setReplicas(s *stage, replicas int) error {
	pool := &kafkav1.KafkaNodePool{ObjectMeta: s.kafka.Meta(extraPool)}
	return s.kube.MergePatch(s.ctx, pool, map[string]any{"spec": map[string]any{"replicas": replicas}})
}

// scale changes the pool of brokers and waits for so many pods, all ready.
func scale(s *stage, replicas, pods int) error {
	if err := setReplicas(s, replicas); err != nil {
		return err
	}
	return untilNodes(s, pods)
}

func untilNodes(s *stage, count int) error {
	err := s.kafka.UntilPods(s.ctx, fmt.Sprintf("are %d, all ready", count), func(pods map[string]*corev1.Pod) bool {
		ready := 0
		for _, pod := range pods {
			if harness.Replaced(pod, "") {
				ready++
			}
		}
		return ready == count && len(pods) == count
	})
	if err != nil {
		return err
	}
	return s.kafka.UntilSettled(s.ctx)
}

// heldTopic has a copy on every broker.
const heldTopic = "held"

// refuseToScaleDown asks for fewer brokers while the last one has a partition.
func refuseToScaleDown(s *stage) {
	s.Helper()
	admin, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer admin.Close()
	s.must(admin.CreateTopicOf(s.ctx, heldTopic, 1, 4, 2))
	s.step("scaling down refused, naming the topic", func() error {
		if err := setReplicas(s, 0); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "refuses to remove a broker with partitions", harness.Blocked(heldTopic))
	})
	pods, err := s.kafka.Pods(s.ctx)
	s.must(err)
	if len(pods) != 4 {
		s.Errorf("%d pods are left while the broker still has partitions, to be left are 4", len(pods))
	}
}

// leaveExtra moves what the last broker has to the others, and lets it go.
func leaveExtra(s *stage) error {
	admin, err := s.kafka.Admin(s.ctx)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.MoveAway(s.ctx, 3, []int32{0, 1, 2}); err != nil {
		return err
	}
	return untilNodes(s, 3)
}

// deleteKafka deletes what a person made, and waits until all that belongs to it
// is gone as well, but for Secrets.
func deleteKafka(s *stage) error {
	for _, object := range []client.Object{
		&kafkav1.Kafka{ObjectMeta: s.kafka.Meta(clusterName)},
		&kafkav1.KafkaNodePool{ObjectMeta: s.kafka.Meta("dual-role")},
		&kafkav1.KafkaNodePool{ObjectMeta: s.kafka.Meta(extraPool)},
	} {
		if err := s.kube.Delete(s.ctx, object); err != nil {
			return fmt.Errorf("deleting %s: %w", object.GetName(), err)
		}
	}
	for _, list := range owned() {
		if err := s.kube.Follow(s.ctx, list, func(left harness.Objects) (bool, error) { return len(left) == 0, nil }, ofCluster(s)...); err != nil {
			return fmt.Errorf("waiting until objects of %T are gone: %w", list, err)
		}
	}
	return untilOnlyAuthorities(s.ctx, s)
}

// owned are the kinds of which nothing may be left.
func owned() []client.ObjectList {
	return []client.ObjectList{
		&podsetv1.StrimziPodSetList{}, &corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{},
		&corev1.ServiceAccountList{}, &policyv1.PodDisruptionBudgetList{}, &corev1.PersistentVolumeClaimList{},
		&networkingv1.NetworkPolicyList{},
	}
}

func ofCluster(s *stage) []client.ListOption {
	return []client.ListOption{client.InNamespace(s.kafka.Namespace), client.MatchingLabels{harness.ClusterLabel: clusterName}}
}

// untilOnlyAuthorities waits for the garbage collector: Secrets of authorities
// have no owner here and stay.
func untilOnlyAuthorities(ctx context.Context, s *stage) error {
	return s.kube.Follow(ctx, &corev1.SecretList{}, func(left harness.Objects) (bool, error) {
		for name := range left {
			if !strings.HasSuffix(name, "-ca") && !strings.HasSuffix(name, "-ca-cert") {
				return false, nil
			}
		}
		return true, nil
	}, ofCluster(s)...)
}

// leftovers are all objects in the namespace that did not come with it.
func leftovers(s *stage) []string {
	s.Helper()
	var left []string
	for kind, list := range map[string]client.ObjectList{
		"Secret": &corev1.SecretList{}, "ConfigMap": &corev1.ConfigMapList{}, "Service": &corev1.ServiceList{},
		"ServiceAccount": &corev1.ServiceAccountList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{},
		"Pod": &corev1.PodList{}, "StrimziPodSet": &podsetv1.StrimziPodSetList{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudgetList{},
		"NetworkPolicy": &networkingv1.NetworkPolicyList{},
		"Kafka":         &kafkav1.KafkaList{}, "KafkaNodePool": &kafkav1.KafkaNodePoolList{},
	} {
		err := s.kube.Follow(s.ctx, list, func(objects harness.Objects) (bool, error) {
			for name := range objects {
				if name != "default" && name != "kube-root-ca.crt" {
					left = append(left, kind+" "+name)
				}
			}
			return true, nil
		}, client.InNamespace(s.kafka.Namespace))
		s.must(err)
	}
	slices.Sort(left)
	return left
}
