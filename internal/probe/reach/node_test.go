package reach

import (
	"strings"
	"testing"
)

func TestFindTellsPodsFromTheBootstrapServiceAndStrangers(t *testing.T) {
	t.Parallel()
	names := Names{Namespace: "ns", Cluster: "my-cluster"}
	cases := map[string]struct {
		kind target
		pod  string
	}{
		"my-cluster-pool-0.my-cluster-kafka-brokers.ns.svc":                {targetPod, "my-cluster-pool-0"},
		"my-cluster-pool-0.my-cluster-kafka-brokers.ns.svc.cluster.local":  {targetPod, "my-cluster-pool-0"},
		"my-cluster-pool-0.my-cluster-kafka-brokers.ns.svc.corp.internal.": {targetPod, "my-cluster-pool-0"},
		"my-cluster-pool-0.my-cluster-kafka-brokers":                       {targetPod, "my-cluster-pool-0"},
		"my-cluster-kafka-bootstrap.ns.svc":                                {targetBootstrap, ""},
		"my-cluster-kafka-brokers.ns.svc":                                  {targetBootstrap, ""},
		"my-cluster-kafka-bootstrap.ns":                                    {targetBootstrap, ""},
		"my-cluster-kafka-bootstrap":                                       {targetBootstrap, ""},
		"my-cluster-kafka-bootstrap.other.svc":                             {targetOther, ""},
		"my-cluster-pool-0.my-cluster-kafka-brokers.other.svc":             {targetOther, ""},
		"my-cluster-pool-0.other-kafka-brokers.ns.svc":                     {targetOther, ""},
		"my-cluster-kafka-bootstrap.ns.pod":                                {targetOther, ""},
		"kafka.example.com":                                                {targetOther, ""},
		"10.0.0.7":                                                         {targetOther, ""},
		"fd00::7":                                                          {targetOther, ""},
		"":                                                                 {targetOther, ""},
	}
	for host, want := range cases {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			if kind, pod := names.find(host); kind != want.kind || pod != want.pod {
				t.Errorf("%q is %d of pod %q, want %d of %q", host, kind, pod, want.kind, want.pod)
			}
		})
	}
}

func FuzzFindNamesOnlyWhatTheHostSays(f *testing.F) {
	f.Add("c-pool-0.c-kafka-brokers.ns.svc")
	f.Add("..")
	names := Names{Namespace: "ns", Cluster: "c"}
	f.Fuzz(func(t *testing.T, host string) {
		kind, pod := names.find(host)
		if (kind == targetPod) == (pod == "") {
			t.Errorf("%q is %d of pod %q", host, kind, pod)
		}
		if !strings.HasPrefix(host, pod) {
			t.Errorf("pod %q is not in %q", pod, host)
		}
	})
}
