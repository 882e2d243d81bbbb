package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keystore is a form in which Kafka's own clients read a certificate and its key from the Secret of a KafkaAccess.
type Keystore string

// The forms there are.
const (
	PEM    Keystore = "PEM"
	PKCS12 Keystore = "PKCS12"
)

// errRejected is a client of Kafka's that could not connect.
var errRejected = errors.New("the client did not connect")

// properties are those of a client that reads everything from the mounted Secret.
func (k Keystore) properties() string {
	own := map[Keystore][]string{
		PEM:    {"ssl.keystore.certificate.chain=" + entry("crt"), "ssl.keystore.key=" + entry("key")},
		PKCS12: {"ssl.keystore.location=/access/ssl.keystore.p12", "ssl.keystore.password=" + entry("password")},
	}
	return strings.Join(slices.Concat([]string{
		"security.protocol=SSL", "config.providers=directory",
		"config.providers.directory.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider",
		"ssl.truststore.type=PKCS12", "ssl.truststore.location=/access/ssl.truststore.p12",
		"ssl.truststore.password=${directory:/access:ssl.truststore.password}", "ssl.keystore.type=" + string(k),
	}, own[k]), "\n") + "\n"
}

func entry(of string) string { return "${directory:/access:ssl.keystore." + of + "}" }

// Connects runs a client of Kafka's in a JVM, which asks the brokers of an address for their versions with what a Secret holds.
func (k Kafka) Connects(ctx context.Context, secret, address string, from Keystore) error {
	image, err := k.image(ctx)
	if err != nil {
		return err
	}
	name := "connects-" + strings.ToLower(string(from))
	config := &corev1.ConfigMap{ObjectMeta: k.Meta(name), Data: map[string]string{"client.properties": from.properties()}}
	for _, object := range []client.Object{config, k.connectingPod(name, image, secret, address)} {
		if err := k.Kube.Create(ctx, object); err != nil {
			return fmt.Errorf("starting a JVM with a keystore %s: %w", from, err)
		}
	}
	var phase corev1.PodPhase
	err = k.Kube.Follow(ctx, &corev1.PodList{}, func(pods Objects) (bool, error) {
		pod, found := pods[name].(*corev1.Pod)
		if found {
			phase = pod.Status.Phase
		}
		return phase == corev1.PodSucceeded || phase == corev1.PodFailed, nil
	}, client.InNamespace(k.Namespace), client.MatchingFields{resourceOfName: name})
	if err != nil {
		return fmt.Errorf("waiting for a JVM with a keystore %s: %w", from, err)
	}
	if phase == corev1.PodFailed {
		log, err := k.Kube.Plain.CoreV1().Pods(k.Namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
		return fmt.Errorf("%w with a keystore %s: %s", errors.Join(errRejected, err), from, log)
	}
	return nil
}

func (k Kafka) connectingPod(name, image, secret, address string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: k.Meta(name), Spec: corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{
			Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{
				"/opt/kafka/bin/kafka-broker-api-versions.sh", "--bootstrap-server", address, "--command-config", "/client/client.properties",
			},
			Env: []corev1.EnvVar{{Name: "KAFKA_HEAP_OPTS", Value: "-Xmx96m"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("384Mi")},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "access", MountPath: "/access", ReadOnly: true}, {Name: "client", MountPath: "/client", ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "access", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}},
			{Name: "client", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: name},
			}}},
		},
	}}
}
