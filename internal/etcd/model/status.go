package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kstatus"
)

// Reasons of conditions that are not problems of others.
const (
	MembersReady   Reason = "MembersReady"
	QuorumReady    Reason = "QuorumReady"
	NoQuorum       Reason = "NoQuorum"
	Paused         Reason = "Paused"
	RequestDenied  Reason = "RequestDenied"
	CAsCreated     Reason = "CAsCreated"
	Rotating       Reason = "Rotating"
	fieldsReason   Reason = NotSupported
	insecureReason Reason = "Insecure"
	maxNamedFields        = 20
)

// Seen is what the status of a cluster is made of.
type Seen struct {
	// Before is the status as it is stored.
	Before etcdv1beta2.EtcdClusterStatus
	// Members are those that the cluster has, in any order.
	Members []etcdv1beta2.MemberStatus
	// Running are the versions of their pods.
	Running map[string]string
	// Rotating says which CAs are being renewed or replaced, and what that waits for; empty when none is.
	Rotating string
	// Problem is why the cluster is not as its spec says; nil when only readiness counts.
	Problem *Problem
	Ignored []string
	// Volumes are the claims of members, and HasOldPods is true while pods were created of another spec.
	Volumes    []Volume
	HasOldPods bool
	// HasCAs is true when the CAs of the cluster have been read.
	HasCAs bool
	// Attestation is zero when it was not tested.
	Attestation attestation.Verdict
	// Restored is what the first member has restored; nil when that was not seen.
	Restored *etcdv1beta2.RestoredStatus
	// Health is what members answered when they were looked at last; nil when they have not been.
	Health *membership.Health
	// Reported is what is known of the certificates that members have loaded, by member. One that is not polled is not in it.
	Reported map[string]Reported
	// Denied are the watches that are denied and the cluster depends on.
	Denied []Problem
	Now    time.Time
}

// Status is what the status of a cluster shall be.
func (c Cluster) Status(seen Seen) etcdv1beta2.EtcdClusterStatus {
	status := etcdv1beta2.EtcdClusterStatus{
		Phase:              etcdv1beta2.PhaseCreating,
		ControlPaused:      c.Paused,
		ObservedGeneration: c.Generation,
		Size:               count(seen.Members),
		ServiceName:        c.Names.ClientService(),
		ClientPort:         contract.ClientPort,
		MemberStatuses:     c.sorted(seen.Members),
		Restored:           cmp.Or(seen.Before.Restored, seen.Restored),
	}
	for i, member := range status.MemberStatuses {
		status.MemberStatuses[i].Loaded = seen.loaded(member)
		if member.Ready {
			status.Members.Ready = append(status.Members.Ready, member.Name)
		} else {
			status.Members.Unready = append(status.Members.Unready, member.Name)
		}
	}
	status.CurrentVersion = c.currentVersion(seen)
	if status.CurrentVersion != "" && status.CurrentVersion != c.target {
		status.TargetVersion = c.target
	}
	conditions := c.conditions(status, seen)
	status.Conditions = kstatus.Standard(conditions, seen.Before.Conditions, seen.Now)
	c.setPhase(&status, seen)
	return status
}

// currentVersion is what all members run, once all are ready. Until then they can go back to what they ran before.
func (c Cluster) currentVersion(seen Seen) string {
	for _, member := range seen.Members {
		if !member.Ready || member.Version != seen.Members[0].Version || seen.Running[member.Name] != member.Version {
			return c.running
		}
	}
	if len(seen.Members) == 0 {
		return c.running
	}
	return seen.Members[0].Version
}

func (c Cluster) setPhase(status *etcdv1beta2.EtcdClusterStatus, seen Seen) {
	switch {
	case seen.Problem != nil && seen.Problem.Reason == NotSupported && len(seen.Members) == 0:
		status.Phase, status.Reason = etcdv1beta2.PhaseFailed, seen.Problem.Message
	case seen.Before.Phase == etcdv1beta2.PhaseRunning, hasQuorum(status.MemberStatuses):
		status.Phase = etcdv1beta2.PhaseRunning
	}
}

func (c Cluster) sorted(members []etcdv1beta2.MemberStatus) []etcdv1beta2.MemberStatus {
	return slices.SortedFunc(slices.Values(members), func(a, b etcdv1beta2.MemberStatus) int {
		first, _ := c.Names.Ordinal(a.Name)
		second, _ := c.Names.Ordinal(b.Name)
		return first - second
	})
}

func (c Cluster) conditions(status etcdv1beta2.EtcdClusterStatus, seen Seen) []metav1.Condition {
	conditions := append([]metav1.Condition{c.ready(status, seen), available(status)},
		slices.Concat(pkiReady(seen), c.attested(seen), certificatesLoaded(status.MemberStatuses, seen), healthy(seen), c.volumesDiffer(seen.Volumes), rotatingCAs(seen.Rotating), watchDenied(seen.Denied))...)
	if len(seen.Ignored) > 0 {
		named := seen.Ignored[:min(len(seen.Ignored), maxNamedFields)]
		conditions = append(conditions, newCondition(etcdv1beta2.ConditionFieldsIgnored, metav1.ConditionTrue, fieldsReason,
			fmt.Sprintf("These fields have no effect: %s. Remove them.", strings.Join(named, ", "))))
	}
	if c.Names.Mode == Insecure {
		conditions = append(conditions, newCondition(etcdv1beta2.ConditionWarning, metav1.ConditionTrue, insecureReason, "Members and clients talk without TLS. "+
			"Everyone who reaches ports 2379 and 2380 of the members can read and write all data. Create an EtcdCluster without spec.TLS.insecure, and move the data there."))
	}
	for i := range conditions {
		conditions[i].ObservedGeneration = c.Generation
	}
	return conditions
}

