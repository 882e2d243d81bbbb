package apitest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

// What kubelets do: they mount what is stored, each volume on its own and some of
// them late, and start the servers of pods.

// stopped is the lag of a kubelet that does nothing at all.
const stopped = -1

// arrival is the content of a volume that a kubelet has seen and not yet mounted.
type arrival struct {
	files  files
	rounds int
}

// runKubelet starts the servers of new pods, brings volumes up to date, and notices
// pods that are gone. It reports whether anything changed.
func (w *world) runKubelet(ctx context.Context) bool {
	if w.configsChanged {
		w.readConfigs(ctx)
	}
	var pods corev1.PodList
	if err := w.api.List(ctx, &pods, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	changed := w.stopMissing(&pods)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Labels[model.PodLabel] == "" || w.lag[pod.Name] == stopped {
			continue
		}
		if pod.DeletionTimestamp != nil {
			w.endPod(ctx, pod)
			changed = true
			continue
		}
		if w.stuck[pod.UID] {
			continue
		}
		order := kinds()
		if i%2 == 1 {
			slices.Reverse(order)
		}
		changed = w.syncVolumes(pod, order) || changed
		if s, running := w.servers[pod.UID]; running {
			changed = w.follow(s) || changed
		} else {
			changed = w.startServer(ctx, pod) || changed
		}
		w.watch()
	}
	if changed {
		w.limitMetadataVersion(ctx, &pods)
	}
	return changed
}

// readSecrets sees what Secrets hold now.
func (w *world) readSecrets(ctx context.Context) {
	var list corev1.SecretList
	if err := w.api.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	w.stored.secrets = make(map[string]files, len(list.Items))
	for i := range list.Items {
		w.stored.secrets[list.Items[i].Name] = list.Items[i].Data
	}
	w.noteOffers()
}

// seeSecret sees what a Secret holds after it was written.
func (w *world) seeSecret(verb string, secret *corev1.Secret) {
	w.stored.secrets = maps.Clone(w.stored.secrets)
	w.stored.secrets[secret.Name] = secret.Data
	if verb == "delete" {
		delete(w.stored.secrets, secret.Name)
	}
	w.noteOffers()
}

// readConfigs sees what ConfigMaps hold now.
func (w *world) readConfigs(ctx context.Context) {
	w.configsChanged = false
	var list corev1.ConfigMapList
	if err := w.api.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	w.stored.configs = make(map[string]files, len(list.Items))
	for i := range list.Items {
		content := files{}
		for key, text := range list.Items[i].Data {
			content[key] = []byte(text)
		}
		w.stored.configs[list.Items[i].Name] = content
	}
}

// syncVolumes mounts what has arrived, volume after volume. A pod that is new finds
// everything as it is stored, unless its kubelet lags: then it finds what the
// kubelet has from its predecessor. What has a Secret that is gone stays mounted.
func (w *world) syncVolumes(pod *corev1.Pod, order []volume) bool {
	now := w.stored.volumes(pod.Name, w.certs)
	mounted, known := w.mounted[pod.Name]
	if _, running := w.servers[pod.UID]; !known || !running && w.lag[pod.Name] == 0 {
		w.mounted[pod.Name] = now
		return false
	}
	changed := false
	for _, kind := range order {
		if now.files[kind] == nil || mounted.files[kind].equal(now.files[kind]) {
			delete(w.arriving, pod.Name+string(kind))
			continue
		}
		changed = true
		if !w.arrived(pod.Name, kind, now.files[kind]) {
			continue
		}
		if s, running := w.servers[pod.UID]; running {
			w.follow(s)
			w.watch()
		}
	}
	return changed
}

// arrived mounts a volume if its kubelet has known the content for long enough.
func (w *world) arrived(pod string, kind volume, now files) bool {
	coming, seen := w.arriving[pod+string(kind)]
	if !seen {
		coming = &arrival{files: now, rounds: w.lag[pod]}
		w.arriving[pod+string(kind)] = coming
	}
	if coming.rounds > 0 {
		coming.rounds--
		return false
	}
	w.mounted[pod].files[kind] = coming.files
	delete(w.arriving, pod+string(kind))
	return true
}

// limitMetadataVersion lets Kafka know metadata versions only as far as all its
// servers do.
func (w *world) limitMetadataVersion(ctx context.Context, pods *corev1.PodList) {
	newest := release.MetadataVersion("4.3-IV0").Level()
	for i := range pods.Items {
		_, running := w.servers[pods.Items[i].UID]
		if running && pods.Items[i].Annotations[model.KafkaVersionAnnotation] == "4.2.1" {
			newest = release.MetadataVersion("4.2-IV1").Level()
		}
	}
	if features, err := w.kafka.Client().Features(ctx); err == nil {
		w.kafka.SetMetadataVersion(features.MetadataVersion, newest)
	}
}

