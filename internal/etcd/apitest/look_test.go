package apitest

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// look has the operator look at members that are due a minute later, and reconciles the cluster if it found something else.
func (w *world) look() bool {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	changed := w.operator.Look(w.t.Context())
	if len(changed) > 0 {
		w.reconcile()
	}
	return len(changed) > 0
}

func (w *world) idOf(member string) uint64 {
	w.t.Helper()
	id, err := strconv.ParseUint(w.ids()[member], 16, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// A member whose data differ is not ready, and neither are the others soon: who is looked at must not depend on that.
func TestAnAlarmIsReportedThoughNoMemberIsReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	w.look()
	for _, member := range []string{first, second, third} {
		w.setUnready(member)
	}
	w.reconcile()
	w.etcd.Raise(admin.Alarm{MemberID: w.idOf(second), Kind: "CORRUPT"})
	w.look()
	w.wantHealth("Corrupt", "Corrupt")
	w.etcd.Disarm()
	w.look()
	w.wantHealth("WaitingForPods", "NoAlarm")
}

func TestWhatEtcdReportsOfItsDataIsReported(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for name, test := range map[string]struct {
		spec  func(*etcdv1beta2.EtcdClusterSpec)
		begin func(w *world)
		end   func(w *world)
		// ready is the reason of Ready, healthy that of EtcdHealthy.
		ready, healthy string
		says           []string
		metric         string
	}{
		"a member without space": {
			begin: func(w *world) { w.etcd.Raise(admin.Alarm{MemberID: w.idOf(third), Kind: "NOSPACE"}) },
			end:   func(w *world) { w.etcd.Disarm() },
			ready: "NoSpace", healthy: "NoSpace", says: []string{"by member my-cluster-2.", "etcdctl alarm disarm"},
			metric: `keyturn_etcd_alarm{alarm="NOSPACE",etcdcluster="my-cluster",member="my-cluster-2",namespace="%"} 1`,
		},
		"an alarm of a member that is removed": {
			begin: func(w *world) { w.etcd.Raise(admin.Alarm{MemberID: 0xabcdef, Kind: "NOSPACE"}) },
			end:   func(w *world) { w.etcd.Disarm() },
			ready: "NoSpace", healthy: "NoSpace", says: []string{"member abcdef, which is removed from etcd"},
			metric: `keyturn_etcd_alarm{alarm="NOSPACE",etcdcluster="my-cluster",member="abcdef",namespace="%"} 1`,
		},
		"data that differ": {
			begin: func(w *world) {
				w.etcd.Raise(admin.Alarm{MemberID: w.idOf(first), Kind: "NOSPACE"})
				w.etcd.Raise(admin.Alarm{MemberID: w.idOf(second), Kind: "CORRUPT"})
			},
			end:   func(w *world) { w.etcd.Disarm() },
			ready: "Corrupt", healthy: "Corrupt", says: []string{"The data of member my-cluster-1 differ", "nothing is deleted", "etcdctl endpoint hashkv"},
		},
		"a database near the quota that the member tells": {
			begin: func(w *world) { w.etcd.Fill(second, 7*gib, 8*gib) },
			end:   func(w *world) { w.etcd.Fill(second, gib, 8*gib) },
			ready: "MembersReady", healthy: "QuotaNearlyUsed", says: []string{"of member my-cluster-1 uses more than 80 %", "ETCD_QUOTA_BACKEND_BYTES in spec.pod.etcdEnv"},
			metric: `keyturn_etcd_database_quota_bytes{etcdcluster="my-cluster",member="my-cluster-1",namespace="%"} 8.589934592e+09`,
		},
		"a database near the quota of etcd": {
			begin: func(w *world) { w.etcd.Fill(second, 2*gib-1, 0) },
			end:   func(w *world) { w.etcd.Fill(second, gib, 0) },
			ready: "MembersReady", healthy: "QuotaNearlyUsed", says: []string{"of member my-cluster-1 uses"},
		},
		"a database near the quota of the spec": {
			spec: func(s *etcdv1beta2.EtcdClusterSpec) {
				s.Pod = &etcdv1beta2.PodPolicy{EtcdEnv: []corev1.EnvVar{{Name: "ETCD_QUOTA_BACKEND_BYTES", Value: "100"}}}
			},
			begin: func(w *world) { w.etcd.Fill(second, 80, 0) },
			end:   func(w *world) { w.etcd.Fill(second, 79, 0) },
			ready: "MembersReady", healthy: "QuotaNearlyUsed", says: []string{"of member my-cluster-1 uses"},
			metric: `keyturn_etcd_database_size_bytes{etcdcluster="my-cluster",member="my-cluster-1",namespace="%"} 80`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := of(3)
			if test.spec != nil {
				test.spec(&spec)
			}
			w := newWorld(t, spec)
			w.bring()
			w.look()
			w.wantHealth("MembersReady", "NoAlarm")
			w.told("")
			test.begin(w)
			if !w.look() || w.look() {
				t.Error("the cluster is not reconciled once for what was found")
			}
			w.wantHealth(test.ready, test.healthy)
			message := w.condition(etcdv1beta2.ConditionEtcdHealthy).Message
			for _, part := range test.says {
				if !strings.Contains(message, part) {
					t.Errorf("the message is %q, without %q", message, part)
				}
			}
			if test.metric != "" {
				w.hasMetric(strings.ReplaceAll(test.metric, "%", w.namespace))
			}
			if got := w.tellings(test.healthy); got != 1 {
				t.Errorf("%d events have the reason %s", got, test.healthy)
			}
			w.restart()
			w.reconcile()
			w.wantHealth(test.ready, test.healthy) // until the next process has looked
			test.end(w)
			w.look()
			w.wantHealth("MembersReady", "NoAlarm")
		})
	}
}

