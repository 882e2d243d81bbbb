package model

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// exampleInput is a cluster of three nodes with both roles that nothing is wrong
// with.
func exampleInput() Input {
	return Input{
		Kafka:    exampleKafka(),
		Pools:    []kafkav1.KafkaNodePool{examplePool("dual", 3, kafkav1.RoleController, kafkav1.RoleBroker)},
		Settings: testSettings(),
		Known:    Known{ClusterID: "MkU3OEVBNTcwNTJENDM2Qg"},
	}
}

func exampleKafka() *kafkav1.Kafka {
	return &kafkav1.Kafka{
		ObjectMeta: metav1.ObjectMeta{Name: "my", Namespace: "kafka", UID: "1"},
		Spec: kafkav1.KafkaSpec{Kafka: kafkav1.KafkaClusterSpec{
			Listeners: []kafkav1.Listener{exampleListener("tls", 9093)},
			Config: map[string]kafkav1.ConfigValue{
				"default.replication.factor":               "3",
				"min.insync.replicas":                      "2",
				"offsets.topic.replication.factor":         "3",
				"transaction.state.log.replication.factor": "3",
			},
		}},
	}
}

func exampleListener(name string, port int32) kafkav1.Listener {
	return kafkav1.Listener{Name: name, Port: port, Type: kafkav1.ListenerInternal, TLS: true}
}

func examplePool(name string, replicas int32, roles ...kafkav1.ProcessRole) kafkav1.KafkaNodePool {
	return kafkav1.KafkaNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kafka", Labels: map[string]string{ClusterLabel: "my"}},
		Spec: kafkav1.KafkaNodePoolSpec{
			Replicas: replicas,
			Roles:    roles,
			Storage:  kafkav1.Storage{Type: kafkav1.StoragePersistentClaim, Volume: kafkav1.Volume{Size: "10Gi"}},
		},
	}
}

// built says that the pools have been built as they are, with these ids.
func built(in Input, ids map[string][]NodeID) Input {
	in.Known.Pools = map[string]KnownPool{}
	for i := range in.Pools {
		pool := &in.Pools[i]
		if len(ids[pool.Name]) == 0 {
			continue
		}
		storage := pool.Spec.Storage
		in.Known.Pools[pool.Name] = KnownPool{NodeIDs: ids[pool.Name], Roles: RolesOf(pool.Spec.Roles), Storage: &storage}
		if slices.Contains(pool.Spec.Roles, kafkav1.RoleController) {
			in.Known.Voters = append(in.Known.Voters, ids[pool.Name]...)
		}
	}
	return in
}

// resolved resolves an input in which nothing may be wrong.
func resolved(t *testing.T, in Input) (Cluster, Findings) {
	t.Helper()
	cluster, findings := Resolve(in)
	if err := findings.Err(); err != nil {
		t.Fatalf("resolving: %s", err)
	}
	return cluster, findings
}

func TestAValidClusterHasNoFindings(t *testing.T) {
	t.Parallel()
	_, findings := resolved(t, exampleInput())
	if len(findings.Warnings) > 0 {
		t.Errorf("warnings: %v", findings.Warnings)
	}
}

