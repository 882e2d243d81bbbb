package scenarios

import (
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// unknownClaimed is the reason by which a liar is named.
const unknownClaimed = "UnknownAuthorityClaimed"

// agentLies lets one agent claim that its server runs on a CA of its own, before and
// while the key of the cluster CA is replaced. What it claims gets nowhere, and nobody
// waits for it; once it tells the truth its node is as far as all others.
func agentLies(s *stage) {
	s.onShared()
	s.must(s.onlyOnBed())
	r := s.turning(harness.ClusterCA, everybody())
	victim := nodes("dual-role", 1)[0]
	own := s.ownAuthority("a CA of nobody's", time.Hour)
	liar := r.lies(victim, own)
	r.asks("asked for a new key of the cluster CA", func() error { return s.kafka.Replace(s.ctx, harness.ClusterCA) })
	s.step("the liar is named", func() error {
		return s.kafka.Until(s.ctx, "names the liar", func(kafka *kafkav1.Kafka) bool {
			return harness.Has(kafka, condition.Warning, unknownClaimed, victim, "delete the pod")
		})
	})
	r.until(authorities.RaftRestartsPending)
	r.unheard(own, victim)
	s.step("the agent tells the truth again", func() error {
		if err := liar.End(s.ctx); err != nil {
			return err
		}
		return s.kafka.Until(s.ctx, "doubts nobody", func(kafka *kafkav1.Kafka) bool {
			return harness.Settled(kafka) && !harness.Has(kafka, condition.Warning, unknownClaimed)
		})
	})
	r.until(authorities.RaftRestartsPending)
	r.compare()
	r.notRestarted()
	s.presentedBy(s.secret(clusterCACert))
	r.answers(verdict.Refused, "replication", "mtls")
	s.step("the remainder gone after a restart of each node", func() error {
		if err := s.kafka.Roll(s.ctx); err != nil {
			return err
		}
		return untilTrusted(r)
	})
	r.onlyNew()
}

// lies starts a liar that ends with the scenario.
func (r *turning) lies(pod string, own pki.Authority) *harness.Liar {
	r.Helper()
	leaf, err := own.Issue(own.Key().Signer().Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "my-cluster-kafka"}, Usages: pki.BothUsages(), Validity: time.Hour, Now: time.Now(),
	})
	r.must(err)
	var liar *harness.Liar
	r.step("the agent of "+pod+" begins to lie", func() error {
		liar, err = r.kafka.StartLiar(r.ctx, r.target, pod, harness.ClaimsOwnCA(own, leaf))
		return err
	})
	reports, err := r.kafka.Reports(r.ctx, r.target)
	r.must(err)
	for name, report := range reports {
		lies := report.Roles["replication-9091"].Presents == pki.FingerprintOf(leaf).String()
		if lies != (name == pod) {
			r.Errorf("it is %t that the agent of %s lies", lies, name)
		}
	}
	return liar
}

// unheard: what the liar claims stands nowhere, and it is told who lies and that nobody
// waits for it.
func (r *turning) unheard(own pki.Authority, liar string) {
	r.Helper()
	for _, looked := range []struct {
		certificate *x509.Certificate
		stands      bool
	}{{own.Certificate(), false}, {r.outgoing[0], true}} {
		mentions, err := r.kafka.Mentions(r.ctx, looked.certificate)
		r.must(err)
		if (len(mentions) > 0) != looked.stands {
			r.Errorf("%q stands in %q", looked.certificate.Subject.CommonName, mentions)
		}
	}
	values, err := r.kube.OperatorMetrics(r.ctx)
	r.must(err)
	series := fmt.Sprintf(`keyturn_rotation_excluded_members{authority="cluster-ca",cluster=%q,name=%q,namespace=%q,reason=%q}`,
		clusterName, liar, r.kafka.Namespace, unknownClaimed)
	if values[series] != 1 {
		r.Errorf("the metric %s is %g", series, values[series])
	}
	events := &eventsv1.EventList{}
	r.must(r.kube.List(r.ctx, events, client.InNamespace(r.kafka.Namespace)))
	told := 0
	for i := range events.Items {
		if events.Items[i].Reason == unknownClaimed && strings.Contains(events.Items[i].Note, liar) {
			told++
		}
	}
	if told != 1 {
		r.Errorf("%d events tell of %s, to tell is one", told, liar)
	}
}
