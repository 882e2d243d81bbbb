package scenarios

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe/etcdload"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
)

// shortLife is the shortest life of a member's certificate that an EtcdCluster may ask for.
const shortLife = 10 * time.Minute

// etcdRenewed has clients at work while all certificates of members are renewed twice.
func etcdRenewed(s *stage) {
	m := s.shortLived()
	for _, which := range []string{"first", "second"} {
		m.renewed(which + " renewal served")
	}
	result := m.finish()
	s.figure(report.AtMost("refused connections", float64(len(result.Refusals)), 0, "connections", "that one side refused, of clients at work and fresh ones"))
	fresh := result.Sum(etcdload.Fresh)
	s.figure(report.AtLeast("fresh connections", float64(fresh.Accepted), 1000, "connections", "one each second to each member, with an answer"))
}

// etcdOperatorAway has no operator for the whole life of members' certificates: members
// serve the clients that are connected, and get new certificates when it is back.
func etcdOperatorAway(s *stage) {
	const expired = "certificates have expired"
	m := s.shortLived()
	var start func() error
	s.step("the operator is stopped", func() error {
		var err error
		start, err = s.kube.StopProcess(s.ctx, harness.EtcdOperator)
		return err
	})
	s.Cleanup(func() { _ = start() }) // the installation sets it, too
	s.step("the last certificate expires", func() error {
		return harness.Let(s.ctx, time.Until(m.lastEnd())+time.Second)
	})
	s.step(expired, func() error { return harness.Let(s.ctx, time.Minute) })
	s.step("the operator is started", func() error { return start() })
	m.renewed("new certificates served")
	result := m.finish()

	fresh, working := result.In(expired, etcdload.Fresh), result.In(expired, etcdload.Working)
	if fresh.Accepted > 0 || fresh.Refused == 0 {
		s.Errorf("of the fresh connections to members with expired certificates %d are accepted and %d refused", fresh.Accepted, fresh.Refused)
	}
	if total := working.Accepted + working.Refused + working.Interrupted + working.Unreachable; total > 0 {
		s.Errorf("clients at work have lost connections to members with expired certificates: %+v", working)
	}
	for reason, count := range result.Reasons() {
		if reason != verdict.Expired {
			s.Errorf("%d connections were refused: %s", count, reason)
		}
	}
	if after := result.In(etcdAfter, etcdload.Fresh); after.Accepted == 0 || after.Refused > 0 {
		s.Errorf("of the fresh connections at the end, %d are accepted and %d refused", after.Accepted, after.Refused)
	}
}

// shortLived is a cluster of three members with short-lived certificates under load.
type shortLived struct {
	*stage

	etcd       harness.Etcd
	containers map[string]string
	served     map[harness.EtcdPort]*x509.Certificate
}

func (s *stage) shortLived() *shortLived {
	s.Helper()
	s.fromScratch()
	s.operatorForEtcd()
	m := &shortLived{stage: s, etcd: harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}}
	s.step("three members created", func() error {
		if err := m.etcd.Create(s.ctx, 3, harness.LeafValidity(shortLife)); err != nil {
			return err
		}
		return m.etcd.UntilReady(s.ctx)
	})
	s.allVote(m.etcd, 3)
	var err error
	m.containers, err = m.etcd.Containers(s.ctx)
	s.must(err)
	s.underEtcdLoad(m.etcd)
	m.served, err = s.etcdLoad.Served(s.ctx)
	s.must(err)
	return m
}

// renewed waits until every port presents another certificate, and holds that it is for the same
// key and ends later.
func (m *shortLived) renewed(what string) {
	m.Helper()
	m.step(what, func() error {
		next, err := m.etcdLoad.UntilServed(m.ctx, m.served)
		if err != nil {
			return err
		}
		for port, certificate := range next {
			before := m.served[port]
			if !bytes.Equal(certificate.RawSubjectPublicKeyInfo, before.RawSubjectPublicKeyInfo) {
				m.Errorf("the %s port of %s has another key", port.Plane, port.Member)
			}
			if certificate.SerialNumber.Cmp(before.SerialNumber) == 0 || !certificate.NotAfter.After(before.NotAfter) {
				m.Errorf("the %s port of %s has certificate %x until %s after %x until %s", port.Plane, port.Member,
					certificate.SerialNumber, certificate.NotAfter, before.SerialNumber, before.NotAfter)
			}
		}
		m.served = next
		return nil
	})
}

// lastEnd is when no served certificate is valid any more.
func (m *shortLived) lastEnd() time.Time {
	var ends []time.Time
	for _, certificate := range m.served {
		ends = append(ends, certificate.NotAfter)
	}
	return slices.MaxFunc(ends, time.Time.Compare)
}

// finish ends the clients and holds that no container was restarted.
func (m *shortLived) finish() etcdload.Result {
	m.Helper()
	result := m.witnessEtcd()
	m.figure(report.AtMost("longest time without a write within bounds", result.Stall.Length.Seconds(), maxGap.Seconds(), "s",
		"between two acknowledgements of any writer"))
	containers, err := m.etcd.Containers(m.ctx)
	m.must(err)
	if diff := cmp.Diff(m.containers, containers); diff != "" {
		m.Errorf("containers were restarted (-before +after):\n%s", diff)
	}
	search := m.etcd.KeySearch()
	m.keysStayPut(search)
	m.step("deleted", func() error { return m.etcd.Delete(m.ctx) })
	m.keysStayPut(search)
	return result
}
