package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/publication"
)

func TestAClusterThatLoadsSomethingIsLookedAtSoonUnlessAnAgentIsSilent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silent []string
		want   time.Duration
	}{
		"all agents answer": {nil, retryDelay},
		"one is silent":     {[]string{"b"}, longestWait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := clusterOf(smallKafka(), map[string]*corev1.Pod{"a": readyPod("a")})
			p.reports = map[string]agentReport{"a": {known: true, report: publication.Report{Revision: 3}}}
			p.silent = c.silent
			if got := deafReconciler(deaf{}).watching(p); got.again != c.want {
				t.Errorf("it is looked at again after %s, want %s", got.again, c.want)
			}
		})
	}
}
