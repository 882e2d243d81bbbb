package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	corev1 "github.com/keyturn/keyturn/api/core/v1"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
)

func manifest(t *testing.T, path ...string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return object(t, string(data))
}

func TestEveryFieldOfARichManifestIsKept(t *testing.T) {
	t.Parallel()
	manifests := map[string]string{
		"kafka-rich.yaml":           kafkas,
		"kafka-tokens.yaml":         kafkas,
		"kafkanodepool-rich.yaml":   kafkaNodePools,
		"kafkauser-rich.yaml":       kafkaUsers,
		"kafkatopic-rich.yaml":      kafkaTopics,
		"kafkaaccess-rich.yaml":     kafkaAccesses,
		"kafkaaccess-proposed.yaml": proposedAccesses,
		"etcdcluster-rich.yaml":     etcdClusters,
		"etcdbackup-rich.yaml":      etcdBackups,
		"etcdpki-rich.yaml":         etcdPKIs,
		"strimzipodset-rich.yaml":   podSets,
	}
	for file, crd := range manifests {
		for _, version := range versionsOf(crd) {
			t.Run(file+" in "+version, func(t *testing.T) {
				t.Parallel()
				sent := manifest(t, "testdata", file)
				group, _, _ := strings.Cut(sent["apiVersion"].(string), "/")
				sent["apiVersion"] = group + "/" + versionsOf(crd)[0] // by which clients know it
				stored, errs := newAdmission(t, crd, version).admit(t, sent)
				if len(errs) != 0 {
					t.Errorf("refused: %v", errs)
				}
				if diff := cmp.Diff(sent, stored); diff != "" {
					t.Errorf("fields were changed or dropped (-sent +stored):\n%s", diff)
				}
				decodeTyped(t, stored)
			})
		}
	}
}

// decodeTyped reads an object as a client does, and fails the test if it cannot: an object that is stored
// but cannot be decoded would keep every client from listing all the others.
func decodeTyped(t *testing.T, object map[string]any) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kafkav1.AddToScheme, kafkav1beta2.AddToScheme, corev1.AddToScheme, accessv1alpha1.AddToScheme, etcdv1beta2.AddToScheme, keyturnv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	typed, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		t.Fatalf("stored, but no client can read it: %v", err)
	}
	into := reflect.New(reflect.TypeOf(typed).Elem()).Interface()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, into); err != nil {
		t.Fatalf("stored, but the operator cannot convert it: %v", err)
	}
	if diff := cmp.Diff(typed, into); diff != "" {
		t.Errorf("the two ways to read it differ (-JSON +unstructured):\n%s", diff)
	}
}

func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		find func(map[string]any) fields.Found
		file string
		want fields.Found
	}{
		"Kafka": {
			find: fields.InSpec[kafkav1.Kafka],
			file: "kafka-rich.yaml",
			want: fields.Found{
				WithoutEffect: []string{
					"spec.entityOperator.topicOperator.reconciliationIntervalMs",
					"spec.kafka.authorization.supportsAdminApi",
					"spec.kafka.listeners[2].authentication.listenerConfig",
					"spec.kafka.readinessProbe",
				},
				Unmet: []string{
					"spec.cruiseControl",
					"spec.entityOperator.topicOperator.watchedNamespace",
					"spec.kafka.listeners[1].configuration.maxConnections",
					"spec.kafka.listeners[1].configuration.useServiceDnsDomain",
					"spec.kafka.listeners[2].configuration.bootstrap",
					"spec.kafka.listeners[2].configuration.brokers",
					"spec.kafka.logging",
					"spec.kafka.metricsConfig",
					"spec.kafka.quotas",
					"spec.kafka.rack",
					"spec.kafka.resources.claims",
					"spec.kafka.template.pod.affinity",
					"spec.kafka.template.pod.metadata",
					"spec.kafkaExporter",
				},
			},
		},
		"Kafka of v1beta2": {
			find: fields.InSpec[kafkav1.Kafka],
			file: "kafka-tokens.yaml",
			want: fields.Found{
				WithoutEffect: []string{
					"spec.kafka.authorization.clientId",
					"spec.kafka.authorization.delegateToKafkaAcls",
					"spec.kafka.authorization.grantsRefreshPeriodSeconds",
					"spec.kafka.authorization.tlsTrustedCertificates",
					"spec.kafka.authorization.tokenEndpointUri",
					"spec.kafka.listeners[0].authentication.checkAccessTokenType",
					"spec.kafka.listeners[0].authentication.clientSecret",
					"spec.kafka.listeners[0].authentication.customClaimCheck",
					"spec.kafka.listeners[0].authentication.enableOauthBearer",
					"spec.kafka.listeners[0].authentication.jwksEndpointUri",
					"spec.kafka.listeners[0].authentication.jwksMinRefreshPauseSeconds",
					"spec.kafka.listeners[0].authentication.tlsTrustedCertificates",
					"spec.kafka.listeners[0].authentication.userNameClaim",
					"spec.kafka.listeners[0].authentication.validIssuerUri",
					"spec.kafka.replicas",
					"spec.kafka.storage",
					"spec.zookeeper",
				},
			},
		},
		"KafkaUser": {
			find: fields.InSpec[kafkav1.KafkaUser],
			file: "kafkauser-rich.yaml",
		},
		"KafkaTopic": {
			find: fields.InSpec[kafkav1.KafkaTopic],
			file: "kafkatopic-rich.yaml",
		},
		"KafkaAccess": {
			find: fields.InSpec[accessv1alpha1.KafkaAccess],
			file: "kafkaaccess-rich.yaml",
		},
		"EtcdCluster": {
			find: fields.InSpec[etcdv1beta2.EtcdCluster],
			file: "etcdcluster-rich.yaml",
		},
		"KafkaNodePool": {
			find: fields.InSpec[kafkav1.KafkaNodePool],
			file: "kafkanodepool-rich.yaml",
			want: fields.Found{
				WithoutEffect: []string{
					"spec.template.perPodService",
				},
				Unmet: []string{
					"spec.storage.volumes[0].overrides",
					"spec.storage.volumes[0].volumeAttributesClass",
					"spec.template.pod.topologySpreadConstraints",
				},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.find(manifest(t, "testdata", test.file))); diff != "" {
				t.Errorf("found differs (-want +got):\n%s", diff)
			}
		})
	}
}

// Nothing is listed of pod sets, which the operator writes itself: what it would not act on is unknown.
func TestAPodSetHasOnlyWhatTheOperatorWrites(t *testing.T) {
	t.Parallel()
	want := fields.Found{Unknown: []string{"spec.updateStrategy"}}
	got := fields.InSpec[corev1.StrimziPodSet](manifest(t, "testdata", "strimzipodset-rich.yaml"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found differs (-want +got):\n%s", diff)
	}
}
