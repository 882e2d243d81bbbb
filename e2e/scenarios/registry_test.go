package scenarios

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
)

// privateRegistry: images of Kafka and etcd come with a password alone, which a pull Secret has.
func privateRegistry(s *stage) {
	s.must(s.onlyOnBed())
	const secret, kafkaImage, etcdImage = "registry-credentials", "kafka:4.3.1", "etcd:v3.6.16"
	registry, err := s.kube.PrivateRegistry(s.ctx, kafkaImage, etcdImage)
	s.must(err)
	s.Cleanup(func() {
		if err := registry.Close(); err != nil {
			s.Error(err)
		}
	})
	etcdRepository, _, _ := strings.Cut(etcdImage, ":")
	s.installWith(map[string]any{
		"imagePullSecrets": []map[string]string{{"name": secret}},
		"etcd":             map[string]any{"enabled": true, "imageRepository": registry.Repository + "/" + etcdRepository},
	})
	s.fromScratch()
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.must(manifest.Set("Kafka", clusterName, registry.Repository+"/"+kafkaImage, "spec", "kafka", "image"))
	etcd := harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: "coordination"}
	s.step("the missing Secret is named", func() error {
		if err := s.kube.Apply(s.ctx, s.kafka.Namespace, manifest); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "names its pull Secret", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.NotReady, "image cannot be pulled", "pull Secret "+secret)
		})
	})
	s.step("ready with the Secret", func() error {
		if err := s.kube.Create(s.ctx, registry.Secret(s.kafka.Meta(secret))); err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.step("another Secret restarts no node", func() error {
		template := map[string]any{"pod": map[string]any{"imagePullSecrets": []map[string]string{{"name": "another"}}}}
		if err := s.change(map[string]any{"kafka": map[string]any{"template": template}}); err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
	after, err := s.kafka.Pods(s.ctx)
	s.must(err)
	if replaced := differing(before, after); len(replaced) > 0 {
		s.Errorf("%q were replaced, to be replaced is none", replaced)
	}
	s.step("etcd is ready with the Secret", func() error {
		err := etcd.Create(s.ctx, 1, func(object *unstructured.Unstructured) error {
			unstructured.RemoveNestedField(object.Object, "spec", "repository")
			return nil
		})
		if err != nil {
			return err
		}
		return etcd.UntilReady(s.ctx)
	})
}
