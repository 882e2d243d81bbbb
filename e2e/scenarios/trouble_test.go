package scenarios

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// operatorKilled kills the operator at random moments: whatever it had written by
// then, the next one goes on from there. Nobody gives the Lease back, so that nobody
// acts for a quarter of a minute after each. It lives for two seconds at most, which
// is the time of two or three passes: killed later, it would mostly be killed while it
// waits for reloads, and the authority would have changed again and again.
func operatorKilled(s *stage) {
	const kills, longestLife = 20, 2 * time.Second
	seed := uint64(time.Now().UnixNano())
	chance := rand.New(rand.NewPCG(seed, 0))
	s.notes = append(s.notes, fmt.Sprintf("moments by the seed %d", seed))
	s.onShared()
	r := s.turning(harness.ClusterCA, everybody())
	rotations := 1
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	s.step(fmt.Sprintf("operator killed %d times", kills), func() error {
		for range kills {
			if err := s.kube.UntilLed(s.ctx); err != nil {
				return err
			}
			if err := harness.Let(s.ctx, time.Duration(chance.Int64N(int64(longestLife)))); err != nil {
				return err
			}
			if err := s.kube.CrashOperator(s.ctx); err != nil {
				return err
			}
			again, err := r.again()
			if err != nil {
				return err
			}
			rotations += again
		}
		return nil
	})
	r.until(authorities.RaftRestartsPending, rotation.Trusted)
	r.compare()
	r.notRestarted()
	r.answers(verdict.Refused, "replication", "mtls")
	s.notes = append(s.notes, fmt.Sprintf("the operator was killed %d times in the course of %d rotations", kills, rotations))
}

// again asks for another certificate of the new key if the replacement is over, and
// so on, and says how many rotations that makes. Replacements would cut off who pinned
// the first authority after the fourth: no row of cross certificates is longer.
func (r *turning) again() (int, error) {
	now, err := r.kafka.Trust(r.ctx, r.authority)
	if err != nil || !r.turned(now) {
		return 0, err
	}
	r.outgoing = append(r.outgoing, now.Application[0])
	return 1, r.kafka.Renew(r.ctx, r.authority)
}

// nodeDown: a node that cannot be asked is waited for and named, and goes down once
// more in the middle of it; when it is back, all goes on by itself.
func nodeDown(s *stage) {
	s.onShared()
	s.restarts = true
	r := s.turning(harness.ClusterCA, everybody())
	victim := nodes("dual-role", 2)[0]
	var back func() error
	goesDown := func() error {
		var err error
		back, err = s.kafka.HoldDown(s.ctx, victim)
		return err
	}
	s.step(victim+" goes down", goesDown)
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	s.step("it is waited for, by name", func() error { return r.untilTold("waiting for", victim) })
	s.must(harness.Let(s.ctx, harness.Quiet))
	now, err := s.kafka.Trust(s.ctx, harness.ClusterCA)
	s.must(err)
	if r.turned(now) {
		s.Errorf("the rotation is over while %s is down", victim)
	}
	s.step(victim+" comes back", func() error { return back() })
	s.step(victim+" goes down once more", goesDown)
	s.must(harness.Let(s.ctx, harness.Quiet))
	s.step(victim+" comes back once more", func() error { return back() })
	r.until(authorities.RaftRestartsPending, rotation.Trusted)
	r.finish()
	s.restarted(nodes("dual-role", 0, 1), 0)
	r.answers(verdict.Refused, "replication", "mtls")
}

// restartedInEachPhase deletes a pod whenever the trusted-certs Secret or the first
// entry of ca.crt has changed: a node may start at any moment, and then works with
// what it finds.
func restartedInEachPhase(s *stage) {
	s.onShared()
	s.restarts = true
	r := s.turning(harness.ClusterCA, everybody())
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	restarts := map[string]int{}
	victims := nodes("dual-role", 0, 1, 2)
	for i := 0; ; i++ {
		change, more := r.nextChange()
		if !more {
			break
		}
		victim := victims[i%len(victims)]
		restarts[victim]++
		s.step(fmt.Sprintf("%s restarted after %q", victim, change), func() error {
			pods, err := s.kafka.Pods(s.ctx)
			if err != nil {
				return err
			}
			if err := s.kube.Delete(s.ctx, &corev1.Pod{ObjectMeta: s.meta(victim)}); err != nil {
				return err
			}
			return s.kafka.UntilReplaced(s.ctx, harness.Pods{victim: pods[victim]})
		})
	}
	r.until(authorities.RaftRestartsPending, rotation.Trusted)
	r.finish()
	for victim, times := range restarts {
		s.restarted([]string{victim}, times)
	}
	r.answers(verdict.Refused, "replication", "mtls")
}

// nextChange waits for a change, or for the end of the rotation.
func (r *turning) nextChange() (string, bool) {
	r.Helper()
	var told string
	more := false
	r.must(harness.Poll(r.ctx, func() (bool, error) {
		select {
		case told = <-r.changes:
			more = true
			return true, nil
		default:
		}
		now, err := r.kafka.Trust(r.ctx, r.authority)
		return err == nil && r.turned(now), err
	}))
	return told, more
}

