package scenarios

import (
	"fmt"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe/etcdload"
)

// underEtcdLoad starts clients of an etcd cluster; they work until the scenario ends or
// witnessEtcd is called.
func (s *stage) underEtcdLoad(etcd harness.Etcd) {
	s.Helper()
	s.step("clients work", func() error {
		load, err := etcd.Load(s.ctx)
		s.etcdLoad = load
		return err
	})
	s.must(harness.Let(s.ctx, harness.Quiet))
}

// etcdAfter is the phase at the end, in which nothing happens any more.
const etcdAfter = "after"

// witnessEtcd ends the clients after a moment, and holds that no write failed and that a register has the history of each key.
func (s *stage) witnessEtcd() etcdload.Result {
	s.Helper()
	s.etcdLoad.SetPhase(etcdAfter)
	s.must(harness.Let(s.ctx, harness.Quiet))
	return s.finishEtcdLoad()
}

func (s *stage) finishEtcdLoad() etcdload.Result {
	s.Helper()
	result, members := s.etcdLoad.Finish(s.ctx)
	s.etcdLoad, s.seen = nil, new(result.Timeline(s.name, members))
	for _, problem := range result.Problems {
		s.Errorf("clients: %s", problem)
	}
	for _, figure := range result.Figures() {
		s.figure(figure)
	}
	s.accounts = append(s.accounts, result.Client())
	s.handshakes = append(s.handshakes, result.Connections...)
	for reason, count := range result.Reasons() {
		s.notes = append(s.notes, fmt.Sprintf("%d connections were refused: %s", count, reason))
	}
	return result
}