// Each of these must stop the reconciliation before anything is changed, and say
// which object is wrong, what is wrong with it and what to do.
func TestWhatCannotBeBuiltIsAnError(t *testing.T) {
	t.Parallel()
	const kafka, pool = "Kafka kafka/my", "KafkaNodePool kafka/dual"
	cases := map[string]struct {
		change func(*Input)
		object string
		says   string
	}{
		"two listeners share a port": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Listeners = []kafkav1.Listener{exampleListener("tls", 9093), exampleListener("other", 9093)}
			}, kafka, "share port 9093",
		},
		"two listeners share a name": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Listeners = []kafkav1.Listener{exampleListener("tls", 9093), exampleListener("tls", 9094)}
			}, kafka, "used twice",
		},
		"two listeners share a port name": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Listeners = []kafkav1.Listener{exampleListener("tls", 9093), exampleListener("clientstls", 9094)}
			}, kafka, "tcp-clientstls",
		},
		"there is no listener":               {func(in *Input) { in.Kafka.Spec.Kafka.Listeners = nil }, kafka, "listeners is empty"},
		"a listener takes the agent's port":  {withListener(exampleListener("tls", 8443)), kafka, "reserved for the agent"},
		"a listener takes the probe's port":  {withListener(exampleListener("tls", 8080)), kafka, "reserved for the agent"},
		"a listener takes controllers' port": {withListener(exampleListener("tls", 9090)), kafka, "reserved for controllers"},
		"a listener takes replication port":  {withListener(exampleListener("tls", 9091)), kafka, "reserved for replication"},
		"a listener takes the metrics port":  {withListener(exampleListener("tls", 9404)), kafka, "reserved for metrics"},
		"a listener takes the JMX port":      {withListener(exampleListener("tls", 9999)), kafka, "reserved for JMX"},
		"a listener has a low port":          {withListener(exampleListener("tls", 443)), kafka, "not between"},
		"a listener has a port too high":     {withListener(exampleListener("tls", 70000)), kafka, "not between"},
		"a listener has a reserved name":     {withListener(exampleListener("replication", 9092)), kafka, "reserved for the cluster"},
		"a listener's name is invalid":       {withListener(exampleListener("TLS_1", 9092)), kafka, "1 to 11"},
		"a listener's name is too long":      {withListener(exampleListener("twelveletter", 9092)), kafka, "1 to 11"},
		"a listener is reached from outside": {
			withListener(kafkav1.Listener{Name: "out", Port: 9094, Type: kafkav1.ListenerNodePort, TLS: true}), kafka, "nodeport is not supported",
		},
		"authentication is custom": {
			withListener(kafkav1.Listener{
				Name: "own", Port: 9094, Type: kafkav1.ListenerInternal, TLS: true,
				Authentication: &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationCustom},
			}), kafka, "custom is not supported",
		},
		"authentication is unknown": {
			withListener(kafkav1.Listener{
				Name: "own", Port: 9094, Type: kafkav1.ListenerInternal, TLS: true,
				Authentication: &kafkav1.ListenerAuthentication{Type: "kerberos"},
			}), kafka, "unknown",
		},
		"certificates without TLS": {
			withListener(kafkav1.Listener{
				Name: "own", Port: 9094, Type: kafkav1.ListenerInternal,
				Authentication: &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationTLS},
			}), kafka, "needs tls: true",
		},
		"a certificate of its own without TLS": {
			withListener(kafkav1.Listener{
				Name: "own", Port: 9094, Type: kafkav1.ListenerInternal,
				Configuration: &kafkav1.ListenerConfiguration{BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{SecretName: "s", Certificate: "c", Key: "k"}},
			}),
			kafka, "brokerCertChainAndKey needs tls: true",
		},
		"a certificate of its own from nowhere": {
			withListener(kafkav1.Listener{
				Name: "own", Port: 9094, Type: kafkav1.ListenerInternal, TLS: true,
				Configuration: &kafkav1.ListenerConfiguration{BrokerCertChainAndKey: &kafkav1.CertAndKeySecretSource{SecretName: "s"}},
			}),
			kafka, "needs secretName",
		},
		"the authorizer is the user's own": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Authorization = &kafkav1.Authorization{Type: kafkav1.AuthorizationCustom}
			}, kafka, "custom is not supported",
		},
		"a super user smuggles in another": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Authorization = &kafkav1.Authorization{Type: kafkav1.AuthorizationSimple, SuperUsers: []string{"CN=a;User:ANONYMOUS"}}
			}, kafka, "separates super users",
		},
		"the version is unknown":          {func(in *Input) { in.Kafka.Spec.Kafka.Version = "3.9.0" }, kafka, "choose one of 4.2.1, 4.3.1"},
		"the metadata version is unknown": {func(in *Input) { in.Kafka.Spec.Kafka.MetadataVersion = "4.9" }, kafka, "metadataVersion 4.9 is not known"},
		"the metadata version is too new": {func(in *Input) { in.Kafka.Spec.Kafka.Version, in.Kafka.Spec.Kafka.MetadataVersion = "4.2.1", "4.3" }, kafka, "is not known to Kafka 4.2.1"},
		"a downgrade below the metadata":  {func(in *Input) { in.Kafka.Spec.Kafka.Version, in.Known.MetadataVersion = "4.2.1", "4.3-IV0" }, kafka, "cannot be taken back"},
		"the operator has no image":       {func(in *Input) { in.Settings.Versions = nil }, kafka, "no Kafka image"},
		"a version before those that get ready": {func(in *Input) {
			in.Settings.Versions = append(in.Settings.Versions, KafkaVersion{Name: "3.8.1", Image: "i"})
			in.Kafka.Spec.Kafka.Version = "3.8.1"
		}, kafka, "Kafka 3.8.1 is in kafkaImages, but this operator does not support it: set spec.kafka.version to one of 4.2.1, 4.3.1"},
		"log segments too small for the version": {func(in *Input) {
			in.Kafka.Spec.Kafka.Config = kafkav1.Config{"log.segment.bytes": "1048575"}
		}, kafka, "log.segment.bytes is 1048575, and brokers of Kafka 4.3.1 do not start with less than 1048576"},
		"no fetchers": {func(in *Input) {
			in.Kafka.Spec.Kafka.Config = kafkav1.Config{"num.replica.fetchers": "0"}
		}, kafka, "num.replica.fetchers is 0, and brokers of Kafka 4.3.1 do not start with less than 1"},
		"a version without metadata table": {func(in *Input) { in.Settings.Versions = []KafkaVersion{{Name: "9.9.9", Image: "i"}} }, kafka, "Kafka 9.9.9 is in kafkaImages, but this operator does not support it: add an image"},
		"a version beside others with metadata table": {func(in *Input) {
			in.Settings.Versions = append(in.Settings.Versions, KafkaVersion{Name: "9.9.9", Image: "i"})
			in.Kafka.Spec.Kafka.Version = "9.9.9"
		}, kafka, "Kafka 9.9.9 is in kafkaImages, but this operator does not support it: set spec.kafka.version to one of 4.2.1, 4.3.1"},

		"the name makes long Service names": {
			rename(strings.Repeat("a", 48)), "Kafka kafka/" + strings.Repeat("a", 48), "at most 47 characters",
		},
		"the name starts with a digit": {rename("1st"), "Kafka kafka/1st", "cannot begin the names of Services"},
		"the name has a dot":           {rename("a.b"), "Kafka kafka/a.b", "cannot begin the names of Services"},
		"there is no pool":             {func(in *Input) { in.Pools = nil }, kafka, "no KafkaNodePool of namespace kafka"},
		"the pools are another cluster's": {
			func(in *Input) { in.Pools[0].Labels[ClusterLabel] = "other" }, kafka, "no KafkaNodePool of namespace kafka",
		},
		"there are no controllers":         {func(in *Input) { in.Pools[0].Spec.Roles = []kafkav1.ProcessRole{kafkav1.RoleBroker} }, kafka, "role controller"},
		"there are no brokers":             {func(in *Input) { in.Pools[0].Spec.Roles = []kafkav1.ProcessRole{kafkav1.RoleController} }, kafka, "role broker"},
		"the pools are empty":              {func(in *Input) { in.Pools[0].Spec.Replicas = 0 }, kafka, "role controller"},
		"a pool has no role":               {func(in *Input) { in.Pools[0].Spec.Roles = nil }, pool, "names no role"},
		"a pool has negative replicas":     {func(in *Input) { in.Pools[0].Spec.Replicas = -1 }, pool, "replicas is -1"},
		"a pool's name is too long":        {func(in *Input) { in.Pools[0].Name = strings.Repeat("p", 59) }, "KafkaNodePool kafka/" + strings.Repeat("p", 59), "host name"},
		"a pool's name has a dot":          {func(in *Input) { in.Pools[0].Name = "a.b" }, "KafkaNodePool kafka/a.b", "host name"},
		"a pool's label is the operator's": {func(in *Input) { in.Pools[0].Labels["strimzi.io/kind"] = "x" }, pool, "reserved for the operator"},
		"a template asks for a renewal": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Template = templateOf(nil, map[string]string{"strimzi.io/force-renew": "true"})
			}, kafka, "annotation strimzi.io/force-renew is reserved",
		},
		"a template claims that cert-manager fills the Secret": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Template = templateOf(nil, map[string]string{"cert-manager.io/certificate-name": "x"})
			}, kafka, "annotation cert-manager.io/certificate-name is reserved",
		},
		"a template's label is cert-manager's": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Template = templateOf(map[string]string{"controller.cert-manager.io/fao": "true"}, nil)
			}, kafka, "label controller.cert-manager.io/fao is reserved",
		},
		"a template's label is the operator's": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Template = templateOf(map[string]string{"keyturn.dev/x": "1"}, nil)
			}, kafka, "label keyturn.dev/x is reserved",
		},
		"a pull Secret of the Kafka is there twice": {
			func(in *Input) { in.Kafka.Spec.Kafka.Template = &kafkav1.KafkaTemplate{Pod: pulling("a", "b", "a")} },
			kafka, `spec.kafka.template.pod.imagePullSecrets: "a" is there twice: name each Secret once`,
		},
		"a pull Secret of the operators beside the nodes has no name": {
			func(in *Input) {
				in.Kafka.Spec.EntityOperator = &kafkav1.EntityOperator{Template: &kafkav1.EntityOperatorTemplate{Pod: operatorsPulling("")}}
			}, kafka, "spec.entityOperator.template.pod.imagePullSecrets: one has no name",
		},
		"a variable of the operators would name another API server": {
			func(in *Input) {
				in.Kafka.Spec.EntityOperator = withEnv("KUBERNETES_SERVICE_HOST")
			}, kafka, "spec.entityOperator.template.topicOperatorContainer.env must not have KUBERNETES_SERVICE_HOST, because it changes which servers the operator trusts or uses: remove it",
		},
		"a variable of the operators is Keyturn's own": {
			func(in *Input) {
				in.Kafka.Spec.EntityOperator = withEnv("KEYTURN_ANY")
			}, kafka, "spec.entityOperator.template.topicOperatorContainer.env must not have KEYTURN_ANY, because it changes which servers the operator trusts or uses: remove it",
		},
		"a variable of the operators is there twice": {
			func(in *Input) {
				in.Kafka.Spec.EntityOperator = withEnv("A", "A")
			}, kafka, "spec.entityOperator.template.topicOperatorContainer.env has A twice: remove one of the two",
		},
		"a variable of the operators has no name": {
			func(in *Input) {
				in.Kafka.Spec.EntityOperator = withEnv("")
			}, kafka, "spec.entityOperator.template.topicOperatorContainer.env has a variable without a name: name it, or remove it",
		},
		"a pull Secret of a pool is no name": {
			func(in *Input) { in.Pools[0].Spec.Template = &kafkav1.NodePoolTemplate{Pod: pulling("A_b")} },
			pool, `spec.template.pod.imagePullSecrets: "A_b" cannot be the name of a Secret`,
		},
		"the Kafka's label is the operator's": {
			func(in *Input) { in.Kafka.Labels = map[string]string{"strimzi.io/kind": "x"} }, kafka, "reserved for the operator",
		},
		"two pools have the same id": {
			func(in *Input) {
				in.Known.Pools = map[string]KnownPool{"dual": {NodeIDs: []NodeID{0, 1}}, "other": {NodeIDs: []NodeID{1}}}
			}, "KafkaNodePool kafka/other", "in use by KafkaNodePool dual",
		},
		"a volume has no size":           {func(in *Input) { in.Pools[0].Spec.Storage.Size = "" }, pool, "spec.storage"},
		"a volume has a senseless size":  {func(in *Input) { in.Pools[0].Spec.Storage.Size = "much" }, pool, "no quantity"},
		"a volume has no room":           {func(in *Input) { in.Pools[0].Spec.Storage.Size = "0" }, pool, "not above zero"},
		"a volume is of an unknown type": {func(in *Input) { in.Pools[0].Spec.Storage.Type = "tape" }, pool, "none of ephemeral"},
		"a jbod is empty":                {func(in *Input) { in.Pools[0].Spec.Storage = kafkav1.Storage{Type: kafkav1.StorageJBOD} }, pool, "no volumes"},
		"more replicas than brokers":     {withConfig("default.replication.factor", "4"), kafka, "only 3 brokers"},
		"a replication factor in words":  {withConfig("offsets.topic.replication.factor", "three"), kafka, "whole number"},
		"min.insync.replicas in words":   {withConfig("min.insync.replicas", "two"), kafka, "whole number"},
		"the heap starts above its end":  {func(in *Input) { in.Kafka.Spec.Kafka.JvmOptions = &kafkav1.JvmOptions{Xms: "2g", Xmx: "1024m"} }, kafka, "-Xms 2g is more"},
		"the heap is no number":          {func(in *Input) { in.Pools[0].Spec.JvmOptions = &kafkav1.JvmOptions{Xmx: "half"} }, pool, "must be numbers"},
		"a variable of Strimzi's nodes":  {withConfig("num.io.threads", "a ${strimzienv:THREADS}"), kafka, "num.io.threads refers to ${strimzienv:...}"},
		"a folder of Strimzi's nodes":    {withConfig("num.io.threads", "${strimzidir:/mnt:threads}"), kafka, "num.io.threads refers to ${strimzidir:...}"},
		"authorization by an agent": {func(in *Input) {
			in.Kafka.Spec.Kafka.Authorization = &kafkav1.Authorization{Type: kafkav1.AuthorizationOPA}
		}, kafka, "opa is not supported"},
		"authorization by Keycloak": {func(in *Input) {
			in.Kafka.Spec.Kafka.Authorization = &kafkav1.Authorization{Type: kafkav1.AuthorizationKeycloak}
		}, kafka, "keycloak is not supported"},
		"authentication by token": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Listeners[0].Authentication = &kafkav1.ListenerAuthentication{Type: kafkav1.AuthenticationOAuth}
			}, kafka, "oauth is not supported",
		},
		"requests exceed limits": {func(in *Input) { in.Pools[0].Spec.Resources = resources(t, "2Gi", "1Gi") }, pool, "more than the limit"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			test.change(&in)
			_, findings := Resolve(in)
			var invalid *InvalidResourceError
			if !errors.As(findings.Err(), &invalid) {
				t.Fatalf("no error, findings: %+v", findings)
			}
			if !slices.ContainsFunc(invalid.Findings, func(f Finding) bool {
				return f.Object == test.object && f.Reason == ReasonInvalidResource && strings.Contains(f.Message, test.says)
			}) {
				t.Errorf("no error about %s that says %q, but: %s", test.object, test.says, invalid)
			}
		})
	}
}

