package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
)

// annotations are those of the first pod of a cluster.
func annotations(t *testing.T, in Input, values PodAnnotations) map[string]string {
	t.Helper()
	return firstPod(t, in, values).Annotations
}

func firstPod(t *testing.T, in Input, values PodAnnotations) *coreac.PodApplyConfiguration {
	t.Helper()
	cluster, _ := resolved(t, in)
	pod, err := cluster.Pod(cluster.Nodes[0], values)
	must(t, err)
	return pod
}

func codes(reasons []rollout.Reason) []rollout.ReasonCode {
	found := []rollout.ReasonCode{}
	for _, reason := range reasons {
		found = append(found, reason.Code)
	}
	return found
}

// What restarts a pod, and for which reason. Everything else must not.
func TestReasonsToRestart(t *testing.T) {
	t.Parallel()
	none := []rollout.ReasonCode{}
	cases := map[string]struct {
		change func(*Input)
		want   []rollout.ReasonCode
	}{
		"nothing":                    {func(*Input) {}, none},
		"a property":                 {withConfig("num.io.threads", "4"), []rollout.ReasonCode{rollout.ConfigChanged}},
		"a property that is dropped": {withConfig("node.id", "4"), none},
		"a JVM option": {
			func(in *Input) { in.Kafka.Spec.Kafka.JvmOptions = &kafkav1.JvmOptions{Xmx: "2g"} }, []rollout.ReasonCode{rollout.ConfigChanged},
		},
		"a listener": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Listeners = append(in.Kafka.Spec.Kafka.Listeners, exampleListener("new", 9094))
			}, []rollout.ReasonCode{rollout.PodSpecChanged, rollout.ConfigChanged},
		},
		"the version":              {func(in *Input) { in.Kafka.Spec.Kafka.Version = "4.2.1" }, []rollout.ReasonCode{rollout.PodSpecChanged, rollout.VersionChanged}},
		"the image":                {func(in *Input) { in.Kafka.Spec.Kafka.Image = "new" }, []rollout.ReasonCode{rollout.PodSpecChanged}},
		"a label":                  {func(in *Input) { in.Kafka.Labels = map[string]string{"team": "a"} }, []rollout.ReasonCode{rollout.PodSpecChanged}},
		"a memory request":         {func(in *Input) { in.Pools[0].Spec.Resources = resources(t, "1Gi", "") }, []rollout.ReasonCode{rollout.ResourcesChanged}},
		"the operator is upgraded": {func(in *Input) { in.Settings.AgentImage = "newer" }, none},
		"the pull policy":          {func(in *Input) { in.Settings.PullPolicy = "Always" }, none},
		"the operator's pull Secrets": {
			func(in *Input) { in.Settings.PullSecrets = []corev1.LocalObjectReference{{Name: "new"}} }, none,
		},
		"the pull Secrets of the Kafka": {func(in *Input) { in.Kafka.Spec.Kafka.Template = &kafkav1.KafkaTemplate{Pod: pulling("new")} }, none},
		"the pull Secrets of the pool":  {func(in *Input) { in.Pools[0].Spec.Template = &kafkav1.NodePoolTemplate{Pod: pulling("new")} }, none},
		"the metadata version":          {func(in *Input) { in.Known.MetadataVersion = "4.2-IV1" }, none},
		"a broker more":                 {func(in *Input) { in.Pools = append(in.Pools, examplePool("z", 1, kafkav1.RoleBroker)) }, none},
		"a larger volume":               {func(in *Input) { in.Pools[0].Spec.Storage.Size = "20Gi" }, none},
		"a volume that is deleted later": {
			func(in *Input) { yes := true; in.Pools[0].Spec.Storage.DeleteClaim = &yes }, none,
		},
		"a super user": {
			func(in *Input) {
				in.Kafka.Spec.Kafka.Authorization = &kafkav1.Authorization{Type: kafkav1.AuthorizationSimple}
			},
			[]rollout.ReasonCode{rollout.ConfigChanged},
		},
	}
	values := PodAnnotations{ServerCertHash: "a", Pin: "1"}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := annotations(t, exampleInput(), values)
			in := exampleInput()
			test.change(&in)
			after := annotations(t, in, values)
			if diff := cmp.Diff(test.want, codes(Reasons(before, after))); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

