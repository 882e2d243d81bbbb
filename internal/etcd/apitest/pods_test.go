package apitest

import (
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/enrollment"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

// agent is the one in a pod: its keys stay with it.
type agent struct {
	// name is the common name of its requests.
	name, address string
	keys          map[contract.Plane]pki.PrivateKey
	// report is what it answers the operator; nil while it has no certificate. silence is why it does not answer.
	report  *publication.Report
	silence error
	// isStuck is true while it takes nothing new.
	isStuck bool
	// loaded are the CAs that etcd was started under, by plane, of a publication of this revision, and starts counts its starts.
	loaded   map[contract.Plane][]*x509.Certificate
	revision int64
	starts   int
}

// play plays kubelet and agent of every pod once: it gets an address, asks for certificates, and starts etcd on them.
func (w *world) play() {
	w.t.Helper()
	pods := w.pods()
	w.stopOthers(pods)
	for i := range pods {
		pod := &pods[i]
		if slices.Contains(pod.Spec.Containers[0].Command, "etcd-mounted") {
			w.playMounted(pod)
			continue
		}
		if _, isOurs := pod.Annotations[keyturnagent.PinAnnotation]; !isOurs || pod.Labels[model.BackupOfLabel] != "" || !pod.DeletionTimestamp.IsZero() || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		a := w.agents[pod.UID]
		if a == nil {
			a = w.start(pod)
		}
		for _, plane := range contract.Planes() {
			if pod.Annotations[plane.RequestAnnotation()] == "" {
				w.annotateAs(w.ofPod(pod), pod.Name, plane.RequestAnnotation(), a.request(w.t, plane))
			}
		}
		if a.mayStart(w, pod) {
			w.startEtcd(pod)
			w.setReady(pod)
			a.load(w, pod)
		}
	}
}

// load has etcd present what the pod was given.
func (a *agent) load(w *world, pod *corev1.Pod) {
	w.t.Helper()
	if a.isStuck {
		return
	}
	secret := w.secret(w.namespace, pod.Name)
	published, err := publication.ParsePublication(secret.Data[keyturnagent.PublicationKey])
	if err != nil {
		w.t.Fatal(err)
	}
	mounted := anchorsIn(w.t, secret.Data, published)
	asked, _ := strconv.ParseInt(pod.Annotations[contract.RestartAnnotation], 10, 64) // 0 with an error
	if a.loaded == nil || a.revision < asked && asked <= published.Revision {
		a.loaded, a.revision, a.starts = mounted, published.Revision, a.starts+1
	}
	a.report = &publication.Report{
		Revision: a.revision, StartedAt: noon(), Mounted: &published, Roles: map[publication.Role]publication.RoleReport{}, Certificates: map[string][]byte{},
	}
	for _, plane := range contract.Planes() {
		a.report.Roles[plane.Role()] = publication.RoleReportOf(w.chain(pod, plane), a.loaded[plane])
		for _, certificate := range slices.Concat(w.chain(pod, plane), a.loaded[plane], mounted[plane]) {
			a.report.Certificates[pki.FingerprintOf(certificate).String()] = certificate.Raw
		}
	}
	a.report.Roles[publication.AgentRole] = publication.RoleReportOf(w.chain(pod, contract.ClientPlane), mounted[contract.ClientPlane])
}

// anchorsIn are the CAs of a Secret that its publication names, by plane.
func anchorsIn(t *testing.T, data map[string][]byte, published publication.Publication) map[contract.Plane][]*x509.Certificate {
	t.Helper()
	anchors := map[contract.Plane][]*x509.Certificate{}
	for _, plane := range contract.Planes() {
		all, err := pki.ParseBundle(data[plane.AnchorsKey()])
		if err != nil {
			t.Fatal(err)
		}
		anchors[plane] = slices.DeleteFunc(all, func(ca *x509.Certificate) bool {
			return !slices.Contains(published.Trust[plane.Role()], pki.FingerprintOf(ca).String())
		})
	}
	return anchors
}

// playMounted plays a pod that asks for nothing: etcd starts with its container.
func (w *world) playMounted(pod *corev1.Pod) {
	w.t.Helper()
	if !pod.DeletionTimestamp.IsZero() {
		return
	}
	ordinal, _ := model.Names{Cluster: cluster}.Ordinal(pod.Name)
	before := pod.DeepCopy()
	pod.Status.PodIP = fmt.Sprintf("10.1.0.%d", ordinal+1)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "etcd", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if err := client.IgnoreNotFound(w.kubelet.Status().Patch(w.t.Context(), pod, client.MergeFrom(before))); err != nil {
		w.t.Fatal(err)
	}
	w.startEtcd(pod)
	w.setReady(pod)
}

// stopOthers stops the members without a pod, and lets go of claims that no pod uses.
func (w *world) stopOthers(pods []corev1.Pod) {
	w.t.Helper()
	used := map[string]bool{}
	for i := range pods {
		used[pods[i].Name] = pods[i].Status.Phase != corev1.PodFailed
	}
	for _, claim := range w.claims() {
		member := claim.Labels[model.MemberLabel]
		if claim.DeletionTimestamp != nil && !used[member] {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))
			if err := client.IgnoreNotFound(w.person.Patch(w.t.Context(), &claim, patch)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	for ordinal := range model.MaxMembers {
		if name := (model.Names{Cluster: cluster}).Member(ordinal); !used[name] {
			w.etcd.Stop(w.t, name)
		}
	}
}

func (w *world) claims() []corev1.PersistentVolumeClaim {
	w.t.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := w.person.List(w.t.Context(), &claims, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	return claims.Items
}

// startEtcd starts etcd in a pod, on what is on its volume.
func (w *world) startEtcd(pod *corev1.Pod) {
	w.t.Helper()
	peerURL, volume := flagOf(pod, "--initial-advertise-peer-urls"), pod.UID
	for _, claim := range w.claims() {
		if claim.Labels[model.MemberLabel] == pod.Name {
			volume = claim.UID
		}
	}
	member, isListed := w.etcd.Member(peerURL)
	data, hasData := w.volumes[volume]
	start := w.startOf(pod)
	switch {
	case !hasData && start.HasJoined:
		w.reportEmptied(pod)
		return
	case hasData && (!isListed || member.ID != data), !hasData && !start.IsFirst && !slices.Equal(start.Names(), w.etcd.Names()):
		return // etcd refuses
	case !hasData && isListed && member.Name != "":
		w.t.Fatalf("%s starts with an empty volume under its old id", pod.Name)
	}
	w.etcd.Start(w.t, pod.Name, peerURL)
	member, _ = w.etcd.Member(peerURL)
	w.volumes[volume] = member.ID
}

// startOf is how etcd starts in a pod.
func (w *world) startOf(pod *corev1.Pod) contract.Start {
	w.t.Helper()
	start, err := contract.ParseStart(pod.Annotations[contract.StartAnnotation])
	if err != nil {
		w.t.Fatal(err)
	}
	return start
}

// reportEmptied ends the container of a pod as its first process does on an empty volume.
func (w *world) reportEmptied(pod *corev1.Pod) {
	w.t.Helper()
	w.etcd.Stop(w.t, pod.Name)
	before := pod.DeepCopy()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:                 "etcd",
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: `{"failure":"VolumeEmpty"}`}},
	}}
	if err := client.IgnoreNotFound(w.kubelet.Status().Patch(w.t.Context(), pod, client.MergeFrom(before))); err != nil {
		w.t.Fatal(err)
	}
}

