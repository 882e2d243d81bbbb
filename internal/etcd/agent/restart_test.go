package agent_test

import (
	"context"
	"crypto/x509"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// together are the CAs of a pod and others.
func (r *running) together(others map[contract.Plane]pki.Authority) map[contract.Plane][]*x509.Certificate {
	both := r.Anchors()
	for plane, other := range others {
		both[plane] = append(both[plane], other.Certificate())
	}
	return both
}

// another has a CA for each plane that the pod does not know.
func another(t *testing.T) map[contract.Plane]pki.Authority {
	t.Helper()
	cas := map[contract.Plane]pki.Authority{}
	for _, plane := range contract.Planes() {
		cas[plane] = pkitest.CA(t, "my-cluster-"+string(plane)+"-ca v1", time.Now())
	}
	return cas
}

// mounts waits until the agent has looked at a publication.
func (r *running) mounts(t *testing.T, revision int64) {
	t.Helper()
	r.until(t, "the publication is seen", func(ctx context.Context) bool {
		mounted := r.report(ctx, t).Mounted
		return mounted != nil && mounted.Revision == revision
	})
}

// restart asks for a start under a publication, and waits for it.
func (r *running) restart(t *testing.T, revision string, loaded int64) {
	t.Helper()
	before := r.report(t.Context(), t).StartedAt
	r.Set(t, map[string]string{contract.RestartAnnotation: revision})
	r.until(t, "etcd is started again", func(ctx context.Context) bool {
		report, isReady := r.report(ctx, t), false
		if report.Revision == loaded && report.StartedAt.After(before) {
			isReady, _ = r.ready(ctx)
		}
		return isReady
	})
}

func TestEtcdIsStartedAgainForOtherCAsOnceTheyAreMounted(t *testing.T) {
	t.Parallel()
	r := played(t, &health{})
	r.enrol(t)
	r.untilReady(t)
	write(t, filepath.Join(dataOf(r.Pod), "member", "wal", "0.wal"))
	patches, runs := r.Patches(), func() int { return strings.Count(r.log.String(), "etcd runs") }
	both := r.together(another(t))
	r.Pin(t, 1, both)
	r.Set(t, map[string]string{contract.RestartAnnotation: "3"})
	r.Publish(t, 2, both)
	r.mounts(t, 2)
	r.Set(t, map[string]string{contract.RestartAnnotation: "§"})
	r.Publish(t, 3, both)
	r.mounts(t, 3)
	if runs() != 1 {
		t.Fatalf("etcd was started %d times, before the CAs that are asked for were mounted", runs())
	}
	r.restart(t, "3", 3)
	for _, plane := range contract.Planes() {
		if trusts := r.report(t.Context(), t).Roles[plane.Role()].Trusts; len(trusts) != len(both[plane]) {
			t.Errorf("the %s plane trusts %v", plane, trusts)
		}
	}
	r.Publish(t, 4, both)
	r.Set(t, map[string]string{contract.RestartAnnotation: "4"})
	r.until(t, "the same CAs need no restart", func(ctx context.Context) bool { return r.report(ctx, t).Revision == 4 })
	if runs() != 2 || r.Patches() != patches {
		t.Errorf("etcd was started %d times, want 2, and the agent has written %d times meanwhile", runs(), r.Patches()-patches)
	}
	r.cancel()
	if err := <-r.ended; err != nil || runs() != 2 {
		t.Errorf("the agent ended with %v, and etcd was started %d times", err, runs())
	}
}

func TestEtcdIsNotStartedAgainInAContainerThatIsToEnd(t *testing.T) {
	t.Parallel()
	mayEnd := filepath.Join(t.TempDir(), "end")
	r := played(t, &health{}, etcdEnd+"="+mayEnd)
	r.enrol(t)
	r.untilReady(t)
	write(t, filepath.Join(dataOf(r.Pod), "member", "wal", "0.wal"))
	both := r.together(another(t))
	r.Pin(t, 1, both)
	r.Publish(t, 2, both)
	r.Set(t, map[string]string{contract.RestartAnnotation: "2"})
	r.until(t, "etcd is told to end", func(context.Context) bool { return strings.Contains(r.log.String(), "Passing on a signal") })
	r.cancel()
	write(t, mayEnd)
	if err := <-r.ended; err != nil || strings.Count(r.log.String(), "etcd runs") != 1 {
		t.Errorf("the agent ended with %v; the log:\n%s", err, r.log)
	}
}

// What the pod does not accept is not mounted, whatever an annotation asks for.
func TestEtcdIsNotStartedAgainForCAsThatThePodDoesNotAccept(t *testing.T) {
	t.Parallel()
	r := played(t, &health{})
	r.enrol(t)
	r.untilReady(t)
	r.Publish(t, 2, r.together(another(t)))
	r.Set(t, map[string]string{contract.RestartAnnotation: "2"})
	r.until(t, "the agent reports it", func(ctx context.Context) bool { return r.report(ctx, t).Reload.Failure != "" })
	if runs := strings.Count(r.log.String(), "etcd runs"); runs != 1 {
		t.Errorf("etcd was started %d times", runs)
	}
}

// replacesCAs brings a member from its CAs to others, in the order in which an operator does: trusted beside the old ones,
// signing, alone.
func (m *member) replacesCAs(t *testing.T) {
	t.Helper()
	former, next := m.CAs, another(t)
	both, patches := m.together(next), m.Patches()
	m.Publish(t, 2, both)
	m.Pin(t, 1, both)
	m.mounts(t, 2)
	for _, plane := range contract.Planes() {
		if err := m.connect(t, plane, client(t, next[plane], "")); err == nil {
			t.Errorf("a client of a CA that etcd was not started with is served in the %s plane", plane)
		}
	}
	m.restart(t, "2", 2)
	for _, plane := range contract.Planes() {
		for _, ca := range []pki.Authority{former[plane], next[plane]} {
			if err := m.connect(t, plane, client(t, ca, "")); err != nil {
				t.Errorf("a client of %s in the %s plane: %v", ca.Certificate().Subject, plane, err)
			}
		}
	}
	m.CAs = next
	for _, plane := range contract.Planes() {
		renewed := pki.FingerprintOf(m.Sign(t, plane, time.Now())).String()
		m.until(t, "a certificate of the new CA is presented", func(ctx context.Context) bool { return m.presented(ctx, plane) == renewed })
	}
	m.Publish(t, 3, m.Anchors())
	m.mounts(t, 3)
	m.restart(t, "3", 3)
	for _, plane := range contract.Planes() {
		if err := m.connect(t, plane, client(t, former[plane], "")); err == nil {
			t.Errorf("a client of the old CA is served in the %s plane", plane)
		}
		if trusts := m.report(t.Context(), t).Roles[plane.Role()].Trusts; !slices.Equal(trusts, []string{pki.FingerprintOf(next[plane].Certificate()).String()}) {
			t.Errorf("the %s plane trusts %v", plane, trusts)
		}
	}
	if m.Patches() != patches {
		t.Errorf("the agent has sent %d requests, want none: its keys stay", m.Patches()-patches)
	}
	m.serves(t)
}
