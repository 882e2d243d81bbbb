package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// Actions of events.
const (
	actionSign      = "SignRequest"
	actionReconcile = "ReconcileCluster"
)

// report applies the status when it differs, and writes an event about a condition that has changed.
func (p *pass) report(ctx context.Context) error {
	seen := p.seen()
	p.problem = model.Foremost(seen)
	seen.Problem = p.problem
	wanted := p.cluster.Status(seen)
	p.options.Metrics.saw(p.cluster.Names.NamespacedName(), len(wanted.Members.Ready), len(wanted.Members.Unready))
	p.options.Metrics.loaded(p.cluster.Names.NamespacedName(), wanted.MemberStatuses, seen.Reported)
	p.options.Metrics.expire(p.cluster.Names.NamespacedName(), p.trusted(), p.presented())
	if equality.Semantic.DeepEqual(p.etcd.Status, wanted) {
		return nil
	}
	intent, err := recordIntent(etcdv1beta2.GroupVersion.WithKind(etcdv1beta2.KindEtcdCluster), p.etcd, &wanted)
	if err != nil {
		return err
	}
	if err := p.appliers.Of(p.etcd.UID).ApplyStatus(ctx, intent); err != nil {
		return err
	}
	p.tellRestored(wanted)
	p.tell(wanted)
	p.tellAttestation(wanted)
	p.tellVolumes(wanted)
	p.tellHealth(wanted)
	p.tellChange(wanted, etcdv1beta2.ConditionCertificatesLoaded)
	return nil
}

func (p *pass) seen() model.Seen {
	seen := model.Seen{
		Before: p.etcd.Status, Problem: p.problem, Ignored: p.findings.Ignored, Running: map[string]string{}, HasCAs: p.authorities.areComplete(),
		Volumes: p.volumes, Attestation: p.attestation, Restored: p.restored, Health: p.looks.health(p.cluster.Names.NamespacedName()), Reported: p.reported(), Denied: p.denied(), Rotating: p.rotating(), Now: p.now,
	}
	if p.skipsRestore() {
		seen.Ignored = append(slices.Clone(seen.Ignored), "spec.restore")
	}
	for _, member := range p.members {
		status := etcdv1beta2.MemberStatus{Name: member.Name, PodUID: types.UID(member.PodUID), MemberID: member.ID, Leaving: member.IsLeaving, Version: member.Version}
		if member.ID != "" {
			status.Role = etcdv1beta2.RoleLearner
		}
		if member.IsVoter {
			status.Role = etcdv1beta2.RoleVoter
		}
		if pod := p.pods[member.Name]; pod != nil && string(pod.UID) == member.PodUID {
			seen.Running[member.Name] = pod.Annotations[model.VersionAnnotation]
			seen.HasOldPods = seen.HasOldPods || p.cluster.HasOldSpec(pod)
			status.Ready = member.IsVoter && serves(pod)
			if member.IsVoter && !status.Ready && isReady(pod) {
				p.wakeAt(p.now.Add(again)) // its label is due, which no event tells of
			}
		}
		seen.Members = append(seen.Members, status)
	}
	return seen
}

// serves reports whether clients are sent to a pod.
func serves(pod *corev1.Pod) bool {
	return isReady(pod) && pod.DeletionTimestamp.IsZero() && pod.Labels[model.RoleLabel] == string(etcdv1beta2.RoleVoter)
}

// tell writes an event when the cluster has become ready, or is not ready for another reason than before.
func (p *pass) tell(wanted etcdv1beta2.EtcdClusterStatus) {
	ready := apimeta.FindStatusCondition(wanted.Conditions, etcdv1beta2.ConditionReady)
	before := apimeta.FindStatusCondition(p.etcd.Status.Conditions, etcdv1beta2.ConditionReady)
	if ready == nil || before != nil && before.Status == ready.Status && before.Reason == ready.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if ready.Status != metav1.ConditionTrue && p.problem != nil && !isProgress(p.problem.Reason) {
		kind = corev1.EventTypeWarning
	}
	p.event(kind, ready.Reason, "%s", ready.Message)
}

// tellHealth writes an event when etcd reports something else of its data, unless that of Ready says it.
func (p *pass) tellHealth(wanted etcdv1beta2.EtcdClusterStatus) {
	now := apimeta.FindStatusCondition(wanted.Conditions, etcdv1beta2.ConditionEtcdHealthy)
	ready := apimeta.FindStatusCondition(wanted.Conditions, etcdv1beta2.ConditionReady)
	if now == nil || ready == nil || ready.Reason != now.Reason {
		p.tellChange(wanted, etcdv1beta2.ConditionEtcdHealthy)
	}
}

// tellChange writes an event when a condition has another reason than before. One that begins as True is no news.
func (p *pass) tellChange(wanted etcdv1beta2.EtcdClusterStatus, kind string) {
	now := apimeta.FindStatusCondition(wanted.Conditions, kind)
	before := apimeta.FindStatusCondition(p.etcd.Status.Conditions, kind)
	switch {
	case now == nil, before != nil && before.Reason == now.Reason:
	case now.Status != metav1.ConditionTrue:
		p.event(corev1.EventTypeWarning, now.Reason, "%s", now.Message)
	case before != nil:
		p.event(corev1.EventTypeNormal, now.Reason, "%s", now.Message)
	}
}

// concern is what an event is about. Events that differ in nothing else but their text become one.
func concern(kind, namespace, name string, plane contract.Plane) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name, FieldPath: string(plane)}
}

func (p *pass) event(kind, reason, format string, args ...any) {
	p.options.Events.Eventf(p.etcd, nil, kind, reason, actionReconcile, format, args...)
}

// isProgress reports whether a reason passes by itself on the way to the size of the cluster.
func isProgress(reason model.Reason) bool {
	switch membership.Reason(reason) {
	case membership.WaitingForMembers, membership.WaitingForPods, membership.WaitingForLearners,
		membership.RemovingMember, membership.Upgrading, membership.Restarting:
		return true
	default:
		return false
	}
}