// start gives a pod an address, as the kubelet does.
func (w *world) start(pod *corev1.Pod) *agent {
	w.t.Helper()
	a := &agent{name: pod.Name, address: fmt.Sprintf("10.0.%d.%d", len(w.agents)/200, len(w.agents)%200+1), keys: map[contract.Plane]pki.PrivateKey{}}
	for _, plane := range contract.Planes() {
		key, err := pki.GenerateKey(pki.KeyParams{Algorithm: pki.ECDSA, Size: 256})
		if err != nil {
			w.t.Fatal(err)
		}
		a.keys[plane] = key
	}
	w.agents[pod.UID] = a
	w.setAddress(pod, a.address)
	return a
}

func (w *world) setAddress(pod *corev1.Pod, address string) {
	w.t.Helper()
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	if err := client.IgnoreNotFound(w.kubelet.Status().Patch(w.t.Context(), pod, client.MergeFrom(before))); err != nil {
		w.t.Fatal(err)
	}
}

// setReady makes a pod ready, as its agent says: a learner is not.
func (w *world) setReady(pod *corev1.Pod) {
	w.t.Helper()
	members, err := w.etcd.Members(w.t.Context())
	if err != nil {
		members = nil // without a quorum nobody is ready
	}
	before := pod.DeepCopy()
	ready := corev1.ConditionFalse
	for _, member := range members {
		if member.Name == pod.Name && !member.IsLearner && w.startOf(pod).HasJoined && w.etcd.Runs(pod.Name) {
			ready = corev1.ConditionTrue
		}
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	if err := client.IgnoreNotFound(w.kubelet.Status().Patch(w.t.Context(), pod, client.MergeFrom(before))); err != nil {
		w.t.Fatal(err)
	}
}

func (a *agent) request(t *testing.T, plane contract.Plane) string {
	t.Helper()
	request, err := pki.NewRequest(a.keys[plane], pki.Subject{CommonName: a.name}, pki.SANs{})
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(request)
}

// mayStart reports whether a pod has usable certificates for both planes, by the anchors that its pin names.
func (a *agent) mayStart(w *world, pod *corev1.Pod) bool {
	w.t.Helper()
	pin, err := publication.ParsePublication([]byte(pod.Annotations[keyturnagent.PinAnnotation]))
	if err != nil {
		w.t.Fatal(err)
	}
	secret := w.secret(w.namespace, pod.Name)
	published, err := publication.ParsePublication(secret.Data[keyturnagent.PublicationKey])
	if err != nil {
		w.t.Fatal(err)
	}
	for _, plane := range contract.Planes() {
		all, err := pki.ParseBundle(secret.Data[plane.AnchorsKey()])
		if err != nil {
			w.t.Fatal(err)
		}
		anchors, accepted := anchorsIn(w.t, secret.Data, published)[plane], enrollment.Accepted(all, pin.Trust[plane.Role()])
		for _, anchor := range anchors {
			if !slices.ContainsFunc(accepted, func(c *x509.Certificate) bool { return pki.AuthorityIDOf(c) == pki.AuthorityIDOf(anchor) }) {
				w.t.Fatalf("pod %s does not accept a CA of the %s plane", pod.Name, plane)
			}
		}
		chain := w.chain(pod, plane)
		if len(chain) == 0 || !a.keys[plane].Matches(chain[0]) || pki.Verify(chain, anchors, w.clock.Now(), pki.ServerAuth) != nil {
			return false
		}
	}
	return true
}

// chain is the answer that a pod has for a plane; nil when it has none.
func (w *world) chain(pod *corev1.Pod, plane contract.Plane) []*x509.Certificate {
	w.t.Helper()
	answer := pod.Annotations[plane.CertificateAnnotation()]
	if answer == "" {
		return nil
	}
	chain, err := enroll.Chain(answer)
	if err != nil {
		w.t.Fatal(err)
	}
	return chain
}

// flagOf is the value of a flag of etcd in a pod.
func flagOf(pod *corev1.Pod, name string) string {
	for _, argument := range pod.Spec.Containers[0].Command {
		if key, value, _ := strings.Cut(argument, "="); key == name {
			return value
		}
	}
	return ""
}
