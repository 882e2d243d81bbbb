package model_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// withPod is a cluster with a changed policy for its pods, or with anything else changed.
func withPod(t *testing.T, change func(spec *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy)) model.Cluster {
	t.Helper()
	etcd := three(t)
	etcd.Spec.Pod = &etcdv1beta2.PodPolicy{EtcdEnv: []corev1.EnvVar{{Name: "GOGC", Value: "50"}, {Name: "TZ", Value: "UTC"}}}
	change(&etcd.Spec, etcd.Spec.Pod)
	cluster, _ := model.Resolve(etcd, settings())
	return cluster
}

func storage(size string) *etcdv1beta2.PodPolicy {
	return &etcdv1beta2.PodPolicy{PersistentVolumeClaimSpec: &corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
}

// podOf is the pod of a member as it is created now.
func podOf(t *testing.T, cluster model.Cluster) *corev1.Pod {
	t.Helper()
	pod, err := cluster.Pod("my-cluster-0", model.Start{Version: cluster.Version}, "")
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestAPodHasAnOldSpecWhenWhatItIsMadeOfHasChanged(t *testing.T) {
	t.Parallel()
	type change = func(spec *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy)
	memory := func(size string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(size)}}
	}
	before := withPod(t, func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) { pod.Resources = memory("1Gi") })
	created := podOf(t, before)
	for name, test := range map[string]struct {
		change change
		isOld  bool
	}{
		"nothing": {func(*etcdv1beta2.EtcdClusterSpec, *etcdv1beta2.PodPolicy) {}, false},
		"the image": {func(spec *etcdv1beta2.EtcdClusterSpec, _ *etcdv1beta2.PodPolicy) {
			spec.Repository = "registry.example.org/other"
		}, true},
		"a label": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.Labels = map[string]string{"a": "b"}
		}, true},
		"an annotation": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.Annotations = map[string]string{"a": "b"}
		}, true},
		"a variable": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) { pod.EtcdEnv[0].Value = "100" }, true},
		"a check for corruption": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.EtcdEnv = append(pod.EtcdEnv, corev1.EnvVar{Name: "ETCD_FEATURE_GATES", Value: "CompactHashCheck=true"})
		}, true},
		"a gate that cannot be set": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.EtcdEnv = append(pod.EtcdEnv, corev1.EnvVar{Name: "ETCD_FEATURE_GATES", Value: "AllAlpha=true"})
		}, false},
		"one variable less": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) { pod.EtcdEnv = pod.EtcdEnv[:1] }, true},
		"memory":            {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) { pod.Resources = memory("2Gi") }, true},
		"a node selector": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.NodeSelector = map[string]string{"disk": "fast"}
		}, true},
		"affinity": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		}, true},
		"a toleration": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.Tolerations = []corev1.Toleration{{Key: "a"}}
		}, true},
		"a security context": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(7))}
		}, true},
		"the kind of keys": {func(spec *etcdv1beta2.EtcdClusterSpec, _ *etcdv1beta2.PodPolicy) {
			spec.TLS = &etcdv1beta2.TLSPolicy{Dynamic: &etcdv1beta2.DynamicTLS{KeyAlgorithm: etcdv1beta2.RSA}}
		}, true},
		"the default, written": {func(spec *etcdv1beta2.EtcdClusterSpec, _ *etcdv1beta2.PodPolicy) {
			spec.TLS = &etcdv1beta2.TLSPolicy{Dynamic: &etcdv1beta2.DynamicTLS{KeyAlgorithm: etcdv1beta2.ECDSA}}
		}, false},
		"the order of variables": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.EtcdEnv[0], pod.EtcdEnv[1] = pod.EtcdEnv[1], pod.EtcdEnv[0]
		}, false},
		"how memory is written": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) { pod.Resources = memory("1024Mi") }, false},
		"an empty affinity":     {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) { pod.Affinity = &corev1.Affinity{} }, false},
		"a variable without effect": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.EtcdEnv = append(pod.EtcdEnv, corev1.EnvVar{Name: "ETCD_NAME", Value: "other"})
		}, false},
		"a label of the operator's": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.Labels = map[string]string{model.AppLabel: "x", model.RoleLabel: "voter", model.MemberLabel: "x"}
		}, false},
		"an annotation of the operator's": {func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			pod.Annotations = map[string]string{model.RevisionAnnotation: "x", model.VersionAnnotation: "1"}
		}, false},
		"the size, the version, volumes and clients": {func(spec *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
			spec.Size, spec.Version, pod.PersistentVolumeClaimSpec, pod.BusyboxImage = 5, "3.5.35", storage("20Gi").PersistentVolumeClaimSpec, "x"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := withPod(t, func(spec *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
				pod.Resources = memory("1Gi")
				test.change(spec, pod)
			})
			if got := after.HasOldSpec(created); got != test.isOld {
				t.Errorf("the pod has an old spec: %t, want %t", got, test.isOld)
			}
			if again := podOf(t, after); after.HasOldSpec(again) {
				t.Error("a pod that is created now has an old spec")
			}
		})
	}
}