func withListener(listener kafkav1.Listener) func(*Input) {
	return func(in *Input) { in.Kafka.Spec.Kafka.Listeners = []kafkav1.Listener{listener} }
}

func withConfig(key, value string) func(*Input) {
	return func(in *Input) { in.Kafka.Spec.Kafka.Config[key] = kafkav1.ConfigValue(value) }
}

func rename(name string) func(*Input) {
	return func(in *Input) {
		in.Kafka.Name = name
		in.Pools[0].Labels[ClusterLabel] = name
	}
}

func TestAllErrorsAreReportedTogether(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Kafka.Spec.Kafka.Version = "1.0.0"
	withListener(exampleListener("tls", 9404))(&in)
	in.Pools[0].Spec.Storage.Size = "much"
	_, findings := Resolve(in)
	if len(findings.Errors) != 3 {
		t.Errorf("%d errors instead of 3: %v", len(findings.Errors), findings.Errors)
	}
}

// These clusters work; a person should still know.
func TestWhatIsUnwiseIsAWarning(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*Input)
		reason string
		says   string
	}{
		"two controllers":                {func(in *Input) { in.Pools[0].Spec.Replicas = 2; lowReplication(in) }, ReasonControllerCount, "both needed"},
		"four controllers":               {func(in *Input) { in.Pools[0].Spec.Replicas = 4 }, ReasonControllerCount, "odd number"},
		"no default replication":         {without("default.replication.factor"), ReasonDefaultReplicationFactor, "not set"},
		"no minimum in sync":             {without("min.insync.replicas"), ReasonMinInsyncReplicas, "not set"},
		"minimum above the brokers":      {withConfig("min.insync.replicas", "4"), ReasonMinInsyncReplicas, "only 3 brokers"},
		"minimum above the replicas":     {func(in *Input) { withConfig("default.replication.factor", "1")(in) }, ReasonMinInsyncReplicas, "have 1 replicas"},
		"minimum equal to the replicas":  {withConfig("min.insync.replicas", "3"), ReasonMinInsyncReplicas, "no broker can restart"},
		"internal topics are impossible": {func(in *Input) { in.Pools[0].Spec.Replicas = 1; in.Kafka.Spec.Kafka.Config = nil }, ReasonInternalTopics, "offsets.topic.replication.factor"},
		"forbidden properties":           {withConfig("listeners", "PLAINTEXT://:1"), ReasonForbiddenConfig, "dropped: listeners"},
		"the only node is ephemeral": {
			func(in *Input) {
				in.Pools[0].Spec.Replicas = 1
				in.Pools[0].Spec.Storage = kafkav1.Storage{Type: kafkav1.StorageEphemeral}
				lowReplication(in)
			}, ReasonStorage, "only broker has ephemeral storage",
		},
		"the metadata version is held back": {
			func(in *Input) { in.Kafka.Spec.Kafka.MetadataVersion, in.Known.MetadataVersion = "4.2", "4.2-IV1" }, ReasonMetadataVersion, "finish the upgrade",
		},
		"the metadata version is taken back": {
			func(in *Input) { in.Kafka.Spec.Kafka.MetadataVersion, in.Known.MetadataVersion = "4.2", "4.3-IV0" }, ReasonMetadataVersion, "stays at 4.3-IV0",
		},
		"an annotation cannot be read": {
			func(in *Input) { in.Pools[0].Annotations = map[string]string{nextNodeIDsAnnotation: "5-9"} }, ReasonNodeIDs, "brackets",
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			test.change(&in)
			_, findings := resolved(t, in)
			if !slices.ContainsFunc(findings.Warnings, func(f Finding) bool {
				return f.Reason == test.reason && strings.Contains(f.Message, test.says)
			}) {
				t.Errorf("no %s warning that says %q, but: %v", test.reason, test.says, findings.Warnings)
			}
		})
	}
}

