package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/report"
)

// sharedNamespace has the cluster of scenarios that leave it as it was.
const sharedNamespace = "e2e-shared"

// stand is a cluster for several scenarios: making one takes longer than most of
// them.
type stand struct {
	kube    *harness.Kubernetes
	journal *harness.Journal
	up      bool
}

func (st *stand) kafka() harness.Kafka {
	return harness.Kafka{Kube: st.kube, Namespace: sharedNamespace, Name: clusterName}
}

// spoil gives up the shared cluster after a scenario that failed on it.
func (st *stand) spoil(ctx context.Context, kafka harness.Kafka) {
	if kafka.Namespace == sharedNamespace {
		st.remove(ctx)
	}
}

func (st *stand) remove(ctx context.Context) {
	if !st.up {
		return
	}
	st.up = false
	if err := st.kube.DeleteNamespace(ctx, sharedNamespace); err != nil {
		st.journal.Say("%v", err)
	}
}

// onShared moves the scenario to the shared cluster and makes it, if need be.
func (s *stage) onShared() {
	s.Helper()
	s.kafka = s.shared.kafka()
	if s.shared.up {
		return
	}
	s.shared.up = true
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.create(manifest)
	s.step("servers warmed up", func() error { return s.kafka.WarmUp(s.ctx, harness.EveryKind()) })
}

// small gives each listener one thread instead of three. A broker loads stores, and
// tries them, once for each: three brokers and all their clients on two processors
// would be busy with that for seconds.
func small(manifest harness.Manifest) error {
	return manifest.Set("Kafka", clusterName, int64(1), "spec", "kafka", "config", "num.network.threads")
}

func (s *stage) example(name string) harness.Manifest {
	s.Helper()
	manifest, err := s.kube.Example(name)
	s.must(err)
	return manifest
}

// create makes a cluster in an empty namespace and waits until it is settled.
func (s *stage) create(manifest harness.Manifest) {
	s.Helper()
	s.fromScratch()
	s.apply(manifest)
}

// installWith adds values to those of the installation, until the scenario has ended.
func (s *stage) installWith(values map[string]any) {
	s.Helper()
	s.Cleanup(func() {
		if err := s.kube.Install(context.WithoutCancel(s.ctx), s.journal); err != nil {
			s.Error(err)
		}
	})
	s.must(s.kube.InstallWith(s.ctx, s.journal, values))
}

// fromScratch gives the scenario an empty namespace, and the machine: two clusters with a JVM
// client ask for more than two processors have, and the client would never be scheduled.
func (s *stage) fromScratch() {
	s.Helper()
	if s.kafka.Namespace != sharedNamespace {
		s.shared.remove(s.ctx)
	}
	s.must(s.kube.DeleteNamespace(s.ctx, s.kafka.Namespace))
	s.must(s.kube.CreateNamespace(s.ctx, s.kafka.Namespace))
}

func (s *stage) apply(manifest harness.Manifest) {
	s.Helper()
	begun := time.Now()
	s.step("created", func() error {
		if err := s.kube.Apply(s.ctx, s.kafka.Namespace, manifest); err != nil {
			return err
		}
		return s.kafka.UntilSettled(s.ctx)
	})
	s.figures = append(s.figures, report.Observed("created", time.Since(begun).Seconds(), "s", "from apply until the Kafka is Ready"))
}

// gently lets many clients share a small machine with the cluster: what they are to
// show is a gap of half a second or a refusal, and with more records and handshakes
// than that needs the nodes would do little else than serve them.
func gently(options *probe.Options) {
	options.Interval, options.HandshakeInterval = 100*time.Millisecond, 2*time.Second
}

// underLoad starts clients; they work until the scenario ends or witness is called.
func (s *stage) underLoad(kinds ...string) {
	s.Helper()
	s.step("clients work", func() error {
		load, err := s.kafka.LoadWith(s.ctx, kinds, gently)
		s.load = load
		return err
	})
	s.must(harness.Let(s.ctx, harness.Quiet))
}

// maxGap is how long a client may wait for an acknowledgement on a machine that is
// busy with more than this; what is promised on a quiet one is measured by the
// benchmarks.
const maxGap = 15 * time.Second

// witness ends the clients and holds what they saw against what is promised.
func (s *stage) witness() {
	s.Helper()
	result := s.load.Finish(s.ctx)
	s.load, s.result, s.seen = nil, &result, new(result.Timeline(s.name))
	if !result.Ok() {
		for _, note := range result.Report(s.name, "").Notes {
			s.Errorf("clients: %s", note)
		}
	}
	if len(result.Clients) == 0 {
		s.Error("no client was there")
	}
	for _, client := range result.Clients {
		if client.Records.Acknowledged == 0 || client.Fresh().Accepted == 0 {
			s.Errorf("client %s@%s proves nothing: %d records, %d fresh connections", client.Kind, client.Listener,
				client.Records.Acknowledged, client.Fresh().Accepted)
		}
	}
	s.figure(harness.GapFigure(result, maxGap))
}

// quietly witnesses after a moment in which nothing happens any more.
func (s *stage) quietly() {
	s.Helper()
	s.load.SetPhase("after")
	s.must(harness.Let(s.ctx, harness.Quiet))
	s.witness()
}

// restarted holds how often clients saw each node restart against a number.
func (s *stage) restarted(pods []string, times int) {
	s.Helper()
	seen := map[string]int{}
	for _, node := range s.result.Nodes {
		seen[node.Node] = node.Restarts
	}
	for _, pod := range pods {
		if seen[pod] != times {
			s.Errorf("%s was restarted %d times, not %d", pod, seen[pod], times)
		}
	}
}

func nodes(pool string, ids ...int) []string {
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		names = append(names, fmt.Sprintf("%s-%s-%d", clusterName, pool, id))
	}
	return names
}
