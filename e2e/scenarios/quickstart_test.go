package scenarios

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
)

// quickstartNamespace is that of the page. On any other cluster it may belong to another team, so the scenario runs on the bed alone.
const quickstartNamespace = "kafka"

// quickstart types the commands of docs/quickstart.md, with a bed in place of kind and k3d.
func quickstart(s *stage) {
	s.must(s.onlyOnBed())
	s.kafka = harness.Kafka{Kube: s.kube, Namespace: quickstartNamespace, Name: clusterName}
	s.withoutKeyturn()
	shell := s.shellIn(s.release("0.1.0"))
	chapters, err := s.kube.Chapters("quickstart.md")
	s.must(err)
	var pods harness.Pods
	begun := time.Now()
	for _, chapter := range chapters {
		commands := slices.DeleteFunc(chapter.Commands, createsKubernetes)
		if len(commands) == 0 {
			continue
		}
		s.step("quickstart: "+chapter.Heading, func() error {
			_, err := shell.Type(s.ctx, strings.Join(commands, ""))
			return err
		})
		switch {
		case strings.Contains(chapter.Heading, "Connect an application"):
			pods = s.podsOfNodes()
		case strings.Contains(chapter.Heading, "Replace the key"):
			s.replacedUnderTheApplication(pods)
		}
	}
	s.took(begun, "quickstart", "from the installation until everything is deleted, with images that are there")
	s.nothingLeft()
}

// createsKubernetes says that a block is for kind or k3d.
func createsKubernetes(commands string) bool {
	return strings.HasPrefix(commands, "kind ") || strings.HasPrefix(commands, "k3d ")
}

func (s *stage) podsOfNodes() harness.Pods {
	s.Helper()
	pods, err := s.kafka.Pods(s.ctx)
	s.must(err)
	return pods
}

// replacedUnderTheApplication: both CAs are of another generation, no pod was restarted, and the application has noticed nothing.
func (s *stage) replacedUnderTheApplication(before harness.Pods) {
	s.Helper()
	s.generationIs("1", harness.ClusterCA, harness.ClientsCA)
	pods := s.podsOfNodes()
	if len(pods) != len(before) || len(pods) == 0 {
		s.Errorf("%d pods before, %d afterwards", len(before), len(pods))
	}
	for name, pod := range pods {
		if before[name] != pod {
			s.Errorf("pod %s is another than before", name)
		}
	}
	s.noContainerRestarted()
	account, err := s.kafka.Account(s.ctx, applicationName)
	s.must(err)
	s.unharmed(account)
	s.overMutualTLS(account)
}

// generationIs holds the generation of CAs against what a number of replacements leads to.
func (s *stage) generationIs(want string, authorities ...harness.Authority) {
	s.Helper()
	for _, authority := range authorities {
		secret := &corev1.Secret{}
		s.must(s.kube.Get(s.ctx, s.kafka.Key(clusterName+"-"+string(authority)+"-cert"), secret))
		if generation := secret.Annotations["strimzi.io/ca-cert-generation"]; generation != want {
			s.Errorf("Secret %s is of generation %q, want %s", secret.Name, generation, want)
		}
	}
}

func (s *stage) noContainerRestarted() {
	s.Helper()
	pods := &corev1.PodList{}
	s.must(s.kube.List(s.ctx, pods, client.InNamespace(s.kafka.Namespace)))
	for i := range pods.Items {
		for _, container := range pods.Items[i].Status.ContainerStatuses {
			if container.RestartCount > 0 {
				s.Errorf("container %s of pod %s was restarted", container.Name, pods.Items[i].Name)
			}
		}
	}
}

// nothingLeft: what the page deletes leaves no cluster, no user and no operator.
func (s *stage) nothingLeft() {
	s.Helper()
	clusters, users, pods := &kafkav1.KafkaList{}, &kafkav1.KafkaUserList{}, &corev1.PodList{}
	s.must(s.kube.List(s.ctx, clusters, client.InNamespace(s.kafka.Namespace)))
	s.must(s.kube.List(s.ctx, users, client.InNamespace(s.kafka.Namespace)))
	s.must(s.kube.List(s.ctx, pods, client.InNamespace(harness.OperatorNamespace)))
	running := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	if len(clusters.Items)+len(users.Items)+len(running) > 0 {
		s.Errorf("the page leaves %d Kafkas, %d KafkaUsers and %d pods of operators", len(clusters.Items), len(users.Items), len(running))
	}
}