func without(key string) func(*Input) {
	return func(in *Input) { delete(in.Kafka.Spec.Kafka.Config, key) }
}

func lowReplication(in *Input) {
	for key := range in.Kafka.Spec.Kafka.Config {
		in.Kafka.Spec.Kafka.Config[key] = "1"
	}
}

func TestResolveLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	before := in.Kafka.DeepCopy()
	poolBefore := in.Pools[0].DeepCopy()
	cluster, _ := resolved(t, in)
	cluster.Pools[0].labels["x"] = "y"
	cluster.config["x"] = "y"
	if !equalJSON(t, before, in.Kafka) || !equalJSON(t, poolBefore, in.Pools[0]) {
		t.Error("the resources were changed")
	}
}

func TestKeysOfTheOperatorInATemplateNeverReachTheSecret(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Kafka.Spec.Kafka.Template = templateOf(
		map[string]string{"team": "orders", "strimzi.io/kind": "x"},
		map[string]string{"note": "kept", "strimzi.io/force-renew": "true", "keyturn.dev/x": "1"},
	)
	asked, findings := Resolve(in)
	if findings.Err() == nil {
		t.Error("the template is not reported")
	}
	want := kafkav1.MetadataTemplate{Labels: map[string]string{"team": "orders"}, Annotations: map[string]string{"note": "kept"}}
	for name, cluster := range map[string]Cluster{"that is asked for": asked, "that stands": LastKnown(in, nil)} {
		if diff := cmp.Diff(want, cluster.ClusterCACert); diff != "" {
			t.Errorf("the cluster %s (-want +got):\n%s", name, diff)
		}
	}
}

// templateOf adds labels and annotations to the Secret with the cluster CA's certificate.
func templateOf(labels, annotations map[string]string) *kafkav1.KafkaTemplate {
	return &kafkav1.KafkaTemplate{ClusterCaCert: &kafkav1.ResourceTemplate{
		Metadata: &kafkav1.MetadataTemplate{Labels: labels, Annotations: annotations},
	}}
}
