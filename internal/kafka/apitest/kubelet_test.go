package apitest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/admin/adminfake"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// What kubelet, agents and servers do.

// runKubelet starts the servers of new pods and notices those that are gone. It
// reports whether anything changed.
func (w *world) runKubelet(ctx context.Context) bool {
	var pods corev1.PodList
	if err := w.api.List(ctx, &pods, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	changed := w.stopMissing(&pods)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if _, started := w.loaded[pod.UID]; started || w.stuck[pod.UID] || pod.Labels[model.PodLabel] == "" {
			continue
		}
		w.startServer(ctx, pod)
		changed = true
	}
	if changed {
		w.limitMetadataVersion(ctx, &pods)
	}
	return changed
}

// limitMetadataVersion lets Kafka know metadata versions only as far as all its
// servers do.
func (w *world) limitMetadataVersion(ctx context.Context, pods *corev1.PodList) {
	newest := model.MetadataVersion("4.3-IV0").Level()
	for i := range pods.Items {
		_, running := w.loaded[pods.Items[i].UID]
		if running && pods.Items[i].Annotations[model.KafkaVersionAnnotation] == "4.2.1" {
			newest = model.MetadataVersion("4.2-IV1").Level()
		}
	}
	if features, err := w.kafka.Client().Features(ctx); err == nil {
		w.kafka.SetMetadataVersion(features.MetadataVersion, newest)
	}
}

func (w *world) stopMissing(pods *corev1.PodList) bool {
	changed := false
	for uid, report := range w.loaded {
		alive := slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.UID == uid })
		if alive {
			continue
		}
		delete(w.loaded, uid)
		if err := w.kafka.Stop(nodeID(report)); err != nil {
			w.t.Fatal(err)
		}
		changed = true
	}
	return changed
}

// nodeID is kept in the report of a server by a role that no real one has.
func nodeID(report contract.TLSReport) int32 {
	var id int32
	if _, err := fmt.Sscan(report.Roles["node"].Presents, &id); err != nil {
		return -1
	}
	return id
}

// startServer loads what is mounted, as the agent does, and makes the pod ready.
func (w *world) startServer(ctx context.Context, pod *corev1.Pod) {
	var secret corev1.Secret
	var config corev1.ConfigMap
	if err := errors.Join(w.api.Get(ctx, w.key(pod.Name), &secret), w.api.Get(ctx, w.key(pod.Name), &config)); err != nil {
		w.t.Fatalf("pod %s cannot mount its volumes: %v", pod.Name, err)
	}
	published, err := contract.ParsePublication(secret.Data[contract.PublicationKey])
	if err != nil {
		w.t.Fatal(err)
	}
	agent, err := contract.ParseConfig([]byte(config.Data[contract.AgentConfigKey]))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.fatal != "" && strings.Contains(config.Data[contract.ServerConfigKey], w.fatal) {
		w.crash(ctx, pod)
		return
	}
	w.loaded[pod.UID], w.ran[pod.Name] = w.load(published, agent), true
	w.kafka.Start(adminfake.Node{ID: agent.NodeID, Broker: agent.HasRole(contract.RoleBroker), Controller: agent.HasRole(contract.RoleController)})
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "192.0.2.1",
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "kafka", Ready: true, ContainerID: "test://" + string(pod.UID)}},
	}
	if err := w.api.Status().Update(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
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

func (w *world) load(published contract.Publication, agent contract.Config) contract.TLSReport {
	report := contract.TLSReport{
		Revision: published.Revision, StartedAt: w.clock.Now(),
		Roles: map[contract.Listener]contract.RoleReport{"node": {Presents: fmt.Sprint(agent.NodeID)}},
	}
	for _, store := range agent.Stores {
		report.Roles[store.Listener] = contract.RoleReport{
			Trusts: published.Trust[store.Listener], Presents: published.Identities[store.Identity],
		}
	}
	return report
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
		if _, loaded := w.loaded[pods.Items[i].UID]; loaded && pods.Items[i].DeletionTimestamp == nil {
			delete(away, pods.Items[i].Name)
		}
	}
	if len(away) > 1 {
		w.t.Errorf("%v do not run: two are disrupted at once", slices.Sorted(maps.Keys(away)))
	}
}

func describes(sets []podsetv1.StrimziPodSet, pod string) bool {
	return slices.ContainsFunc(sets, func(set podsetv1.StrimziPodSet) bool {
		return slices.ContainsFunc(set.Spec.Pods, func(described runtime.RawExtension) bool {
			return strings.Contains(string(described.Raw), `"name":"`+pod+`"`)
		})
	})
}