func (w *world) wantHealth(ready, healthy string) {
	w.t.Helper()
	r, h := w.condition(etcdv1beta2.ConditionReady), w.condition(etcdv1beta2.ConditionEtcdHealthy)
	if r.Reason != ready || h.Reason != healthy || (h.Status == metav1.ConditionTrue) != (healthy == "NoAlarm") || (r.Status == metav1.ConditionTrue) != (ready == "MembersReady") {
		w.t.Errorf("Ready is %+v and EtcdHealthy %+v, want %s and %s", r, h, ready, healthy)
	}
}

// tellings is how many events have a reason.
func (w *world) tellings(reason string) int {
	count := 0
	for len(w.events.Events) > 0 {
		if strings.Contains(<-w.events.Events, " "+reason+" ") {
			count++
		}
	}
	return count
}

func (w *world) hasMetric(line string) {
	w.t.Helper()
	registry, answer := prometheus.NewRegistry(), httptest.NewRecorder()
	registry.MustRegister(w.metrics)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if !strings.Contains(answer.Body.String(), line+"\n") {
		w.t.Errorf("metrics are\n%s\nwithout %s", answer.Body, line)
	}
}

// A person adds a member and removes it again; nothing in the API server tells of either.
func TestAMemberThatAPersonAddsIsReportedWithinAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	w.look()
	if err := w.etcd.AddLearner(t.Context(), "https://other.example.com:2380"); err != nil {
		t.Fatal(err)
	}
	w.look()
	ready := w.condition(etcdv1beta2.ConditionReady)
	if ready.Reason != "UnknownMember" || !strings.Contains(ready.Message, "etcdctl member remove") {
		t.Errorf("Ready is %+v", ready)
	}
	other, _ := w.etcd.Member("https://other.example.com:2380")
	if err := w.etcd.Remove(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	w.look()
	w.wantHealth("MembersReady", "NoAlarm")
	w.atRest()
}

func TestAPeerURLThatAPersonChangesIsReportedWithinAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	ids := w.ids()
	w.look()
	w.etcd.Readdress(second, "https://elsewhere.example.com:2380")
	w.look()
	ready := w.condition(etcdv1beta2.ConditionReady)
	if ready.Reason != "PeerURLChanged" || !strings.Contains(ready.Message, "--peer-urls=https://my-cluster-1.my-cluster-peer.") {
		t.Errorf("Ready is %+v", ready)
	}
	w.etcd.Readdress(second, "")
	w.look()
	w.wantHealth("MembersReady", "NoAlarm")
	if !maps.Equal(ids, w.ids()) {
		t.Errorf("members were %v and are %v", ids, w.ids())
	}
	w.atRest()
}

func TestMembersThatDoNotAnswerWhenTheyAreLookedAtAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	w.look()
	w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) {
		return nil, admintest.ErrUnreachable
	}
	for i := range 2 {
		if w.look() {
			t.Errorf("look %d in vain is reported", i+1)
		}
	}
	w.look()
	if healthy := w.condition(etcdv1beta2.ConditionEtcdHealthy); healthy.Status != metav1.ConditionUnknown || healthy.Reason != "EtcdNotAnswering" {
		t.Errorf("EtcdHealthy is %+v", healthy)
	}
	w.dial = nil
	w.look()
	w.wantHealth("MembersReady", "NoAlarm")
}

// Another pod may have the address of a member by now.
func TestAnAnswerOfAnotherMemberDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	names := model.Names{Namespace: w.namespace, Cluster: cluster}
	w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
		connected, err := w.etcd.Dial(ctx, urls, identity)
		return misled{connected, names.ClientURL(first)}, err
	}
	w.etcd.Fill(first, 100, 100)
	w.look()
	if message := w.condition(etcdv1beta2.ConditionEtcdHealthy).Message; !strings.Contains(message, "of member my-cluster-0 uses") {
		t.Errorf("the message is %q", message)
	}
}

// misled is a client whose address leads to another member.
type misled struct {
	admin.Client

	url string
}

func (o misled) Status(ctx context.Context, _ string) (admin.Status, error) {
	return o.Client.Status(ctx, o.url)
}

func TestLooksAreSpreadAndCostNoRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	w.look()
	w.writer.Sent = 0
	calls := w.etcd.Calls()
	w.clock.SetTime(w.clock.Now().Add(49 * time.Second))
	if w.operator.Look(t.Context()); w.etcd.Calls() != calls {
		t.Error("members are looked at before they are due")
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Second))
	if changed := w.operator.Look(t.Context()); len(changed) > 0 || w.etcd.Calls() != calls+4 || w.writer.Sent > 0 {
		t.Errorf("a look at rest changes %v, asks %d times and writes %d times, want each member and the list once", changed, w.etcd.Calls()-calls, w.writer.Sent)
	}
	w.clock.SetTime(noon().Add(-time.Hour)) // set back
	if w.operator.Look(t.Context()); w.etcd.Calls() == calls+4 {
		t.Error("nothing is looked at after the clock was set back")
	}
	w.delete(w.cluster())
	w.reconcile()
	calls = w.etcd.Calls()
	w.clock.SetTime(noon().Add(time.Hour))
	if w.operator.Look(t.Context()); w.etcd.Calls() != calls {
		t.Error("a cluster that is being deleted is looked at")
	}
}