func (w *world) stopMissing(pods *corev1.PodList) bool {
	changed := false
	for uid := range w.servers {
		alive := slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.UID == uid })
		if alive {
			continue
		}
		w.stop(uid)
		changed = true
	}
	return changed
}

// stop ends the server of a pod, if there is one.
func (w *world) stop(pod types.UID) {
	s, running := w.servers[pod]
	if !running {
		return
	}
	delete(w.servers, pod)
	if err := w.kafka.Stop(s.started.config.NodeID); err != nil {
		w.t.Fatal(err)
	}
}

// endPod is the end of a pod that was deleted.
func (w *world) endPod(ctx context.Context, pod *corev1.Pod) {
	if err := w.api.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	w.stop(pod.UID)
	w.trace("%s has ended", pod.Name)
}

// bind gives a pod to a machine.
func (w *world) bind(ctx context.Context, pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		return
	}
	pod.Spec.NodeName = "machine"
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: pod.Spec.NodeName}}
	if err := w.api.SubResource("binding").Create(ctx, pod, binding); err != nil {
		w.t.Fatal(err)
	}
	pod.ResourceVersion = "" // whatever it is now
}

// serverOf is the running server of a pod, if any.
func (w *world) serverOf(pod string) (*server, bool) {
	for _, s := range w.servers {
		if s.pod == pod {
			return s, true
		}
	}
	return nil, false
}

// startServer loads what is mounted, as the agent does, and makes the pod ready.
// While the volumes do not belong together, the agent waits.
func (w *world) startServer(ctx context.Context, pod *corev1.Pod) bool {
	w.bind(ctx, pod)
	w.mountClaims(ctx, pod)
	loaded, err := w.mounted[pod.Name].content(pinOf(pod))
	if err != nil {
		w.trace("%s cannot start: %v", pod.Name, err)
		return false
	}
	if w.fatal != "" && strings.Contains(loaded.properties, w.fatal) {
		w.crash(ctx, pod)
		return true
	}
	s := w.begin(pod, 0, loaded)
	w.servers[pod.UID], w.ran[pod.Name] = s, true
	w.trace("%s has started", pod.Name)
	agent := loaded.config
	w.kafka.Start(adminfake.Node{ID: agent.NodeID, Broker: agent.HasRole(contract.RoleBroker), Controller: agent.HasRole(contract.RoleController)})
	w.makeReady(ctx, pod, s)
	return true
}

func (w *world) makeReady(ctx context.Context, pod *corev1.Pod, s *server) {
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "192.0.2.1",
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "kafka", Ready: true, ContainerID: s.containerID(), RestartCount: int32(s.container),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(s.startedAt)}},
		}},
	}
	if err := w.api.Status().Update(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
}

// restartContainer is a server that ends and is started again in its pod, on what
// is mounted there. While the volumes are between two states, that would take
// until they are not.
func (w *world) restartContainer(name string) {
	w.t.Helper()
	var pod corev1.Pod
	w.get(name, &pod)
	before := w.servers[pod.UID]
	loaded, err := w.mounted[name].content(pinOf(&pod))
	if err != nil || before == nil {
		return // its agent waits, and goes on with the server it has
	}
	s := w.begin(&pod, before.container+1, loaded)
	w.servers[pod.UID] = s
	w.trace("%s has started again in its pod", name)
	w.makeReady(w.t.Context(), &pod, s)
	w.watch()
}

// crash is what the kubelet tells of a server that ends again and again.
func (w *world) crash(ctx context.Context, pod *corev1.Pod) {
	w.stuck[pod.UID] = true
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "192.0.2.1",
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "kafka", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		}},
	}
	if err := w.api.Status().Update(ctx, pod); err != nil {
		w.t.Fatal(err)
	}
}

// deleted notes a deletion by an operator, and fails the test when two nodes that
// have run do not. A node that its pod set no longer describes is taken away, and
// is missed by nobody.
func (w *world) deleted(name string) {
	w.t.Helper()
	sets, err := w.sets(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if !describes(sets, name) {
		delete(w.ran, name)
	}
	var pods corev1.PodList
	w.list(&pods)
	away := maps.Clone(w.ran)
	for i := range pods.Items {
		if _, running := w.servers[pods.Items[i].UID]; running && pods.Items[i].DeletionTimestamp == nil {
			delete(away, pods.Items[i].Name)
		}
	}
	if len(away) > 1 {
		w.t.Errorf("%v do not run: two are disrupted at once, after\n%s", slices.Sorted(maps.Keys(away)), w.told())
	}
}

func describes(sets []podsetv1.StrimziPodSet, pod string) bool {
	return slices.ContainsFunc(sets, func(set podsetv1.StrimziPodSet) bool {
		return slices.ContainsFunc(set.Spec.Pods, func(described runtime.RawExtension) bool {
			return strings.Contains(string(described.Raw), fmt.Sprintf("%q:%q", "name", pod))
		})
	})
}
