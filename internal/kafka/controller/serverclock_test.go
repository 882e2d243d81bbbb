package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
)

func TestTheWarningAboutTheClockIsTheSameWhileItDiffersInOneDirection(t *testing.T) {
	t.Parallel()
	for ahead, want := range map[time.Duration]string{
		24 * time.Hour: "the operator's clock is more than 15m0s ahead of the API server's: ", 24*time.Hour + 20*time.Second: "the operator's clock is more than 15m0s ahead of the API server's: ",
		-time.Hour: "the operator's clock is more than 15m0s behind the API server's: ",
	} {
		c := clusterOf(smallKafka(), nil)
		c.ahead = ahead
		if reported := c.clockWarning().message; !strings.HasPrefix(reported, want) {
			t.Errorf("%s ahead, it says %q, want %q", ahead, reported, want)
		}
	}
}

func TestNothingIsChangedWhileTheClockIsWrongOrTheKafkaIsPaused(t *testing.T) {
	t.Parallel()
	paused := map[string]string{"strimzi.io/pause-reconciliation": "true"}
	for name, c := range map[string]struct {
		annotations map[string]string
		ahead       time.Duration
		want        bool
	}{
		"nothing is wrong":                       {nil, 0, false},
		"the clock differs by as much as it may": {nil, -pki.Backdate, false},
		"it is further ahead":                    {nil, pki.Backdate + 1, true},
		"it is further behind":                   {nil, -pki.Backdate - 1, true},
		"the Kafka is paused":                    {paused, 0, true},
		"both":                                   {paused, pki.Backdate + 1, true},
	} {
		kafka := smallKafka()
		kafka.Annotations = c.annotations
		p := clusterOf(kafka, nil)
		p.ahead = c.ahead
		if got := p.handsOff(); got != c.want {
			t.Errorf("%s: nothing is changed: %t", name, got)
		}
	}
}

// Warnings and the trust of the cluster are told anew, and nothing else is known.
func TestWhileTheClockIsWrongTheRestStaysAsItWasSaid(t *testing.T) {
	t.Parallel()
	reported := func(kinds ...condition.Type) []condition.Condition {
		var list []condition.Condition
		for _, kind := range kinds {
			list = append(list, condition.Condition{Type: kind, Status: condition.True, Reason: string(kind), Message: "as it was"})
		}
		return list
	}
	all := reported(condition.Ready, condition.Warning, conditionClusterCATrust, conditionClientsCATrust, conditionCertificatesValid, conditionRollingUpdate)
	for name, c := range map[string]struct {
		presents func(p *applied)
		want     []condition.Type
	}{
		"nothing has expired": {func(*applied) {}, []condition.Type{condition.Ready, conditionRollingUpdate}},
		"what a node presents has": {func(p *applied) {
			p.cluster.Nodes = p.cluster.Nodes[:1]
			p.reports = map[string]agentReport{"a": {known: true, report: publication.Report{Roles: map[publication.Role]publication.RoleReport{
				contract.ReplicationListener: {Presents: "x", NotAfter: noon().Add(-time.Hour)},
			}}}}
		}, []condition.Type{conditionRollingUpdate, condition.NotReady}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kafka := smallKafka()
			kafka.Status.Conditions = all
			p := clusterOf(kafka, map[string]*corev1.Pod{"a": readyPod("a")})
			c.presents(p)
			var kept []condition.Type
			for _, w := range p.keptConditions() {
				kept = append(kept, w.kind)
			}
			if !slices.Equal(kept, c.want) {
				t.Errorf("it is said still: %v, want %v", kept, c.want)
			}
		})
	}
}

func TestWhileTheClockIsWrongAKafkaIsSaidToBePausedOnlyIfItIs(t *testing.T) {
	t.Parallel()
	for name, annotations := range map[string]map[string]string{
		"it is": {"strimzi.io/pause-reconciliation": "true"}, "it was, and goes on": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kafka := smallKafka()
			kafka.Annotations = annotations
			kafka.Status.Conditions = []condition.Condition{{Type: condition.ReconciliationPaused, Status: condition.True, Reason: reasonPaused}}
			c := clusterOf(kafka, nil)
			c.ahead = 24 * time.Hour
			reported := slices.ContainsFunc(c.keptConditions(), func(w wanted) bool { return w.kind == condition.ReconciliationPaused })
			if want := annotations != nil; reported != want {
				t.Errorf("it is said to be paused: %t, want %t", reported, want)
			}
		})
	}
}
