package scenarios

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
)

// access says of the ports of a node whether somebody is let in.
type access map[int32]bool

// strangersRefused lets pods connect to every port of every node that a network policy is about. Meanwhile the operator turns
// a CA, which takes all the ports that it needs, the kubelet goes on probing, and clients work, one of them in a pod.
func strangersRefused(s *stage) {
	s.onShared()
	s.must(s.onlyOnBed())
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	s.underLoad(harness.EveryKind()...)
	var jvm *harness.JVM
	s.step("a JVM client works in a pod", func() error {
		jvm, err = s.kafka.StartJVM(s.ctx)
		return err
	})
	stranger := s.stranger("stranger", nil)
	exporter := s.stranger("exporter", map[string]string{"strimzi.io/name": clusterName + "-kafka-exporter"})

	s.step("a stranger comes to the listeners of clients and no further", func() error {
		return s.letsIn(stranger, before, access{8080: false, 8443: false, 9090: false, 9091: false, 9092: true, 9093: true, 9094: true, 9095: true})
	})
	s.step("an exporter comes to brokers, too", func() error {
		return s.letsIn(exporter, before, access{8080: false, 8443: false, 9090: false, 9091: true, 9093: true})
	})
	s.turns("the operator turns a CA", harness.ClusterCA, func() error { return s.kafka.Renew(s.ctx, harness.ClusterCA) })
	s.step("a listener with peers is for them alone", func() error {
		if err := s.keepPlainFor(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: exporter.Labels()}}); err != nil {
			return err
		}
		return s.letsIn(stranger, before, access{9092: false, 9093: true})
	})
	s.step("its peers come to it", func() error { return s.letsIn(exporter, before, access{9092: true}) })
	s.step("without peers it is everybody's again", func() error {
		if err := s.keepPlainFor(); err != nil {
			return err
		}
		return s.letsIn(stranger, before, access{9092: true})
	})

	account, err := jvm.Finish(s.ctx)
	s.must(err)
	if account.Acknowledged == 0 || account.Lost() > 0 || account.TLSFailures > 0 {
		s.Errorf("the JVM client: %d records acknowledged, %d lost, %d refusals", account.Acknowledged, account.Lost(), account.TLSFailures)
	}
	s.step("settled", func() error { return s.kafka.UntilSettled(s.ctx) })
	s.quietly()
	s.restarted(before.Names(), 0)
}

// stranger starts a pod that ends with the scenario.
func (s *stage) stranger(name string, labels map[string]string) *harness.Stranger {
	s.Helper()
	stranger, err := s.kafka.StartStranger(s.ctx, name, labels)
	s.must(err)
	s.Cleanup(func() {
		if err := stranger.End(context.WithoutCancel(s.ctx)); err != nil {
			s.Error(err)
		}
	})
	return stranger
}

// letsIn waits until every node lets a pod in as it should: what a policy says holds a moment after it was written.
func (s *stage) letsIn(from *harness.Stranger, pods harness.Pods, want access) error {
	for _, name := range pods.Names() {
		pod := &corev1.Pod{}
		if err := s.kube.Get(s.ctx, s.kafka.Key(name), pod); err != nil {
			return fmt.Errorf("reading pod %s: %w", name, err)
		}
		for _, port := range slices.Sorted(maps.Keys(want)) {
			err := harness.Poll(s.ctx, func() (bool, error) {
				reaches, err := from.Reaches(s.ctx, hostPort(pod.Status.PodIP, port))
				return reaches == want[port], err
			})
			if err != nil {
				return fmt.Errorf("%s, port %d, is to let the pod in (%t): %w", name, port, want[port], err)
			}
		}
	}
	return nil
}

// keepPlainFor changes who may connect to the listener without TLS; nobody in particular means everybody.
func (s *stage) keepPlainFor(peers ...networkingv1.NetworkPolicyPeer) error {
	resource, err := s.kafka.Resource(s.ctx)
	if err != nil {
		return err
	}
	listeners := slices.Clone(resource.Spec.Kafka.Listeners)
	at := slices.IndexFunc(listeners, func(l kafkav1.Listener) bool { return l.Port == 9092 })
	if at < 0 {
		return fmt.Errorf("Kafka %s has no listener on port 9092", s.kafka.Name)
	}
	listeners[at].NetworkPolicyPeers = peers
	return s.change(map[string]any{"kafka": map[string]any{"listeners": listeners}})
}
