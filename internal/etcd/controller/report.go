package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/operate"
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
	if isWritten, err := p.statuses.Record(ctx, p.etcd, &p.etcd.Status, &wanted); err != nil || !isWritten {
		return err
	}
	p.tellRestored(wanted)
	p.announce(wanted, etcdv1beta2.ConditionReady, progress()...)
	p.announce(wanted, etcdv1beta2.ConditionAttestationEnforced)
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
		status := recordOf(member)
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

// recordOf is what the next reconcile reads of a member.
func recordOf(member membership.Member) etcdv1beta2.MemberStatus {
	status := etcdv1beta2.MemberStatus{Name: member.Name, PodUID: types.UID(member.PodUID), MemberID: member.ID, Leaving: member.IsLeaving, Version: member.Version}
	if !member.RestartingSince.IsZero() {
		status.RestartingSince = &metav1.Time{Time: member.RestartingSince}
	}
	switch {
	case member.IsVoter:
		status.Role = etcdv1beta2.RoleVoter
	case member.ID != "":
		status.Role = etcdv1beta2.RoleLearner
	}
	return status
}

// serves reports whether clients are sent to a pod.
func serves(pod *corev1.Pod) bool {
	return isReady(pod) && pod.DeletionTimestamp.IsZero() && pod.Labels[model.RoleLabel] == string(etcdv1beta2.RoleVoter)
}

// announce writes an event when a condition has another status or reason than before.
func (p *pass) announce(wanted etcdv1beta2.EtcdClusterStatus, kind string, passing ...string) {
	p.events(actionReconcile).Announce(p.etcd, operate.News(p.etcd.Status.Conditions, wanted.Conditions, kind), passing...)
}

// tellHealth writes an event when etcd reports something else of its data, unless that of Ready says it.
func (p *pass) tellHealth(wanted etcdv1beta2.EtcdClusterStatus) {
	now := apimeta.FindStatusCondition(wanted.Conditions, etcdv1beta2.ConditionEtcdHealthy)
	ready := apimeta.FindStatusCondition(wanted.Conditions, etcdv1beta2.ConditionReady)
	if now == nil || ready == nil || ready.Reason != now.Reason {
		p.tellChange(wanted, etcdv1beta2.ConditionEtcdHealthy)
	}
}

// tellChange announces a condition, but not one that begins as True.
func (p *pass) tellChange(wanted etcdv1beta2.EtcdClusterStatus, kind string) {
	isNew := apimeta.FindStatusCondition(p.etcd.Status.Conditions, kind) == nil
	if !isNew || !apimeta.IsStatusConditionTrue(wanted.Conditions, kind) {
		p.announce(wanted, kind)
	}
}

// concern is what an event is about. Events that differ in nothing else but their text become one.
func concern(kind, namespace, name string, plane contract.Plane) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name, FieldPath: string(plane)}
}

func (p *pass) event(kind, reason, format string, args ...any) {
	p.options.Events.Eventf(p.etcd, nil, kind, reason, actionReconcile, format, args...)
}

// progress are reasons that pass by themselves on the way to the size of the cluster, or when a person wants it.
func progress() []string {
	return []string{
		string(membership.WaitingForMembers), string(membership.WaitingForPods), string(membership.WaitingForLearners),
		string(membership.RemovingMember), string(membership.Upgrading), string(membership.Restarting), string(model.Paused),
	}
}
