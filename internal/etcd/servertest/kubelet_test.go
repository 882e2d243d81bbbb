package servertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/agent/process"
	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/ownpod"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/freeport"
	"github.com/keyturn/keyturn/internal/pki"
)

// member is what the kubelet knows of a pod.
type member struct {
	dir     string
	ports   map[contract.Plane]string
	metrics string
	scrape  string
	http    string
	secure  string
	probe   string

	// running is held while the container is started or ended.
	running sync.Mutex
	uid     types.UID
	mounted string
	cancel  context.CancelFunc
	stopped chan struct{}
	// message is what the container has left when it ended by itself, and pause how many looks the kubelet waits before
	// it starts another one.
	message string
	pause   int
	// isHeld is true while a test keeps the kubelet from starting a container.
	isHeld bool
}

// restartPause is how many looks a kubelet lets a container be that has ended.
const restartPause = 10

// member returns the ports of the pod of a name, and gives it some when it has none.
func (w *world) member(name string) *member {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.members[name]; m != nil {
		return m
	}
	m := &member{
		dir: w.t.TempDir(), ports: map[contract.Plane]string{contract.PeerPlane: free(w.t), contract.ClientPlane: free(w.t)},
		metrics: free(w.t), scrape: free(w.t), http: free(w.t), secure: free(w.t), probe: free(w.t),
	}
	w.members[name] = m
	return m
}

// free returns an address on which nothing listens at this moment.
func free(t *testing.T) string {
	t.Helper()
	return freeport.Address(t)
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
		if m.uid != "" && !present[m.uid] {
			if m.cancel != nil {
				m.cancel()
				<-m.stopped
			}
			m.cancel, m.uid = nil, "" // whether or not a container has ended by itself
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
		m.uid, m.message, m.pause = pod.UID, "", 0
	}
	if err := w.mount(ctx, m, pod); err != nil {
		return err
	}
	m.notice()
	if m.cancel == nil && m.pause == 0 && !m.isHeld {
		if err := w.start(ctx, m, pod); err != nil {
			return err
		}
	}
	return w.tell(ctx, m, pod)
}

// notice sees that a container has ended by itself.
func (m *member) notice() {
	m.pause = max(m.pause-1, 0)
	if m.cancel == nil {
		return
	}
	select {
	case <-m.stopped:
		m.cancel()
		m.cancel, m.pause = nil, restartPause
		text, _ := os.ReadFile(filepath.Join(m.dir, "result"))
		m.message = string(text)
	default:
	}
}

// mount writes the volumes when they have changed.
func (w *world) mount(ctx context.Context, m *member, pod *corev1.Pod) error {
	secret := &corev1.Secret{}
	if err := w.api.Get(ctx, types.NamespacedName{Namespace: w.namespace, Name: pod.Name}, secret); err != nil {
		return err
	}
	var lines strings.Builder
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		value := pod.Annotations[key]
		if key == contract.StartAnnotation {
			value = strings.NewReplacer(w.localURLs(value)...).Replace(value)
		}
		fmt.Fprintf(&lines, "%s=%s\n", key, strconv.Quote(value))
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
	transport, err := rest.TransportFor(apiServer)
	if err != nil {
		return err
	}
	address, err := url.Parse(apiServer.Host)
	if err != nil {
		return err
	}
	api := ownpod.API{URL: *address, Transport: transport}
	own, err := ownpod.New(api, ownpod.Pod{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
	if err != nil {
		return err
	}
	command := pod.Spec.Containers[0].Command
	command = command[slices.Index(command, "--")+1:]
	options := etcdagent.Options{
		Command: w.local(m, w.homeOf(pod), command), PodName: pod.Name, Key: pki.DefaultLeafKey(pki.ECDSA), Annotate: own.Annotate,
		NodeDir: filepath.Join(m.dir, "node"), PodDir: filepath.Join(m.dir, "pod"), RunDir: filepath.Join(m.dir, "run"),
		DataDir: filepath.Join(m.dir, "data", "data"), ResultPath: filepath.Join(m.dir, "result"),
		SecureAddress: m.secure, ProbeAddress: m.probe, HealthURL: "http://" + m.metrics, Output: w.log, Wait: process.WaitForOne,
		Env: environment(pod), Clock: clock.RealClock{}, Log: slog.New(slog.NewJSONHandler(w.log, nil)).With("pod", pod.Name),
	}
	if err := os.RemoveAll(options.ResultPath); err != nil {
		return err
	}
	ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	m.stopped = make(chan struct{})
	go func() {
		defer close(m.stopped)
		err := w.restore(ctx, m, pod, options)
		if err == nil {
			err = etcdagent.Run(ctx, options)
		}
		if err != nil {
			_, _ = fmt.Fprintf(w.log, "the agent of %s ended: %v\n", pod.Name, err)
		}
	}()
	return nil
}

// environment is what a pod gives its container besides what it says about itself.
func environment(pod *corev1.Pod) []string {
	var variables []string
	for _, variable := range pod.Spec.Containers[0].Env {
		if variable.ValueFrom == nil {
			variables = append(variables, variable.Name+"="+variable.Value)
		}
	}
	return variables
}

// stop ends the container of a pod. The kubelet starts none until resume.
func (w *world) stop(pod string) {
	m := w.member(pod)
	m.running.Lock()
	defer m.running.Unlock()
	m.cancel()
	<-m.stopped
	m.cancel, m.isHeld = nil, true
}

// resume lets the kubelet start another container in a pod.
func (w *world) resume(pod string) {
	m := w.member(pod)
	m.running.Lock()
	defer m.running.Unlock()
	m.isHeld = false
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
		loopback + ":" + port(contract.MetricsPort), m.metrics, "0.0.0.0:" + port(contract.ScrapePort), m.scrape, loopback + ":2382", m.http,
	}
	// All at once: a free port may begin as one that is replaced.
	replace := strings.NewReplacer(append(pairs, w.localURLs(strings.Join(command, " "))...)...)
	local := []string{filepath.Join(home, "etcd")}
	for _, argument := range command[1:] {
		local = append(local, replace.Replace(argument))
	}
	return local
}

// localURLs are the URLs of the members that a text names, each followed by that on this machine.
func (w *world) localURLs(text string) []string {
	var pairs []string
	for ordinal := range model.MaxMembers {
		name := w.names.Member(ordinal)
		if strings.Contains(text, name+".") {
			ports := w.member(name).ports
			pairs = append(pairs, w.names.PeerURL(name), "https://"+ports[contract.PeerPlane], w.names.ClientURL(name), "https://"+ports[contract.ClientPlane])
		}
	}
	return pairs
}

// tell writes the status of the pod as a kubelet does.
func (w *world) tell(ctx context.Context, m *member, pod *corev1.Pod) error {
	ready := corev1.ConditionFalse
	if isReady(ctx, m.probe) {
		ready = corev1.ConditionTrue
	}
	etcd := corev1.ContainerStatus{Name: "etcd", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	if m.cancel == nil {
		etcd.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		etcd.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: m.message}
	}
	status := pod.DeepCopy()
	status.Status.ContainerStatuses, status.Status.InitContainerStatuses = []corev1.ContainerStatus{etcd}, m.restored()
	status.Status.Phase, status.Status.PodIP, status.Status.PodIPs = corev1.PodRunning, loopback, []corev1.PodIP{{IP: loopback}}
	status.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if equality.Semantic.DeepEqual(status.Status, pod.Status) {
		return nil
	}
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