// No certificate and no publication changes the revision of a pod.
func TestCertificatesHaveReasonsOfTheirOwn(t *testing.T) {
	t.Parallel()
	base := PodAnnotations{ServerCertHash: "a", ListenerCertThumbprints: map[string]string{"tls": "b"}, Pin: "1"}
	cases := map[string]struct {
		change func(*PodAnnotations)
		want   []rollout.ReasonCode
	}{
		"the pin":                   {func(v *PodAnnotations) { v.Pin = "2" }, []rollout.ReasonCode{}},
		"the leaf":                  {func(v *PodAnnotations) { v.ServerCertHash = "c" }, []rollout.ReasonCode{rollout.CertificatesChanged}},
		"a listener's certificate":  {func(v *PodAnnotations) { v.ListenerCertThumbprints = map[string]string{"tls": "c"} }, []rollout.ReasonCode{rollout.CertificatesChanged}},
		"the listener's is gone":    {func(v *PodAnnotations) { v.ListenerCertThumbprints = nil }, []rollout.ReasonCode{rollout.CertificatesChanged}},
		"the cluster CA's key":      {func(v *PodAnnotations) { v.ClusterCAKeyGeneration++ }, []rollout.ReasonCode{rollout.TrustAdded}},
		"the cluster CA is renewed": {func(v *PodAnnotations) { v.ClusterCACertGeneration++ }, []rollout.ReasonCode{rollout.OldAuthorityGeneration}},
		"the clients CA is renewed": {func(v *PodAnnotations) { v.ClientsCACertGeneration++ }, []rollout.ReasonCode{rollout.OldAuthorityGeneration}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := base
			test.change(&changed)
			before, after := annotations(t, exampleInput(), base), annotations(t, exampleInput(), changed)
			if diff := cmp.Diff(test.want, codes(CertificateReasons(before, after))); diff != "" {
				t.Errorf("certificate reasons (-want +got):\n%s", diff)
			}
			if reasons := Reasons(before, after); len(reasons) > 0 {
				t.Errorf("reasons of the shape: %v", reasons)
			}
		})
	}
}

func TestAPersonMayAskForARestart(t *testing.T) {
	t.Parallel()
	desired := annotations(t, exampleInput(), PodAnnotations{})
	current := annotations(t, exampleInput(), PodAnnotations{})
	for _, yes := range []string{"true", "True", "TRUE"} {
		current[ManualRollingUpdateAnnotation] = yes
		if diff := cmp.Diff([]rollout.ReasonCode{rollout.ManualRollingUpdate}, codes(Reasons(current, desired))); diff != "" {
			t.Errorf("reasons with %q (-want +got):\n%s", yes, diff)
		}
	}
	for _, no := range []string{"false", "yes", ""} {
		current[ManualRollingUpdateAnnotation] = no
		if reasons := Reasons(current, desired); len(reasons) > 0 {
			t.Errorf("reasons with %q: %v", no, reasons)
		}
	}
}

// A controller has no certificates of listeners, so their change leaves it alone.
func TestControllersCarryNoListenerCertificates(t *testing.T) {
	t.Parallel()
	cluster, _ := resolved(t, separate(3))
	values := PodAnnotations{ListenerCertThumbprints: map[string]string{"tls": "b"}}
	for _, node := range cluster.Nodes {
		pod, err := cluster.Pod(node, values)
		must(t, err)
		if _, has := pod.Annotations[ListenerCertsAnnotation]; has != node.Roles.Broker {
			t.Errorf("%s has thumbprints: %t", node.Pod, has)
		}
	}
}

func TestThumbprintsAreWrittenAsAMap(t *testing.T) {
	t.Parallel()
	if got := thumbprints(map[string]string{"b": "2", "a": "1"}); got != "{a=1, b=2}" {
		t.Errorf("%s", got)
	}
}

// What the pod mounts is what the agent reads.
func TestThePodMountsWhatTheAgentReads(t *testing.T) {
	t.Parallel()
	in := exampleInput()
	in.Pools[0].Spec.Storage = jbod(disk(1, "1Gi"), disk(0, "1Gi"))
	pod := firstPod(t, in, PodAnnotations{})
	mounted := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounted[*m.MountPath] = *m.Name
	}
	for _, path := range []string{
		agent.NodeDir, contract.ClusterTrustDir, contract.ClientsTrustDir, agent.ConfigDir, agent.PodDir, agent.RunDir,
		"/tmp", "/opt/keyturn", "/var/lib/kafka/data-0", "/var/lib/kafka/data-1",
	} {
		if mounted[path] == "" {
			t.Errorf("nothing is mounted at %s", path)
		}
	}
	volumes := map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		volumes[*v.Name] = true
	}
	for path, volume := range mounted {
		if !volumes[volume] {
			t.Errorf("%s mounts %s, which the pod does not have", path, volume)
		}
	}
}

func TestTheAgentReadsItsConfiguration(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dual-role", "separate-roles", "single-ephemeral"} {
		cluster, _ := resolved(t, readInput(t, name))
		for _, node := range cluster.Nodes {
			data, err := cluster.NodeConfig(node)
			must(t, err)
			config, err := contract.ParseConfig([]byte(data[contract.AgentConfigKey]))
			must(t, err)
			if diff := cmp.Diff(cluster.AgentConfig(node), config); diff != "" {
				t.Errorf("%s (-want +got):\n%s", node.Pod, diff)
			}
		}
	}
}
