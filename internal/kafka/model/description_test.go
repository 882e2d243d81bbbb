package model

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// descriptionOf is what the pod set of a node's pool says of it.
func descriptionOf(t *testing.T, in Input, cluster Cluster, node Node) Description {
	t.Helper()
	pod, err := cluster.Pod(node, PodAnnotations{
		ClusterCACertGeneration: 1, ServerCertHash: "0123", Pin: `{"revision":1}`,
		ListenerCertThumbprints: map[string]string{"tls": "1a2b3c4d"},
	})
	must(t, err)
	raw, err := cluster.Describe(pod)
	must(t, err)
	d := Description{Kafka: in.Kafka, Settings: in.Settings, PodSet: cluster.Names.PodSet(node.Pool), Pod: &corev1.Pod{}}
	must(t, json.Unmarshal(raw.Raw, d.Pod))
	for i := range in.Pools {
		if in.Pools[i].Name == node.Pool {
			d.Pool = &in.Pools[i]
		}
	}
	return d
}

func firstDescription(t *testing.T, in Input) Description {
	t.Helper()
	cluster, _ := resolved(t, in)
	return descriptionOf(t, in, cluster, cluster.Nodes[0])
}

func rendered(t *testing.T, d Description) corev1.Pod {
	t.Helper()
	pod, err := d.Render()
	must(t, err)
	return pod
}

func TestWhatTheOperatorDescribesIsRenderedAsItIs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dual-role", "separate-roles", "single-ephemeral"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := readInput(t, name)
			in.Kafka.Labels = map[string]string{"team": "a", ClusterLabel: "x"}
			for i := range in.Pools {
				in.Pools[i].Labels["rack"] = "b"
			}
			cluster, _ := resolved(t, in)
			for _, node := range cluster.Nodes {
				d := descriptionOf(t, in, cluster, node)
				if diff := cmp.Diff(*d.Pod, rendered(t, d)); diff != "" {
					t.Errorf("pod %s (-described +rendered):\n%s", node.Pod, diff)
				}
			}
		})
	}
}

// Whoever may write pod sets may write them in the operator's name, too.
func TestNoPodIsGivenMoreThanTheOperatorGivesToItsOwn(t *testing.T) {
	t.Parallel()
	yes, no, root, unmasked := true, false, int64(0), corev1.UnmaskedProcMount
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: source})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "more", MountPath: "/more"})
		}
	}
	security := func(context corev1.PodSecurityContext) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.SecurityContext = &context }
	}
	container := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	for name, change := range map[string]func(*corev1.Pod){
		"a port of its machine": container(func(c *corev1.Container) { c.Ports[0].HostPort, c.Ports[0].HostIP = 443, "10.0.0.1" }),
		"a machine by name":     func(p *corev1.Pod) { p.Spec.NodeName = "control-plane" },
		"root": container(func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{RunAsUser: &root, AllowPrivilegeEscalation: &yes}
		}),
		"an unmasked /proc": container(func(c *corev1.Container) { c.SecurityContext.ProcMount = &unmasked }),
		"a HostProcess container of Windows": security(corev1.PodSecurityContext{
			WindowsOptions: &corev1.WindowsSecurityContextOptions{HostProcess: &yes},
		}),
		"kernel settings":            security(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}),
		"another SELinux type":       security(corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "spc_t"}}),
		"no security context":        func(p *corev1.Pod) { p.Spec.SecurityContext = nil },
		"a container without one":    container(func(c *corev1.Container) { c.SecurityContext = nil }),
		"a namespace of its machine": func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"the machine's users":        func(p *corev1.Pod) { p.Spec.HostUsers = &yes },
		"the key of a CA":            volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "my-cluster-ca"}}),
		"a projected token":          volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}),
		"a volume of any CSI driver": volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "any"}}),
		"a device over iSCSI":        volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1"}}),
		"another claim":              func(p *corev1.Pod) { dataOf(p).PersistentVolumeClaim.ClaimName = "another" },
		"another node's Secret":      func(p *corev1.Pod) { p.Spec.Volumes[3].Secret.SecretName = "my-dual-1" },
		"a token":                    func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil },
		"another service account":    func(p *corev1.Pod) { p.Spec.ServiceAccountName = "admin" },
		"a pull Secret":              func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "another"}} },
		"the highest priority":       func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" },
		"to stand taints":            func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
		"a runtime class":            func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("any") },
		"a claim on a device":        func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "any"}} },
		"an image":                   container(func(c *corev1.Container) { c.Image = "evil" }),
		"an image of an init":        func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "evil" },
		"a command":                  container(func(c *corev1.Container) { c.Command = []string{"/bin/sh"} }),
		"arguments":                  container(func(c *corev1.Container) { c.Args = []string{"-c"} }),
		"an environment":             container(func(c *corev1.Container) { c.Env = []corev1.EnvVar{{Name: "KAFKA_OPTS", Value: "any"}} }),
		"a hook":                     container(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}} }),
		"another container":          func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "evil"}) },
		"another init container": func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "evil"})
		},
		"an annotation of a runtime": func(p *corev1.Pod) {
			p.Annotations["container.apparmor.security.beta.kubernetes.io/kafka"] = "unconfined"
		},
		"a label that others act on": func(p *corev1.Pod) { p.Labels["sidecar.example.org/inject"] = "true" },
		"a label of another cluster": func(p *corev1.Pod) { p.Labels[ClusterLabel] = "other" },
		"a finalizer":                func(p *corev1.Pod) { p.Finalizers = []string{"any.org/any"} },
		"an owner":                   func(p *corev1.Pod) { p.OwnerReferences = nil; p.GenerateName = "any" },
		"another namespace":          func(p *corev1.Pod) { p.Namespace = "kube-system" },
		"files by another group":     func(p *corev1.Pod) { p.Spec.Volumes[3].Secret.DefaultMode = new(int32(0o777)) },
		"privilege by another way": container(func(c *corev1.Container) {
			c.SecurityContext.AllowPrivilegeEscalation = &no
			c.SecurityContext.Privileged = &yes
		}),
		"a name that DNS has for two": func(p *corev1.Pod) { p.Spec.Hostname = "my-dual-1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := firstDescription(t, exampleInput())
			want := rendered(t, d)
			change(d.Pod)
			if diff := cmp.Diff(want, rendered(t, d)); diff != "" {
				t.Errorf("the pod is another (-want +got):\n%s", diff)
			}
		})
	}
}