func TestAPodOfAnotherOperatorCountsAsCurrent(t *testing.T) {
	t.Parallel()
	cluster := withPod(t, func(*etcdv1beta2.EtcdClusterSpec, *etcdv1beta2.PodPolicy) {})
	settings := settings()
	settings.AgentImage, settings.PullSecrets = "keyturn:next", []corev1.LocalObjectReference{{Name: "next"}}
	next, _ := model.Resolve(three(t), settings)
	now, _ := model.Resolve(three(t), model.Settings{ClusterDomain: "other.local"})
	if next.HasOldSpec(podOf(t, now)) {
		t.Error("another operator makes pods old")
	}
	for _, revision := range []string{"", "2.0123456789abcdef", "nonsense"} {
		pod := podOf(t, cluster)
		pod.Annotations[model.RevisionAnnotation] = revision
		if cluster.HasOldSpec(pod) {
			t.Errorf("a pod with the revision %q has an old spec", revision)
		}
	}
}

func TestAPodIsOldForAPullSecretOnlyWhileItWaitsForItsImage(t *testing.T) {
	t.Parallel()
	pulledWith := func(name string) model.Cluster {
		settings := settings()
		settings.PullSecrets = []corev1.LocalObjectReference{{Name: name}}
		cluster, _ := model.Resolve(three(t), settings)
		return cluster
	}
	pod := podOf(t, pulledWith("a"))
	if pulledWith("b").HasOldSpec(pod) {
		t.Error("a pod that has its image is old")
	}
	pod.Status.InitContainerStatuses = waiting("ImagePullBackOff")
	if !pulledWith("b").HasOldSpec(pod) || pulledWith("a").HasOldSpec(pod) {
		t.Error("a pod that waits for its image is not old for another pull Secret, or for its own")
	}
}

func TestThePodsOfASpecWithoutARepositoryAreOldWhenTheOperatorHasAnother(t *testing.T) {
	t.Parallel()
	resolved := func(own, operators string) model.Cluster {
		etcd, settings := three(t), settings()
		etcd.Spec.Repository, settings.Repository = own, operators
		cluster, _ := model.Resolve(etcd, settings)
		return cluster
	}
	for name, test := range map[string]struct {
		before, after model.Cluster
		image         string
		isOld         bool
	}{
		"neither has one":                    {resolved("", ""), resolved("", ""), "quay.io/coreos/etcd:v3.6.16", false},
		"the operator has the default":       {resolved("", ""), resolved("", model.DefaultRepository), "quay.io/coreos/etcd:v3.6.16", false},
		"the spec has lost the default":      {resolved(model.DefaultRepository, ""), resolved("", ""), "quay.io/coreos/etcd:v3.6.16", false},
		"the operator has got another":       {resolved("", ""), resolved("", "mirror.example.org/etcd"), "mirror.example.org/etcd:v3.6.16", true},
		"the operator's is not for the spec": {resolved("own", ""), resolved("own", "mirror.example.org/etcd"), "own:v3.6.16", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := podOf(t, test.after).Spec.Containers[0].Image; got != test.image {
				t.Errorf("the image is %s, want %s", got, test.image)
			}
			if got := test.after.HasOldSpec(podOf(t, test.before)); got != test.isOld {
				t.Errorf("the pod has an old spec: %t, want %t", got, test.isOld)
			}
		})
	}
}

func TestOtherSecretsMakeAPodOld(t *testing.T) {
	t.Parallel()
	revisions := map[string]bool{}
	for _, change := range []func(secrets *etcdv1beta2.MemberSecrets){
		func(*etcdv1beta2.MemberSecrets) {},
		func(secrets *etcdv1beta2.MemberSecrets) { secrets.PeerSecret = "other" },
		func(secrets *etcdv1beta2.MemberSecrets) { secrets.ServerSecret = "other" },
	} {
		etcd := read(t, "testdata/one-static/input.yaml")
		change(&etcd.Spec.TLS.Static.Member)
		cluster, _ := model.Resolve(etcd, settings())
		revisions[cluster.PodRevision()] = true
	}
	if len(revisions) != 3 {
		t.Errorf("three specs have the revisions %v", revisions)
	}
}

// A revision that changes with the operator would restart every etcd of a Kubernetes cluster.
func TestARevisionStays(t *testing.T) {
	t.Parallel()
	cluster := withPod(t, func(_ *etcdv1beta2.EtcdClusterSpec, pod *etcdv1beta2.PodPolicy) {
		pod.Labels, pod.NodeSelector = map[string]string{"example.com/team": "db"}, map[string]string{"disk": "fast"}
		pod.Tolerations = []corev1.Toleration{{Key: "etcd", Operator: corev1.TolerationOpExists}}
	})
	if got := cluster.PodRevision(); got != "1.f45d670deb19c4c285e66449b1b3bc49" {
		t.Errorf("the revision is %s", got)
	}
}
