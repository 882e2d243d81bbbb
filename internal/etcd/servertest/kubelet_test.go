package servertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/agent/process"
	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/ownpod"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// member is what the kubelet knows of a pod.
type member struct {
	dir     string
	ports   map[contract.Plane]string
	metrics string
	http    string
	secure  string
	probe   string

	// running is held while the container is started or ended.
	running sync.Mutex
	uid     types.UID
	mounted string
	cancel  context.CancelFunc
	stopped chan struct{}
}

// member returns the ports of the pod of a name, and gives it some when it has none.
func (w *world) member(name string) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.members[name]; m != nil {
		return m
	}
	m := &member{
		dir: w.t.TempDir(), ports: map[contract.Plane]string{contract.PeerPlane: free(w.t), contract.ClientPlane: free(w.t)},
		metrics: free(w.t), http: free(w.t), secure: free(w.t), probe: free(w.t),
	}
	w.members[name] = m
	return m
}

// free returns an address on which nothing listens at this moment.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// sync does what a kubelet does for all pods.
func (w *world) sync(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := w.api.List(ctx, pods, client.InNamespace(w.namespace)); err != nil {
		return err
	}
	w.stopOthers(pods.Items)
	var problems []error
	for i := range pods.Items {
		problems = append(problems, w.syncPod(ctx, &pods.Items[i]))
	}
	return errors.Join(problems...)
}

// stopOthers ends the containers of pods that are gone. What was in them is gone, too.
func (w *world) stopOthers(pods []corev1.Pod) {
	present := map[types.UID]bool{}
	for i := range pods {
		present[pods[i].UID] = true
	}
	w.mu.Lock()
	members := slices.Collect(maps.Values(w.members))
	w.mu.Unlock()
	for _, m := range members {
		m.running.Lock()
		if m.cancel != nil && !present[m.uid] {
			m.cancel()
			<-m.stopped
			m.cancel = nil
			for _, dir := range []string{"run", "data"} {
				if err := os.RemoveAll(filepath.Join(m.dir, dir)); err != nil {
					w.t.Error(err)
				}
			}
		}
		m.running.Unlock()
	}
}

func (w *world) syncPod(ctx context.Context, pod *corev1.Pod) error {
	m := w.member(pod.Name)
	m.running.Lock()
	defer m.running.Unlock()
	if m.uid != pod.UID {
		if m.cancel != nil {
			return nil // the next look ends it
		}
		m.uid = pod.UID
	}
	if err := w.mount(ctx, m, pod); err != nil {
		return err
	}
	if m.cancel == nil {
		if err := w.start(ctx, m, pod); err != nil {
			return err
		}
	}
	return w.tell(ctx, m, pod)
}

// mount writes the volumes when they have changed.
func (w *world) mount(ctx context.Context, m *member, pod *corev1.Pod) error {
	secret := &corev1.Secret{}
	if err := w.api.Get(ctx, types.NamespacedName{Namespace: w.namespace, Name: pod.Name}, secret); err != nil {
		return err
	}
	var lines strings.Builder
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		fmt.Fprintf(&lines, "%s=%s\n", key, strconv.Quote(pod.Annotations[key]))
	}
	if state := secret.ResourceVersion + lines.String(); state != m.mounted {
		mounttest.WriteVolume(w.t, filepath.Join(m.dir, "node"), secret.Data)
		mounttest.WriteVolume(w.t, filepath.Join(m.dir, "pod"), map[string][]byte{agent.AnnotationsFile: []byte(lines.String())})
		m.mounted = state
	}
	return nil
}

// start runs the agent with the command of the pod.
func (w *world) start(ctx context.Context, m *member, pod *corev1.Pod) error {
	own, err := ownpod.New(apiServer, ownpod.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
	if err != nil {
		return err
	}
	command := pod.Spec.Containers[0].Command
	command = command[slices.Index(command, "--")+1:]
	options := etcdagent.Options{
		Command: w.local(m, w.homeOf(pod), command), PodName: pod.Name, Key: pki.DefaultLeafKey(pki.ECDSA), Annotate: own.Annotate,
		NodeDir: filepath.Join(m.dir, "node"), PodDir: filepath.Join(m.dir, "pod"), RunDir: filepath.Join(m.dir, "run"),
		SecureAddress: m.secure, ProbeAddress: m.probe, HealthURL: "http://" + m.metrics, Output: w.log, Wait: process.WaitForOne,
		Clock: clock.RealClock{}, Log: slog.New(slog.NewJSONHandler(w.log, nil)).With("pod", pod.Name),
	}
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	m.stopped = make(chan struct{})
	go func() {
		defer close(m.stopped)
		if err := etcdagent.Run(ctx, options); err != nil {
			_, _ = fmt.Fprintf(w.log, "the agent of %s ended: %v\n", pod.Name, err)
		}
	}()
	return nil
}

// restart ends the container of a pod; the kubelet starts another one in it.
func (w *world) restart(pod string) {
	m := w.member(pod)
	m.running.Lock()
	defer m.running.Unlock()
	m.cancel()
	<-m.stopped
	m.cancel = nil
}

// homeOf is the folder with the program that a pod runs.
func (w *world) homeOf(pod *corev1.Pod) string {
	if home, known := w.homes[pod.Annotations[model.VersionAnnotation]]; known {
		return home
	}
	return w.home
}

// local puts the paths and addresses of this machine into the command.
func (w *world) local(m *member, home string, command []string) []string {
	port := strconv.Itoa
	pairs := []string{
		agent.RunDir, filepath.Join(m.dir, "run"), "/var/etcd", filepath.Join(m.dir, "data"),
		"0.0.0.0:" + port(contract.PeerPort), m.ports[contract.PeerPlane], "0.0.0.0:" + port(contract.ClientPort), m.ports[contract.ClientPlane],
		loopback + ":" + port(contract.MetricsPort), m.metrics, loopback + ":2382", m.http,
	}
	for ordinal := range model.MaxMembers {
		name := w.names.Member(ordinal)
		if !strings.Contains(strings.Join(command, " "), name+"=") && !slices.Contains(command, "--name="+name) {
			continue
		}
		ports := w.member(name).ports
		pairs = append(pairs, w.names.PeerURL(name), "https://"+ports[contract.PeerPlane], w.names.ClientURL(name), "https://"+ports[contract.ClientPlane])
	}
	replace := strings.NewReplacer(pairs...)
	local := []string{filepath.Join(home, "etcd")}
	for _, argument := range command[1:] {
		local = append(local, replace.Replace(argument))
	}
	return local
}

// tell writes the status of the pod as a kubelet does.
func (w *world) tell(ctx context.Context, m *member, pod *corev1.Pod) error {
	ready := corev1.ConditionFalse
	if isReady(ctx, m.probe) {
		ready = corev1.ConditionTrue
	}
	if len(pod.Status.PodIPs) > 0 && len(pod.Status.Conditions) > 0 && pod.Status.Conditions[0].Status == ready {
		return nil
	}
	status := pod.DeepCopy()
	status.Status.Phase, status.Status.PodIP, status.Status.PodIPs = corev1.PodRunning, loopback, []corev1.PodIP{{IP: loopback}}
	status.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	return client.IgnoreNotFound(w.api.Status().Patch(ctx, status, client.MergeFrom(pod)))
}

func isReady(ctx context.Context, address string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+agent.ReadyPath, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusNoContent
}