func (c Cluster) ready(status etcdv1beta2.EtcdClusterStatus, seen Seen) metav1.Condition {
	ready, unready, problem := len(status.Members.Ready), status.Members.Unready, seen.Problem
	switch {
	case problem != nil:
		return newCondition(etcdv1beta2.ConditionReady, metav1.ConditionFalse, problem.Reason, problem.Message)
	case c.Paused && (ready < c.Size || len(status.MemberStatuses) > c.Size || status.TargetVersion != "" || seen.HasOldPods):
		return newCondition(etcdv1beta2.ConditionReady, metav1.ConditionFalse, Paused, fmt.Sprintf(
			"%d of %d members are ready with etcd %s, and members are not changed while the cluster is paused. Set spec.paused to false.", ready, c.Size, c.target))
	case status.TargetVersion != "":
		return newCondition(etcdv1beta2.ConditionReady, metav1.ConditionFalse, "Upgrading", fmt.Sprintf("Members get etcd %s one after the other.", c.target))
	case len(unready) > 0 || ready < c.Size:
		return newCondition(etcdv1beta2.ConditionReady, metav1.ConditionFalse, "WaitingForPods", fmt.Sprintf("%d of %d members are ready.", ready, c.Size))
	default:
		return newCondition(etcdv1beta2.ConditionReady, metav1.ConditionTrue, MembersReady, fmt.Sprintf("All %d members are ready.", ready)+evenSize(c.Size))
	}
}

// evenSize warns of a size that costs a member and tolerates no more losses.
func evenSize(size int) string {
	if size%2 == 1 {
		return ""
	}
	return fmt.Sprintf(" An even number of members tolerates no more losses than %d. Set spec.size to an odd number.", size-1)
}

func available(status etcdv1beta2.EtcdClusterStatus) metav1.Condition {
	message := fmt.Sprintf("%d of %d members are ready.", len(status.Members.Ready), len(status.MemberStatuses))
	if hasQuorum(status.MemberStatuses) {
		return newCondition(etcdv1beta2.ConditionAvailable, metav1.ConditionTrue, QuorumReady, message)
	}
	return newCondition(etcdv1beta2.ConditionAvailable, metav1.ConditionFalse, NoQuorum, message)
}

// pkiReady says whether the cluster has its CAs. A problem that is not about that leaves it open.
func pkiReady(seen Seen) []metav1.Condition {
	switch {
	case seen.HasCAs:
		return []metav1.Condition{newCondition(etcdv1beta2.ConditionPKIReady, metav1.ConditionTrue, CAsCreated, "The cluster has its CAs.")}
	case seen.Problem != nil && slices.Contains([]Reason{WaitingForSigner, AnotherOperatorPKI, CALost, CAUnusable, CAChanged}, seen.Problem.Reason):
		return []metav1.Condition{newCondition(etcdv1beta2.ConditionPKIReady, metav1.ConditionFalse, seen.Problem.Reason, seen.Problem.Message)}
	default:
		return nil
	}
}

func rotatingCAs(message string) []metav1.Condition {
	if message == "" {
		return nil
	}
	return []metav1.Condition{newCondition(etcdv1beta2.ConditionRotatingCAs, metav1.ConditionTrue, Rotating, excerpt.Of(message, excerpt.Foreign))}
}

// watchDenied is one condition for all watches: a type is there once. The reason is that of the first.
func watchDenied(denied []Problem) []metav1.Condition {
	if len(denied) == 0 {
		return nil
	}
	messages := make([]string, 0, len(denied))
	for _, problem := range denied {
		messages = append(messages, problem.Message)
	}
	return []metav1.Condition{newCondition(etcdv1beta2.ConditionWatchDenied, metav1.ConditionTrue, denied[0].Reason, strings.Join(messages, " "))}
}

// hasQuorum reports whether more than half of the voters are ready.
func hasQuorum(members []etcdv1beta2.MemberStatus) bool {
	voters, ready := 0, 0
	for _, member := range members {
		if member.Role == etcdv1beta2.RoleVoter {
			voters++
		}
		if member.Ready && member.Role == etcdv1beta2.RoleVoter {
			ready++
		}
	}
	return ready > voters/2
}

func newCondition(kind string, status metav1.ConditionStatus, reason Reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: string(reason), Message: message}
}

// count is how many members there are: never more than the schema has room for.
func count(members []etcdv1beta2.MemberStatus) int32 {
	number := int32(0)
	for range members {
		number++
	}
	return number
}
