package model_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func alarmed(kind string, count int) *membership.Health {
	health := &membership.Health{}
	for i := range count {
		health.Alarms = append(health.Alarms, membership.Alarm{Kind: kind, ID: fmt.Sprintf("a%d", i), Name: fmt.Sprintf("my-cluster-%d", i)})
	}
	return health
}

func TestAnAlarmIsReportedBeforeMembersThatAreWaitedFor(t *testing.T) {
	t.Parallel()
	stored := etcdv1beta2.EtcdClusterStatus{Conditions: []metav1.Condition{{Type: etcdv1beta2.ConditionEtcdHealthy, Status: metav1.ConditionFalse, Reason: "Corrupt"}}}
	corrupt := model.Seen{Health: alarmed(membership.CorruptAlarm, 1)}
	for name, test := range map[string]struct {
		seen    model.Seen
		problem membership.Reason
		want    model.Reason
	}{
		"nothing else":                           {corrupt, "", model.Corrupt},
		"pods are waited for":                    {corrupt, membership.WaitingForPods, model.Corrupt},
		"a member is waited for":                 {corrupt, membership.WaitingForMembers, model.Corrupt},
		"a learner is waited for":                {corrupt, membership.WaitingForLearners, model.Corrupt},
		"etcd does not answer":                   {corrupt, membership.EtcdNotAnswering, model.Corrupt},
		"an alarm that was stored":               {model.Seen{Before: stored}, membership.WaitingForPods, model.Corrupt},
		"no space, and pods are waited for":      {model.Seen{Health: alarmed(membership.NoSpaceAlarm, 1)}, membership.WaitingForPods, model.NoSpace},
		"pods are waited for without an alarm":   {model.Seen{Health: alarmed("", 0)}, membership.WaitingForPods, model.Reason(membership.WaitingForPods)},
		"the quorum is lost":                     {corrupt, membership.QuorumLost, model.Reason(membership.QuorumLost)},
		"a member has lost its data":             {corrupt, membership.MemberDataLost, model.Reason(membership.MemberDataLost)},
		"a CA is lost":                           {corrupt, membership.Reason(model.CALost), model.CALost},
		"members restart to get a larger quota":  {model.Seen{Health: alarmed(membership.NoSpaceAlarm, 1)}, membership.Restarting, model.Reason(membership.Restarting)},
		"the API server does not accept the pod": {corrupt, membership.Reason(model.PodsRefused), model.PodsRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.problem != "" {
				test.seen.Problem = &model.Problem{Reason: model.Reason(test.problem), Message: "In the way."}
			}
			if got := model.Foremost(test.seen); got == nil || got.Reason != test.want {
				t.Errorf("the problem is %+v, want %s", got, test.want)
			}
		})
	}
}

// A member can report any number of alarms.
func TestAMessageNamesTheFirstTenMembersWithAnAlarm(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{membership.CorruptAlarm, membership.NoSpaceAlarm} {
		for count, want := range map[int]string{
			10: "my-cluster-8, my-cluster-9", 11: "my-cluster-8, my-cluster-9, and 1 more", 5000: "my-cluster-8, my-cluster-9, and 4990 more",
		} {
			message := model.DataProblem(model.Seen{Health: alarmed(kind, count)}).Message
			if !strings.Contains(message, want) || strings.Contains(message, "my-cluster-10") || strings.Contains(message, "more") != (count > 10) {
				t.Errorf("the message about %d alarms is %.400q, want %q", count, message, want)
			}
		}
	}
}

// Etcd raises it where fewer than a majority have the same data.
func TestAnAlarmWithoutAMemberIsNotOneOfAMemberThatIsRemoved(t *testing.T) {
	t.Parallel()
	health := alarmed(membership.CorruptAlarm, 1)
	health.Alarms = append(health.Alarms, membership.Alarm{Kind: membership.CorruptAlarm, ID: "0"})
	message := model.DataProblem(model.Seen{Health: health}).Message
	if !strings.Contains(message, "etcd does not know which of them are right") || strings.Contains(message, "removed") || strings.Contains(message, "majority") {
		t.Errorf("the message is %q", message)
	}
}
