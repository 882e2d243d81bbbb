package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Reasons for what the API server does not carry out.
const (
	Failed      Reason = "ReconciliationFailed"
	PodsRefused Reason = "PodsRefused"
)

// Failure is a step that has failed with an answer, which names the object.
func Failure(answer string) *Problem {
	return &Problem{Failed, fmt.Sprintf("A step of the operator has failed: %s. Running members stay. The operator tries again. If this lasts, correct the object that the message names.", answer)}
}

// Together are problems that were found at the same time, by the reason of the first; nil when there are none.
func Together(problems ...*Problem) *Problem {
	var reason Reason
	var messages []string
	for _, problem := range problems {
		if problem == nil || slices.Contains(messages, problem.Message) {
			continue
		}
		reason = cmp.Or(reason, problem.Reason)
		messages = append(messages, problem.Message)
	}
	if len(messages) == 0 {
		return nil
	}
	return &Problem{reason, strings.Join(messages, " ")}
}

// RefusedPod is the pod of a member that the API server does not accept.
func RefusedPod(pod, answer string) *Problem {
	return &Problem{PodsRefused, fmt.Sprintf("The API server does not accept pod %s: %s. The member does not run until it does, which the operator tries again. Change spec.pod of the EtcdCluster, or the quota, policy or webhook that the answer names.", pod, answer)}
}

// ForeignKey is a Secret that may hold the only copy of a key, of this cluster or of one before it.
func ForeignKey(secret, uid string) *Problem {
	return &Problem{ForeignObject, fmt.Sprintf("Secret %s lacks the label %s=%s, and may hold the only copy of a key. It is neither used nor changed, and nothing of this cluster is changed. "+
		"If the Secret is of this EtcdCluster or was restored for it, set the label to this value: clients of the earlier cluster are let in. "+
		"If the namespace was of another tenant before, store the Secret under another name: another CA is created, and those clients are rejected.", secret, ClusterUIDLabel, uid)}
}

// IsUnwatched reports whether no event may tell that the problem is over: of its own namespace the operator watches Secrets with the
// labels of a cluster, which one that was restored may lack, and no ConfigMap.
func (p Problem) IsUnwatched() bool {
	return slices.Contains([]Reason{CALost, CAUnusable, CAChanged, BadLedger}, p.Reason)
}
