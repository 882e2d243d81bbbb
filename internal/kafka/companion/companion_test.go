package companion_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/companion"
)

func exporter() companion.Companion {
	return companion.Companion{
		Name: "my-exporter", Type: "exporter", Secret: "my-exporter-certs", Certificate: "exporter", Host: "my-exporter.kafka.svc", Replicas: 2,
		Pod: coreac.PodSpec().
			WithVolumes(coreac.Volume().WithName("own")).
			WithContainers(
				coreac.Container().WithName("exporter").WithVolumeMounts(coreac.VolumeMount().WithName("own").WithMountPath("/own")),
				coreac.Container().WithName("sidecar")),
	}
}

func place(pin string) companion.Place {
	return companion.Place{
		Namespace: "kafka", Labels: map[string]string{"strimzi.io/name": "my-exporter"}, Owner: metaac.OwnerReference().WithName("my"),
		TrustSecret: "my-cluster-ca-trusted-certs", Pins: map[string]string{agent.PinAnnotation: pin},
	}
}

func TestEveryContainerFindsCertificatesAndAnchors(t *testing.T) {
	t.Parallel()
	spec := companion.Group{exporter()}.Deployment(place("{}")).Spec.Template.Spec
	sources := map[string]string{}
	for _, volume := range spec.Volumes {
		if volume.Secret != nil {
			sources[*volume.Name] = *volume.Secret.SecretName
		}
	}
	for _, container := range spec.Containers {
		found := map[string]string{}
		for _, mount := range container.VolumeMounts {
			found[*mount.MountPath] = sources[*mount.Name]
		}
		if found[agent.NodeDir] != "my-exporter-certs" || found[contract.ClusterTrustDir] != "my-cluster-ca-trusted-certs" {
			t.Errorf("container %s finds %v", *container.Name, found)
		}
		if _, told := found[agent.PodDir]; !told {
			t.Errorf("container %s does not find its pod's annotations", *container.Name)
		}
	}
}

func TestOnlyThePinMakesNewPods(t *testing.T) {
	t.Parallel()
	template := func(pin string) string {
		text, err := json.Marshal(companion.Group{exporter()}.Deployment(place(pin)).Spec.Template)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := template("1")
	if again := template("1"); again != first {
		t.Errorf("the same companion has two templates:\n%s\n%s", first, again)
	}
	if template("2") == first {
		t.Error("another pin makes no new pods")
	}
}

func TestTheDescriptionStaysAsItIs(t *testing.T) {
	t.Parallel()
	c := exporter()
	before, err := json.Marshal(c.Pod)
	if err != nil {
		t.Fatal(err)
	}
	companion.Group{c}.Deployment(place("1"))
	after, err := json.Marshal(c.Pod)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("rendering has changed the description: %s, %v", after, err)
	}
}

// pair is two companions that share a Deployment.
func pair() companion.Group {
	second := exporter()
	second.Process, second.CommonName, second.Secret = agent.TopicOperator, "my-second", "my-second-certs"
	second.Pod = coreac.PodSpec().WithContainers(coreac.Container().WithName("second"))
	return companion.Group{exporter(), second}
}

func TestCompanionsOfOnePodPresentCertificatesOfTheirOwn(t *testing.T) {
	t.Parallel()
	spec := pair().Deployment(place("1")).Spec.Template.Spec
	sources := map[string]string{}
	for _, volume := range spec.Volumes {
		if volume.Secret != nil {
			sources[*volume.Name] = *volume.Secret.SecretName
		}
	}
	got := map[string]string{}
	for _, container := range spec.Containers {
		for _, mount := range container.VolumeMounts {
			if *mount.MountPath == agent.NodeDir {
				got[*container.Name] += sources[*mount.Name]
			}
		}
	}
	want := map[string]string{"exporter": "my-exporter-certs", "sidecar": "my-exporter-certs", "second": "my-second-certs"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("containers present others (-want +got):\n%s", diff)
	}
}

func TestCompanionsOfOneDeploymentAreOneGroup(t *testing.T) {
	t.Parallel()
	other := exporter()
	other.Name = "another"
	groups := companion.Groups(append(pair(), other))
	if len(groups) != 2 || len(groups[0]) != 2 || groups[1].Name() != "another" {
		t.Errorf("the groups are %+v", groups)
	}
}

func TestTheRulesOfAGroupAreThoseOfAllOfThem(t *testing.T) {
	t.Parallel()
	group := pair()
	group[0].Rules = []rbacv1.PolicyRule{{Resources: []string{"events"}}, {Resources: []string{"kafkausers"}}}
	group[1].Rules = []rbacv1.PolicyRule{{Resources: []string{"kafkatopics"}}, {Resources: []string{"events"}}}
	var got []string
	for _, rule := range group.Role(place("1")).Rules {
		got = append(got, rule.Resources...)
	}
	if diff := cmp.Diff([]string{"events", "kafkausers", "kafkatopics"}, got); diff != "" {
		t.Errorf("the role differs (-want +got):\n%s", diff)
	}
}

// Each process has annotations of its own with what is published to it.
func TestAPodIsSeenAsEachOfItsCompanionsHasIt(t *testing.T) {
	t.Parallel()
	second := agent.AnnotationOf(agent.TopicOperator, agent.PinAnnotation)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "my-pod", UID: "1", Annotations: map[string]string{agent.PinAnnotation: "first", agent.PublishedAnnotation: "7", second: "second"},
	}}
	group := pair()
	own, runs := group[0].PodOf(pod)
	if !runs || own != pod {
		t.Errorf("the first companion has %+v, want the pod as it is", own)
	}
	own, runs = group[1].PodOf(pod)
	if !runs || own.Name == pod.Name || own.UID == pod.UID {
		t.Fatalf("the second companion has %+v, want a pod with another name and UID than the first has", own)
	}
	if _, told := own.Annotations[agent.PublishedAnnotation]; told || own.Annotations[agent.PinAnnotation] != "second" {
		t.Errorf("the second companion reads %v", own.Annotations)
	}
	delete(pod.Annotations, second)
	if own, runs = group[1].PodOf(pod); runs {
		t.Errorf("a pod without the second companion counts as one of it: %+v", own)
	}
}
