package companion_test

import (
	"bytes"
	"encoding/json"
	"testing"

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
		TrustSecret: "my-cluster-ca-trusted-certs", Pin: pin,
	}
}

func TestEveryContainerFindsCertificatesAndAnchors(t *testing.T) {
	t.Parallel()
	spec := exporter().Deployment(place("{}")).Spec.Template.Spec
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
		text, err := json.Marshal(exporter().Deployment(place(pin)).Spec.Template)
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
	c.Deployment(place("1"))
	after, err := json.Marshal(c.Pod)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("rendering has changed the description: %s, %v", after, err)
	}
}