// containerRestarted: what a reload left in Kafka's metadata still holds when the
// server is restarted in the same pod.
func containerRestarted(s *stage) {
	s.onShared()
	r := s.turning(harness.ClusterCA, everybody())
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	r.until(authorities.RaftRestartsPending, rotation.Trusted)
	r.notRestarted()
	s.restarts = true
	victim := nodes("dual-role", 0)[0]
	s.step("the container of "+victim+" restarted", func() error {
		back, err := s.kafka.HoldDown(s.ctx, victim)
		if err != nil {
			return err
		}
		return back()
	})
	s.step("settled", func() error { return s.kafka.UntilSettled(s.ctx) })
	r.answers(verdict.Refused, "replication", "mtls")
	r.finish()
	now, err := s.kafka.Processes(s.ctx, r.target)
	s.must(err)
	if now[victim].Pod != r.processes[victim].Pod || now[victim].Containers == r.processes[victim].Containers {
		s.Errorf("%s is to be the same pod with another container", victim)
	}
	s.restarted(nodes("dual-role", 1, 2), 0)
}

// errNotTheBed is a cluster whose machine is not this one.
var errNotTheBed = errors.New("this scenario interferes with processes of nodes, which it can do on the bed only")

// onlyOnBed fails on any other cluster.
func (s *stage) onlyOnBed() error {
	bed, err := s.kube.OnBed(s.ctx)
	if err == nil && !bed {
		err = errNotTheBed
	}
	return err
}

// kubeletStopped: while no kubelet mounts anything, nothing is taken for loaded.
func kubeletStopped(s *stage) {
	const pause = time.Minute
	s.onShared()
	s.must(s.onlyOnBed())
	r := s.turning(harness.ClusterCA, everybody())
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	s.step("the kubelet stopped for a minute", func() error {
		if err := r.untilChange(string(trust.Untrusted)); err != nil {
			return err
		}
		resume, err := harness.StopKubelet()
		if err != nil {
			return err
		}
		return errors.Join(harness.Let(s.ctx, pause), resume())
	})
	r.until(authorities.RaftRestartsPending, rotation.Trusted)
	r.compare()
	r.notRestarted()
	r.answers(verdict.Refused, "replication", "mtls")
}

// raftClientsEnd brings a CA that ends in minutes. While nothing lasts longer, nobody is
// restarted for it; when the CA has been renewed, every node is, once and in time.
func raftClientsEnd(s *stage) {
	const lifetime = 5 * time.Minute
	manifest := s.example("kafka-dual-role.yaml")
	s.must(errors.Join(small(manifest), manifest.Set("Kafka", clusterName, false, "spec", "clusterCa", "generateCertificateAuthority")))
	s.fromScratch()
	brief := s.ownAuthority("my own cluster CA", lifetime)
	s.bring(clusterCA, brief, "0")
	s.apply(manifest)
	r := s.turning(harness.ClusterCA, attentive())
	s.must(harness.Let(s.ctx, harness.Quiet))
	r.notRestarted()

	s.restarts = true
	before, err := s.kafka.Pods(s.ctx)
	s.must(err)
	renewed, err := pki.RenewCA(brief.Certificate(), brief.Key(), validity, time.Now())
	s.must(err)
	r.asks("the user's cluster CA renewed", func() error {
		s.bring(clusterCA, renewed, "1")
		return nil
	})
	s.step("nodes restarted", func() error { return s.kafka.UntilReplaced(s.ctx, before) })
	r.until(rotation.Trusted)
	left := time.Until(brief.Certificate().NotAfter)
	s.figure(report.AtLeast("time left to what Raft clients held", left.Seconds(), 0, "s",
		"from when the last node had been restarted until the certificates of before ended"))
	s.step("what they held has ended", func() error { return harness.Let(s.ctx, left+harness.Quiet) })
	s.step("settled", func() error { return s.kafka.UntilSettled(s.ctx) })
	r.finish()
	s.restarted(nodes("dual-role", 0, 1, 2), 1)
}

// replacedDuringUpgrade asks for a new key when the first node runs the new version.
func replacedDuringUpgrade(s *stage) {
	const from, to, metadataFrom, metadataTo = "4.2.1", "4.3.1", "4.2-IV1", "4.3-IV0"
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.must(manifest.Set("Kafka", clusterName, from, "spec", "kafka", "version"))
	s.create(manifest)
	s.step("metadata version known", func() error { return s.untilVersion(from, metadataFrom) })
	s.restarts = true
	r := s.turning(harness.ClusterCA, everybody())
	s.step("first node on the new version", func() error {
		if err := s.change(map[string]any{"kafka": map[string]any{"version": to}}); err != nil {
			return err
		}
		return s.untilReplaced(1)
	})
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	s.step("metadata version raised", func() error { return s.untilVersion(to, metadataTo) })
	r.until(authorities.RaftRestartsPending, rotation.Trusted)
	r.finish()
	s.restartedAtMost(2)
	r.answers(verdict.Refused, "replication", "mtls")
}