func dataOf(pod *corev1.Pod) *corev1.Volume { return &pod.Spec.Volumes[len(pod.Spec.Volumes)-1] }

func TestADescriptionOfNoNodeIsRefused(t *testing.T) {
	t.Parallel()
	device := corev1.ResourceList{"example.org/device": resource.MustParse("1")}
	for name, c := range map[string]struct {
		change func(*Description)
		says   string
	}{
		"a name of no node":        {func(d *Description) { d.Pod.Name = "evil" }, "no node of the pool"},
		"a node of another pool":   {func(d *Description) { d.Pod.Name = "my-other-0" }, "no node of the pool"},
		"a set of no pool":         {func(d *Description) { d.PodSet = "x" }, "StrimziPodSet x"},
		"no container of Kafka":    {func(d *Description) { d.Pod.Spec.Containers[0].Name = "any" }, "no container kafka"},
		"no data":                  {func(d *Description) { d.Pod.Spec.Volumes = nil }, "no volume for data: the operator rewrites StrimziPodSet my-dual by itself; if this lasts, check whether Kafka my is paused or NotReady"},
		"a disk by no name of one": {func(d *Description) { dataOf(d.Pod).Name = "data-anything" }, "no volume for data"},
		"data elsewhere":           {func(d *Description) { dataOf(d.Pod).VolumeSource = corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}} }, "neither a claim nor ephemeral"},
		"a device, as a limit":     {func(d *Description) { d.Pod.Spec.Containers[0].Resources.Limits = device }, "example.org/device"},
		"a device, as a request":   {func(d *Description) { d.Pod.Spec.Containers[0].Resources.Requests = device }, "example.org/device"},
		"a version that is no one": {func(d *Description) { d.Pod.Annotations[KafkaVersionAnnotation] = "0.8" }, `Kafka "0.8"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := firstDescription(t, exampleInput())
			c.change(&d)
			if _, err := d.Render(); !errors.Is(err, ErrDescription) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, want one that says %q", err, c.says)
			}
		})
	}
}

func TestADeviceThatThePoolOrTheKafkaAsksForIsGiven(t *testing.T) {
	t.Parallel()
	device := corev1.ResourceList{"example.org/device": resource.MustParse("1")}
	limited, requested := &kafkav1.Resources{Limits: device}, &kafkav1.Resources{Requests: device}
	for name, ask := range map[string]func(*Input){
		"as a limit of the pool":    func(in *Input) { in.Pools[0].Spec.Resources = limited },
		"as a request of the pool":  func(in *Input) { in.Pools[0].Spec.Resources = requested },
		"as a limit of the Kafka":   func(in *Input) { in.Kafka.Spec.Kafka.Resources = limited },
		"as a request of the Kafka": func(in *Input) { in.Kafka.Spec.Kafka.Resources = requested },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			ask(&in)
			d := firstDescription(t, in)
			described := d.Pod.Spec.Containers[0].Resources
			if len(described.Limits)+len(described.Requests) != 1 {
				t.Fatalf("the resources described are %v, want the device", described)
			}
			if diff := cmp.Diff(described, rendered(t, d).Spec.Containers[0].Resources); diff != "" {
				t.Errorf("resources (-described +rendered):\n%s", diff)
			}
		})
	}
}

func TestHugePagesAreGivenWhoeverAsksForThem(t *testing.T) {
	t.Parallel()
	huge := corev1.ResourceList{"hugepages-2Mi": resource.MustParse("64Mi")}
	d := firstDescription(t, exampleInput())
	d.Pod.Spec.Containers[0].Resources.Limits = huge
	if diff := cmp.Diff(huge, rendered(t, d).Spec.Containers[0].Resources.Limits); diff != "" {
		t.Errorf("limits (-described +rendered):\n%s", diff)
	}
}

// The resources may be wrong, paused or gone while a node is lost.
func TestANodeComesBackAsItWasDescribedThoughItsResourcesHaveChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Description){
		"the pool is gone":             func(d *Description) { d.Pool = nil },
		"the pool has other resources": func(d *Description) { d.Pool.Spec.Resources = &kafkav1.Resources{} },
		"the pool has other roles":     func(d *Description) { d.Pool.Spec.Roles = nil },
		"the pool has other storage":   func(d *Description) { d.Pool.Spec.Storage = kafkav1.Storage{Type: kafkav1.StorageEphemeral} },
		"the listeners are others":     func(d *Description) { d.Kafka.Spec.Kafka.Listeners = nil },
		"the version is another":       func(d *Description) { d.Kafka.Spec.Kafka.Version = "4.2.1" },
		"the version is unsupported":   func(d *Description) { d.Kafka.Spec.Kafka.Version = "9.9.9" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := exampleInput()
			in.Pools[0].Spec.Resources = resources(t, "1Gi", "")
			d := firstDescription(t, in)
			change(&d)
			if diff := cmp.Diff(*d.Pod, rendered(t, d)); diff != "" {
				t.Errorf("the pod is another (-described +rendered):\n%s", diff)
			}
		})
	}
}

func TestImagesAreTheOperatorsOrTheKafkas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		described, chosen, version, want string
	}{
		"the operator's of that version":                        {"keyturn.dev/kafka:4.3.1", "", "4.3.1", "keyturn.dev/kafka:4.3.1"},
		"another operator's of that version":                    {"older.dev/kafka:4.2.1", "", "4.2.1", "keyturn.dev/kafka:4.2.1"},
		"the Kafka's":                                           {"mine", "mine", "4.3.1", "mine"},
		"a former one of the Kafka's":                           {"before", "mine", "4.3.1", "mine"},
		"the operator's, and the Kafka has asked for one since": {"keyturn.dev/kafka:4.3.1", "mine", "4.3.1", "keyturn.dev/kafka:4.3.1"},
		"the Kafka's, and the operator has not that version":    {"mine", "mine", "4.0.0", "mine"},
		"none, of a version that the operator has not":          {"", "mine", "4.0.0", "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := firstDescription(t, exampleInput())
			d.Pod.Spec.Containers[0].Image, d.Kafka.Spec.Kafka.Image = c.described, c.chosen
			d.Pod.Annotations[KafkaVersionAnnotation] = c.version
			if got := rendered(t, d).Spec.Containers[0].Image; got != c.want {
				t.Errorf("the image is %q, want %q", got, c.want)
			}
		})
	}
}

func TestANodeOfAVersionWithoutAnImageIsRefusedWithWhatBringsItBack(t *testing.T) {
	t.Parallel()
	d := firstDescription(t, exampleInput())
	d.Pod.Spec.Containers[0].Image = "keyturn.dev/kafka:4.0.0"
	d.Pod.Annotations[KafkaVersionAnnotation] = "4.0.0"

	_, err := d.Render()

	if !errors.Is(err, ErrDescription) {
		t.Fatalf("it is rendered, with %v", err)
	}
	for _, word := range []string{`"4.0.0"`, "kafkaImages", "spec.kafka.image"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal %q does not name %s", err, word)
		}
	}
	d.Kafka.Spec.Kafka.Image = "mine:4.0.0"
	if got := rendered(t, d).Spec.Containers[0].Image; got != "mine:4.0.0" {
		t.Errorf("the image is %q after what the refusal asks for", got)
	}
}
