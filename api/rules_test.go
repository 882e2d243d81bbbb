package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const minimalKafka = `
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: my-cluster, namespace: kafka}
spec:
  kafka:
    listeners:
    - {name: plain, port: 9092, type: internal, tls: false}
`

const minimalNodePool = `
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: broker, namespace: kafka, labels: {strimzi.io/cluster: my-cluster}}
spec:
  replicas: 3
  roles: [controller, broker]
  storage: {type: ephemeral}
`

// A ruleCase is a change to a minimal manifest, as a JSON merge patch, and what it is refused for.
type ruleCase struct {
	patch string
	want  []string
}

func runRules(t *testing.T, crd, base string, cases map[string]ruleCase) {
	t.Helper()
	for _, version := range versions() {
		admission := newAdmission(t, crd, version)
		for name, test := range cases {
			t.Run(version+": "+name, func(t *testing.T) {
				t.Parallel()
				stored, got := admission.admit(t, merged(t, base, test.patch))
				want := test.want
				if want == nil {
					want = []string{}
					decodeTyped(t, stored)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("refused for other reasons than expected (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestKafkaRules(t *testing.T) {
	t.Parallel()
	listeners := func(items ...string) string {
		return "spec: {kafka: {listeners: [" + strings.Join(items, ", ") + "]}}"
	}
	runRules(t, kafkas, minimalKafka, map[string]ruleCase{
		"a minimal manifest is accepted": {patch: `{}`},
		"a manifest without spec is refused": {
			patch: `spec: null`,
			want:  []string{"spec: Required value: "},
		},
		"a manifest without spec.kafka is refused": {
			patch: `spec: {kafka: null}`,
			want:  []string{"spec.kafka: Required value: "},
		},
		"a name with 47 characters is accepted": {
			patch: `metadata: {name: ` + strings.Repeat("a", 47) + `}`,
		},
		"a name with 48 characters overflows the Service": {
			patch: `metadata: {name: ` + strings.Repeat("a", 48) + `}`,
			want:  []string{"metadata: Invalid value: metadata.name has more than 47 characters, which leaves no room for the Service <name>-kafka-bootstrap (63)"},
		},
		"a name with a dot is no Service name": {
			patch: `metadata: {name: my.cluster}`,
			want:  []string{"metadata: Invalid value: metadata.name must start with a letter and hold only lower-case letters, digits and '-': Services are named after it"},
		},
		"a name that starts with a digit is no Service name": {
			patch: `metadata: {name: 1cluster}`,
			want:  []string{"metadata: Invalid value: metadata.name must start with a letter and hold only lower-case letters, digits and '-': Services are named after it"},
		},
		"every listener type is accepted, what is not supported is a condition": {
			patch: listeners(
				`{name: a, port: 9092, type: internal, tls: false}`, `{name: b, port: 9093, type: route, tls: true}`,
				`{name: c, port: 9094, type: tlsroute, tls: true}`, `{name: d, port: 9095, type: loadbalancer, tls: false}`,
				`{name: e, port: 9096, type: nodeport, tls: false}`, `{name: f, port: 9097, type: ingress, tls: true}`,
				`{name: g, port: 9098, type: cluster-ip, tls: false}`),
		},
		"no listeners are refused": {
			patch: listeners(),
			want:  []string{"spec.kafka.listeners: Invalid value: spec.kafka.listeners in body should have at least 1 items"},
		},
		"an unknown listener type is refused": {
			patch: listeners(`{name: plain, port: 9092, type: external, tls: false}`),
			want:  []string{`spec.kafka.listeners[0].type: Unsupported value: supported values: "internal", "route", "tlsroute", "loadbalancer", "nodeport", "ingress", "cluster-ip"`},
		},
		"a listener without tls and port is refused": {
			patch: listeners(`{name: plain, type: internal}`),
			want:  []string{"spec.kafka.listeners[0].port: Required value: ", "spec.kafka.listeners[0].tls: Required value: "},
		},
		"a listener name with 12 characters is refused": {
			patch: listeners(`{name: abcdefghijkl, port: 9092, type: internal, tls: false}`),
			want:  []string{"spec.kafka.listeners[0].name: Too long: may not be more than 11 bytes"},
		},
		"a listener name with a dash is refused": {
			patch: listeners(`{name: my-tls, port: 9092, type: internal, tls: false}`),
			want:  []string{"spec.kafka.listeners[0].name: Invalid value: spec.kafka.listeners[0].name in body should match '^[a-z0-9]{1,11}$'"},
		},
		"ports below 9092 are refused": {
			patch: listeners(`{name: plain, port: 9091, type: internal, tls: false}`),
			want:  []string{"spec.kafka.listeners[0].port: Invalid value: spec.kafka.listeners[0].port in body should be greater than or equal to 9092"},
		},
		"ports above 65535 are refused": {
			patch: listeners(`{name: plain, port: 65536, type: internal, tls: false}`),
			want:  []string{"spec.kafka.listeners[0].port: Invalid value: spec.kafka.listeners[0].port in body should be less than or equal to 65535"},
		},
		"the metrics port is reserved": {
			patch: listeners(`{name: plain, port: 9404, type: internal, tls: false}`),
			want:  []string{"spec.kafka.listeners[0].port: Invalid value: ports 9404 (metrics) and 9999 (JMX) are reserved"},
		},
		"the JMX port is reserved": {
			patch: listeners(`{name: plain, port: 9999, type: internal, tls: false}`),
			want:  []string{"spec.kafka.listeners[0].port: Invalid value: ports 9404 (metrics) and 9999 (JMX) are reserved"},
		},
		"peers of every kind are accepted": {
			patch: listeners(`{name: plain, port: 9092, type: internal, tls: false, networkPolicyPeers: [{podSelector: {}}, {podSelector: {matchLabels: {a: b}}, namespaceSelector: {matchExpressions: [{key: c, operator: In, values: [d]}]}}, {ipBlock: {cidr: 10.1.0.0/16, except: [10.1.2.0/24]}}]}`),
		},
		"a peer that names nobody is refused": {
			patch: listeners(`{name: plain, port: 9092, type: internal, tls: false, networkPolicyPeers: [{}]}`),
			want:  []string{"spec.kafka.listeners[0].networkPolicyPeers[0]: Required value: a peer needs a podSelector, a namespaceSelector or an ipBlock: leave networkPolicyPeers out to let all peers connect"},
		},
		"a peer with an ipBlock beside a selector is refused": {
			patch: listeners(`{name: plain, port: 9092, type: internal, tls: false, networkPolicyPeers: [{podSelector: {}, ipBlock: {cidr: 10.1.0.0/16}}]}`),
			want:  []string{"spec.kafka.listeners[0].networkPolicyPeers[0].ipBlock: Forbidden: an ipBlock stands alone: give it a peer of its own beside the one with selectors"},
		},
		"an ipBlock without a range is refused": {
			patch: listeners(`{name: plain, port: 9092, type: internal, tls: false, networkPolicyPeers: [{ipBlock: {}}]}`),
			want:  []string{"spec.kafka.listeners[0].networkPolicyPeers[0].ipBlock.cidr: Required value: "},
		},
		"a name that no Secret can have is refused": {
			patch: listeners(`{name: tls, port: 9093, type: internal, tls: true, configuration: {brokerCertChainAndKey: {secretName: a/b, certificate: tls.crt, key: tls.key}}}`),
			want:  []string{"spec.kafka.listeners[0].configuration.brokerCertChainAndKey.secretName: Invalid value: spec.kafka.listeners[0].configuration.brokerCertChainAndKey.secretName in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'"},
		},
		"two listeners on one port are refused": {
			patch: listeners(`{name: one, port: 9092, type: internal, tls: false}`, `{name: two, port: 9093, type: internal, tls: true}`, `{name: three, port: 9092, type: internal, tls: true}`),
			want:  []string{"spec.kafka.listeners: Invalid value: two listeners share a port: every listener needs one of its own"},
		},
		"two listeners of one name are refused": {
			patch: listeners(`{name: one, port: 9092, type: internal, tls: false}`, `{name: one, port: 9093, type: internal, tls: false}`),
			want:  []string{"spec.kafka.listeners[1]: Duplicate value: "},
		},
		"mTLS is accepted on a listener with TLS": {
			patch: listeners(`{name: mtls, port: 9094, type: internal, tls: true, authentication: {type: tls}}`),
		},
		"mTLS needs TLS": {
			patch: listeners(`{name: mtls, port: 9094, type: internal, tls: false, authentication: {type: tls}}`),
			want:  []string{"spec.kafka.listeners[0].tls: Invalid value: listener mtls authenticates by certificate (authentication.type tls) and therefore needs tls: true"},
		},
		"passwords work without TLS": {
			patch: listeners(`{name: scram, port: 9095, type: internal, tls: false, authentication: {type: scram-sha-512}}`),
		},
		"an unknown authentication is refused": {
			patch: listeners(`{name: scram, port: 9095, type: internal, tls: false, authentication: {type: kerberos}}`),
			want:  []string{`spec.kafka.listeners[0].authentication.type: Unsupported value: supported values: "tls", "scram-sha-512", "custom", "oauth"`},
		},
		"a custom certificate is accepted on a listener with TLS": {
			patch: listeners(`{name: tls, port: 9093, type: internal, tls: true, configuration: {brokerCertChainAndKey: {secretName: s, certificate: tls.crt, key: tls.key}}}`),
		},
		"a custom certificate needs TLS": {
			patch: listeners(`{name: tls, port: 9093, type: internal, tls: false, configuration: {brokerCertChainAndKey: {secretName: s, certificate: tls.crt, key: tls.key}}}`),
			want:  []string{"spec.kafka.listeners[0].tls: Invalid value: listener tls has a certificate of its own (configuration.brokerCertChainAndKey) and therefore needs tls: true"},
		},
		"a custom certificate without key is refused": {
			patch: listeners(`{name: tls, port: 9093, type: internal, tls: true, configuration: {brokerCertChainAndKey: {secretName: s, certificate: tls.crt}}}`),
			want:  []string{"spec.kafka.listeners[0].configuration.brokerCertChainAndKey.key: Required value: "},
		},
		"a route needs TLS": {
			patch: listeners(`{name: route, port: 9094, type: route, tls: false}`),
			want:  []string{"spec.kafka.listeners[0].tls: Invalid value: listener route is of type route and therefore needs tls: true"},
		},
		"config takes strings, numbers and booleans": {
			patch: `spec: {kafka: {config: {min.insync.replicas: 2, log.cleaner.io.buffer.load.factor: 0.9, auto.create.topics.enable: false, compression.type: zstd}}}`,
		},
		"a property without value is accepted": {
			patch: `spec: {kafka: {config: {ssl.cipher.suites: ""}}}`,
		},
		"config takes no objects": {
			patch: `spec: {kafka: {config: {log: {retention: 1}}}}`,
			want:  []string{"spec.kafka.config.log: Too many: must have at most 0 items"},
		},
		"config takes no lists": {
			patch: `spec: {kafka: {config: {sasl.enabled.mechanisms: [PLAIN]}}}`,
			want:  []string{"spec.kafka.config.sasl.enabled.mechanisms: Too many: must have at most 0 items"},
		},
		"simple authorization with super users is accepted": {
			patch: `spec: {kafka: {authorization: {type: simple, superUsers: [CN=admin]}}}`,
		},
		"an unknown authorization is refused": {
			patch: `spec: {kafka: {authorization: {type: ranger}}}`,
			want:  []string{`spec.kafka.authorization.type: Unsupported value: supported values: "simple", "custom", "opa", "keycloak"`},
		},
		"heap sizes have one suffix": {
			patch: `spec: {kafka: {jvmOptions: {-Xms: 512m, -Xmx: 1Gi}}}`,
			want:  []string{"spec.kafka.jvmOptions.-Xmx: Invalid value: spec.kafka.jvmOptions.-Xmx in body should match '^[0-9]+[kKmMgG]?$'"},
		},
		"quantities of all forms are accepted": {
			patch: `spec: {kafka: {resources: {requests: {cpu: 2, memory: 2Gi}, limits: {cpu: 1500m, memory: 1.5e9, hugepages-2Mi: "0.5Gi"}}}}`,
		},
		"a negative quantity is refused": {
			patch: `spec: {kafka: {resources: {requests: {cpu: -1}}}}`,
			want:  []string{"spec.kafka.resources.requests.cpu: Invalid value: spec.kafka.resources.requests.cpu in body should be greater than or equal to 0"},
		},
		"a quantity that Kubernetes cannot parse is refused": {
			patch: `spec: {kafka: {resources: {requests: {memory: 1e1.5}}}}`,
			want:  []string{"spec.kafka.resources.requests.memory: Invalid value: spec.kafka.resources.requests.memory in body should match '" + `^[+]?([0-9]{1,18}([.][0-9]{0,9})?|[.][0-9]{1,9})([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$` + "'"},
		},
		"authorities take the fields of Strimzi": {
			patch: `spec: {clusterCa: {generateCertificateAuthority: false, generateSecretOwnerReference: false, validityDays: 730, renewalDays: 60, certificateExpirationPolicy: replace-key}, clientsCa: {certificateExpirationPolicy: renew-certificate}}`,
		},
		"validity and renewal are at least a day": {
			patch: `spec: {clusterCa: {validityDays: 0}, clientsCa: {renewalDays: 0}}`,
			want: []string{
				"spec.clientsCa.renewalDays: Invalid value: spec.clientsCa.renewalDays in body should be greater than or equal to 1",
				"spec.clusterCa.validityDays: Invalid value: spec.clusterCa.validityDays in body should be greater than or equal to 1",
			},
		},
		"renewal comes before the end": {
			patch: `spec: {clientsCa: {validityDays: 30, renewalDays: 30}}`,
			want:  []string{"spec.clientsCa.renewalDays: Invalid value: renewalDays (30 when unset) must be less than validityDays (365 when unset): the certificate would be renewed without end"},
		},
		"a validity that ends before the default renewal is refused": {
			patch: `spec: {clientsCa: {validityDays: 20}}`,
			want:  []string{"spec.clientsCa.renewalDays: Invalid value: renewalDays (30 when unset) must be less than validityDays (365 when unset): the certificate would be renewed without end"},
		},
		"a renewal that begins before the default validity is refused": {
			patch: `spec: {clusterCa: {renewalDays: 365}}`,
			want:  []string{"spec.clusterCa.renewalDays: Invalid value: renewalDays (30 when unset) must be less than validityDays (365 when unset): the certificate would be renewed without end"},
		},
		"a validity or a renewal that fits the other's default is accepted": {
			patch: `spec: {clusterCa: {validityDays: 31}, clientsCa: {renewalDays: 364}}`,
		},
		"an unknown expiration policy is refused": {
			patch: `spec: {clusterCa: {certificateExpirationPolicy: keep}}`,
			want:  []string{`spec.clusterCa.certificateExpirationPolicy: Unsupported value: supported values: "renew-certificate", "replace-key"`},
		},
		"ECDSA keys are accepted": {
			patch: `spec: {clusterCa: {keyAlgorithm: ECDSA, keySize: 384}, clientsCa: {keyAlgorithm: ECDSA}}`,
		},
		"RSA keys of 4096 bits are accepted": {
			patch: `spec: {clusterCa: {keySize: 4096}, clientsCa: {keyAlgorithm: RSA, keySize: 3072}}`,
		},
		"an RSA key of 1024 bits is refused": {
			patch: `spec: {clusterCa: {keySize: 1024}}`,
			want:  []string{"spec.clusterCa.keySize: Invalid value: keySize does not fit keyAlgorithm: RSA has 2048, 3072 or 4096, ECDSA has 256, 384 or 521"},
		},
		"an ECDSA key has no 2048 bits": {
			patch: `spec: {clusterCa: {keyAlgorithm: ECDSA, keySize: 2048}}`,
			want:  []string{"spec.clusterCa.keySize: Invalid value: keySize does not fit keyAlgorithm: RSA has 2048, 3072 or 4096, ECDSA has 256, 384 or 521"},
		},
		"an unknown key algorithm is refused": {
			patch: `spec: {clusterCa: {keyAlgorithm: Ed25519}}`,
			want:  []string{`spec.clusterCa.keyAlgorithm: Unsupported value: supported values: "RSA", "ECDSA"`},
		},
	})
}

func TestKafkaNodePoolRules(t *testing.T) {
	t.Parallel()
	runRules(t, kafkaNodePools, minimalNodePool, map[string]ruleCase{
		"a minimal manifest is accepted": {patch: `{}`},
		"replicas, roles and storage are required": {
			patch: `spec: {replicas: null, roles: null, storage: null}`,
			want:  []string{"spec.replicas: Required value: ", "spec.roles: Required value: ", "spec.storage: Required value: "},
		},
		"no replicas are accepted": {patch: `spec: {replicas: 0}`},
		"negative replicas are refused": {
			patch: `spec: {replicas: -1}`,
			want:  []string{"spec.replicas: Invalid value: spec.replicas in body should be greater than or equal to 0"},
		},
		"as many replicas as one pod set holds are accepted": {patch: `spec: {replicas: 400}`},
		"a million replicas by a typo are refused": {
			patch: `spec: {replicas: 1000000}`,
			want:  []string{"spec.replicas: Invalid value: spec.replicas in body should be less than or equal to 400"},
		},
		"a pool without roles is refused": {
			patch: `spec: {roles: []}`,
			want:  []string{"spec.roles: Invalid value: spec.roles in body should have at least 1 items"},
		},
		"an unknown role is refused": {
			patch: `spec: {roles: [observer]}`,
			want:  []string{`spec.roles[0]: Unsupported value: supported values: "controller", "broker"`},
		},
		"a role twice is refused": {
			patch: `spec: {roles: [broker, broker]}`,
			want:  []string{"spec.roles[1]: Duplicate value: "},
		},
		"a name that is no host name is refused": {
			patch: `metadata: {name: my.pool}`,
			want:  []string{"metadata: Invalid value: metadata.name must hold only lower-case letters, digits and '-': host names are made of it"},
		},
		"a name too long for a host name is refused": {
			patch: `metadata: {name: ` + strings.Repeat("p", 60) + `}`,
			want:  []string{"metadata: Invalid value: metadata.name has more than 59 characters, which leaves no room for the host name <cluster>-<pool>-<id> (63)"},
		},
		"ephemeral storage with a limit is accepted": {
			patch: `spec: {storage: {type: ephemeral, sizeLimit: 2Gi}}`,
		},
		"a persistent claim with all its fields is accepted": {
			patch: `spec: {storage: {type: persistent-claim, id: 0, size: 10Gi, class: fast, deleteClaim: true, selector: {tier: ssd}, kraftMetadata: shared}}`,
		},
		"a persistent claim without size is refused": {
			patch: `spec: {storage: {type: persistent-claim}}`,
			want:  []string{"spec.storage.size: Required value: storage of type persistent-claim needs a size"},
		},
		"an unknown storage type is refused": {
			patch: `spec: {storage: {type: nfs}}`,
			want:  []string{`spec.storage.type: Unsupported value: supported values: "ephemeral", "persistent-claim", "jbod"`},
		},
		"a JBOD is accepted": {
			patch: `spec: {storage: {type: jbod, volumes: [{id: 0, type: persistent-claim, size: 1Gi, kraftMetadata: shared}, {id: 1, type: ephemeral}]}}`,
		},
		"a JBOD without volumes is refused": {
			patch: `spec: {storage: {type: jbod}}`,
			want:  []string{"spec.storage.volumes: Required value: storage of type jbod needs at least one volume"},
		},
		"an empty list of volumes without a JBOD": {patch: `spec: {storage: {type: ephemeral, volumes: []}}`},
		"volumes without a JBOD":                  {patch: `spec: {storage: {type: ephemeral, volumes: [{id: 0, type: ephemeral}]}}`},
		"a volume of a JBOD needs an id": {
			patch: `spec: {storage: {type: jbod, volumes: [{type: ephemeral}]}}`,
			want:  []string{"spec.storage.volumes[0].id: Required value: "},
		},
		"a persistent volume of a JBOD needs a size": {
			patch: `spec: {storage: {type: jbod, volumes: [{id: 3, type: persistent-claim}]}}`,
			want:  []string{"spec.storage.volumes[0].size: Required value: a volume of type persistent-claim needs a size"},
		},
		"a JBOD within a JBOD is refused": {
			patch: `spec: {storage: {type: jbod, volumes: [{id: 0, type: jbod}]}}`,
			want:  []string{`spec.storage.volumes[0].type: Unsupported value: supported values: "ephemeral", "persistent-claim"`},
		},
		"two volumes of one id are refused": {
			patch: `spec: {storage: {type: jbod, volumes: [{id: 1, type: ephemeral}, {id: 1, type: ephemeral}]}}`,
			want:  []string{"spec.storage.volumes[1]: Duplicate value: "},
		},
		"two places for the metadata log are refused": {
			patch: `spec: {storage: {type: jbod, volumes: [{id: 0, type: ephemeral, kraftMetadata: shared}, {id: 1, type: ephemeral, kraftMetadata: shared}]}}`,
			want:  []string{"spec.storage.volumes: Invalid value: at most one volume may have kraftMetadata: the metadata log is in one place"},
		},
	})
}

// The rules have a budget at run time; the largest manifest that the schema takes stays within it.
func TestLargestListenersStayWithinTheBudgetOfRules(t *testing.T) {
	t.Parallel()
	items := make([]string, 0, 64)
	for i := range 64 {
		items = append(items, fmt.Sprintf(`{name: l%d, port: %d, type: internal, tls: true, authentication: {type: tls}}`, i, 10000+i))
	}
	manifest := merged(t, minimalKafka, "spec: {kafka: {listeners: ["+strings.Join(items, ", ")+"]}}")
	if _, errs := newAdmission(t, kafkas, "v1").admit(t, manifest); len(errs) != 0 {
		t.Errorf("refused: %v", errs)
	}
}
