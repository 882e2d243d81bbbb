package kstatus

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/api/condition"
)

// IsDerived reports whether a type of conditions is one of the two, which say again what another condition says.
func IsDerived(kind string) bool { return kind == reconciling || kind == stalled }

// Strimzi completes conditions in the form of Strimzi's resources: with what follows from them, last, and each with the time
// at which it began, which is that of the same one before, or now.
func Strimzi(wanted, before []condition.Condition, now time.Time) []condition.Condition {
	list := slices.DeleteFunc(slices.Clone(wanted), func(c condition.Condition) bool { return IsDerived(string(c.Type)) })
	said := make([]statement, len(list))
	for i, c := range list {
		said[i] = statement{kind: string(c.Type), status: string(c.Status), reason: c.Reason}
	}
	if kind, at := derive(said); kind != "" {
		list = append(list, condition.Condition{
			Type: condition.Type(kind), Status: condition.True, Reason: list[at].Reason, Message: list[at].Message,
		})
	}
	for i := range list {
		list[i].LastTransitionTime = now.UTC().Format(time.RFC3339)
		isSame := func(old condition.Condition) bool {
			return old.Type == list[i].Type && old.Reason == list[i].Reason && old.Status == list[i].Status
		}
		if at := slices.IndexFunc(before, isSame); at >= 0 {
			list[i].LastTransitionTime = before[at].LastTransitionTime
		}
	}
	return list
}

// Standard does the same to conditions in the form of Kubernetes. There a condition begins when its status changes, and not
// with another reason.
func Standard(wanted, before []metav1.Condition, now time.Time) []metav1.Condition {
	list := slices.DeleteFunc(slices.Clone(wanted), func(c metav1.Condition) bool { return IsDerived(c.Type) })
	said := make([]statement, len(list))
	for i, c := range list {
		said[i] = statement{kind: c.Type, status: string(c.Status), reason: c.Reason}
	}
	if kind, at := derive(said); kind != "" {
		follows := list[at]
		follows.Type, follows.Status = kind, metav1.ConditionTrue
		list = append(list, follows)
	}
	for i := range list {
		list[i].LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
		isSame := func(old metav1.Condition) bool { return old.Type == list[i].Type && old.Status == list[i].Status }
		if at := slices.IndexFunc(before, isSame); at >= 0 {
			list[i].LastTransitionTime = before[at].LastTransitionTime
		}
	}
	return list
}

// Of returns the type of the condition that follows from a single one; empty when none does.
func Of(kind, status, reason string) string {
	follows, _ := derive([]statement{{kind: kind, status: status, reason: reason}})
	return follows
}

// statement is what counts of a condition of either form.
type statement struct{ kind, status, reason string }

// derive returns the type of the condition that follows, empty when none does, and the index of the one that it follows from.
// The first in rank decides alone.
func derive(said []statement) (kind string, at int) {
	for _, decides := range []func(statement) bool{isPaused, isUnready, isRolled} {
		if at := slices.IndexFunc(said, decides); at >= 0 {
			return cmp.Or(outlooks()[said[at].reason], outlookOf(said[at])), at
		}
	}
	return "", 0
}

// outlookOf is that of a reason without one. What is not ready is never taken for current.
func outlookOf(s statement) string {
	if isUnready(s) {
		return reconciling
	}
	return ""
}

const (
	isTrue = string(condition.True)
	// rollingUpdate is the type of the condition beside Ready while nodes are to be restarted.
	rollingUpdate = "RollingUpdate"
)

func isPaused(s statement) bool { return s.is(string(condition.ReconciliationPaused)) }
func isRolled(s statement) bool { return s.is(rollingUpdate) }

func isUnready(s statement) bool {
	return s.is(string(condition.NotReady)) || s.kind == string(condition.Ready) && s.status != isTrue
}

func (s statement) is(kind string) bool { return s.kind == kind && s.status == isTrue }
