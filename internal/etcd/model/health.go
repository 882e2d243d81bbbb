package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/membership"
)

// Reasons of what etcd reports of its data.
const (
	NoAlarm         Reason = "NoAlarm"
	NoSpace         Reason = "NoSpace"
	Corrupt         Reason = "Corrupt"
	QuotaNearlyUsed Reason = "QuotaNearlyUsed"
)

const (
	quotaVariable = "ETCD_QUOTA_BACKEND_BYTES"
	// defaultQuota is etcd's own.
	defaultQuota = 2 << 30
	// maxNamedOwners is how many members with an alarm a message names: one member can report any number.
	maxNamedOwners = 10
)

// Quota is how large the database of a member may be, for versions of etcd that do not tell; 0 when it is not known.
func (c Cluster) Quota() int64 {
	for _, variable := range c.pod.EtcdEnv {
		if variable.Name != quotaVariable {
			continue
		}
		quota, err := strconv.ParseInt(variable.Value, 10, 64)
		switch {
		case err != nil || quota < 0:
			return 0
		case quota > 0:
			return quota
		}
	}
	return defaultQuota
}

// Foremost is the problem that a person has to know first: an alarm, unless more is in the way than members that are waited for.
// A member with the alarm CORRUPT is not ready.
func Foremost(seen Seen) *Problem {
	found := DataProblem(seen)
	if found == nil || seen.Problem != nil && !slices.Contains([]membership.Reason{
		membership.WaitingForPods, membership.WaitingForMembers, membership.WaitingForLearners, membership.EtcdNotAnswering,
	}, membership.Reason(seen.Problem.Reason)) {
		return seen.Problem
	}
	return found
}

// DataProblem is an alarm with which etcd accepts no writes; nil when it has none.
func DataProblem(seen Seen) *Problem {
	health := seen.Health
	if health == nil {
		stored := apimeta.FindStatusCondition(seen.Before.Conditions, etcdv1beta2.ConditionEtcdHealthy)
		if stored != nil && slices.Contains([]Reason{NoSpace, Corrupt}, Reason(stored.Reason)) {
			return &Problem{Reason(stored.Reason), stored.Message}
		}
		return nil
	}
	if owners := health.Owners(membership.CorruptAlarm); len(owners) > 0 {
		return &Problem{Corrupt, corrupt(health.Alarms, owners)}
	}
	if owners := health.Owners(membership.NoSpaceAlarm); len(owners) > 0 {
		return &Problem{NoSpace, fmt.Sprintf("The alarm NOSPACE is raised by member %s. etcd accepts no writes until it is disarmed. "+
			"Compact, defragment one member after the other, then run etcdctl alarm disarm.", joined(owners))}
	}
	return nil
}

// corrupt says whose data differ. An alarm without a member is etcd's where no majority has the same data.
func corrupt(alarms []membership.Alarm, owners []string) string {
	const stopped = "etcd accepts no writes, and nothing is deleted. Compare what etcdctl endpoint hashkv prints for each member, and "
	if slices.ContainsFunc(alarms, func(a membership.Alarm) bool { return a.Kind == membership.CorruptAlarm && a.ID == "0" }) {
		return "The data of members differ, and etcd does not know which of them are right (alarm CORRUPT). " + stopped + "save a snapshot of each."
	}
	return fmt.Sprintf("The data of member %s differ from those of the others (alarm CORRUPT). %sback up one of the majority.", joined(owners), stopped)
}

// joined names the first of the members with an alarm, and says how many more there are.
func joined(owners []string) string {
	named := strings.Join(owners[:min(len(owners), maxNamedOwners)], ", ")
	if more := len(owners) - maxNamedOwners; more > 0 {
		return fmt.Sprintf("%s, and %d more", named, more)
	}
	return named
}

// healthy says what etcd reports of its data. Until members have been looked at, what is stored counts.
func healthy(seen Seen) []metav1.Condition {
	health := seen.Health
	switch problem := DataProblem(seen); {
	case health == nil:
		if stored := apimeta.FindStatusCondition(seen.Before.Conditions, etcdv1beta2.ConditionEtcdHealthy); stored != nil {
			return []metav1.Condition{*stored}
		}
		return nil
	case health.IsSilent:
		return []metav1.Condition{newCondition(etcdv1beta2.ConditionEtcdHealthy, metav1.ConditionUnknown, Reason(membership.EtcdNotAnswering),
			"No member answers the operator, which looks for alarms and for the size of the database. See the log of the operator, and policies of the network between it and the members.")}
	case problem != nil:
		return []metav1.Condition{newCondition(etcdv1beta2.ConditionEtcdHealthy, metav1.ConditionFalse, problem.Reason, problem.Message)}
	case len(health.Filling) > 0:
		return []metav1.Condition{newCondition(etcdv1beta2.ConditionEtcdHealthy, metav1.ConditionFalse, QuotaNearlyUsed, fmt.Sprintf(
			"The database of member %s uses more than 80 %% of its quota. At 100 %% etcd accepts no writes. "+
				"Compact and defragment one member after the other, or set %s in spec.pod.etcdEnv to a larger value.", strings.Join(health.Filling, ", "), quotaVariable))}
	default:
		return []metav1.Condition{newCondition(etcdv1beta2.ConditionEtcdHealthy, metav1.ConditionTrue, NoAlarm, "etcd has no alarm, and its database is below 80 % of its quota.")}
	}
}
