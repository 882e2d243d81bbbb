package apitest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/admin/admintest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// liar is a member that answers that etcd has no other.
type liar struct {
	*admintest.Fake

	self admin.Member
}

func (l *liar) Members(context.Context) ([]admin.Member, error) { return []admin.Member{l.self}, nil }

// lie has a member answer that etcd has no other.
func (w *world) lie(name string) {
	w.t.Helper()
	names := model.Names{Namespace: w.namespace, Cluster: cluster}
	self, _ := w.etcd.Member(names.PeerURL(name))
	w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
		if slices.Contains(urls, names.ClientURL(name)) {
			return &liar{w.etcd, self}, nil
		}
		return w.etcd.Dial(ctx, urls, identity)
	}
}

// setPodReady says of a pod that it is ready, whether or not it is.
func (w *world) setPodReady(name string) {
	w.t.Helper()
	pod := w.pod(name)
	before := pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := w.kubelet.Status().Patch(w.t.Context(), pod, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// claimUIDs are those of the claims that are not being deleted, by name.
func (w *world) claimUIDs() map[string]types.UID {
	w.t.Helper()
	uids := map[string]types.UID{}
	for _, claim := range w.claims() {
		if claim.DeletionTimestamp == nil {
			uids[claim.Name] = claim.UID
		}
	}
	return uids
}

// keepsClaims fails the test unless every claim is still there.
func (w *world) keepsClaims(before map[string]types.UID) {
	w.t.Helper()
	after := w.claimUIDs()
	for name, uid := range before {
		if after[name] != uid {
			w.t.Fatalf("claim %s is deleted; Ready is %+v", name, w.condition(etcdv1beta2.ConditionReady))
		}
	}
}

func TestAMemberThatSaysItIsAloneHasNoDataOfOthersDeleted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lost    []string
		changes string
		reason  string
	}{
		"others answer":             {[]string{first}, `{}`, "MembersDisagree"},
		"no other answers":          {[]string{first, second}, `{}`, "MembersDisagree"},
		"fewer members are wanted":  {[]string{first, second}, `{"spec": {"size": 1}}`, "MembersDisagree"},
		"another version is wanted": {nil, `{"spec": {"version": "3.6.16"}}`, "MembersDisagree"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ofVersion(3, "3.5.35"))
			w.bring()
			before, ids := w.claimUIDs(), w.ids()
			w.lie(third)
			for _, member := range test.lost {
				w.delete(w.pod(member))
				w.etcd.Stop(t, member)
			}
			w.change(test.changes)
			found := false
			for range 20 {
				w.reconcile()
				w.setPodReady(third)
				w.keepsClaims(before)
				found = found || w.condition(etcdv1beta2.ConditionReady).Reason == test.reason
			}
			if !found {
				t.Errorf("Ready was never %s: %+v", test.reason, w.condition(etcdv1beta2.ConditionReady))
			}
			w.dial = nil
			w.bring()
			for name, id := range w.ids() {
				if ids[name] != id {
					t.Errorf("member %s was %s and is %s", name, ids[name], id)
				}
			}
		})
	}
}

func TestAMemberThatAnotherClientRemovesIsReplacedOnceItsDataIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	before, claims := w.ids(), w.claimUIDs()
	member, _ := w.etcd.Member(model.Names{Namespace: w.namespace, Cluster: cluster}.PeerURL(second))
	if err := w.etcd.Remove(t.Context(), member.ID); err != nil {
		t.Fatal(err)
	}
	w.until("MemberRemoved")
	w.keepsClaims(claims)
	w.deleteClaim(second)
	w.delete(w.pod(second))
	w.play()
	w.bringSafely()
	if after := w.ids(); after[first] != before[first] || after[second] == before[second] || len(after) != 3 {
		t.Errorf("members were %v and are %v", before, after)
	}
	w.atRest()
}

// restore replaces etcd by one that has a member of each name with another id, as after etcdutl snapshot restore.
func (w *world) restore(members ...string) {
	w.t.Helper()
	names := model.Names{Namespace: w.namespace, Cluster: cluster}
	claims, restored, id := w.claimUIDs(), &admintest.Fake{}, uint64(1)
	restored.Start(w.t, "x", "https://x:2380")
	add := func(url string) {
		id++
		if err := restored.AddLearner(w.t.Context(), url); err != nil {
			w.t.Fatal(err)
		}
	}
	for i := range model.MaxMembers { // no id is one of those before
		add(fmt.Sprintf("https://y%d:2380", i))
		if err := restored.Remove(w.t.Context(), id); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, member := range members {
		w.delete(w.pod(member))
		add(names.PeerURL(member))
		restored.Start(w.t, member, names.PeerURL(member))
		if err := restored.Promote(w.t.Context(), id); err != nil {
			w.t.Fatal(err)
		}
		w.volumes[claims["data-"+member]] = id
	}
	if err := restored.Remove(w.t.Context(), 1); err != nil {
		w.t.Fatal(err)
	}
	w.etcd = restored
	w.restart()
}

func TestARestoredMemberWithAnotherIDKeepsItsData(t *testing.T) {
	t.Parallel()
	for _, members := range [][]string{{first}, {first, second, third}} {
		t.Run(fmt.Sprint(len(members)), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(int32(len(members))))
			w.bring()
			before := w.claimUIDs()
			w.change(`{"spec": {"paused": true}}`)
			w.reconcile()
			w.restore(members...)
			w.change(`{"spec": {"paused": false}}`)
			for range 12 {
				w.reconcile()
				w.play()
				w.keepsClaims(before)
			}
			w.change(`{"spec": {"size": 5}}`)
			w.until("MemberIDChanged")
			w.keepsClaims(before)
			if len(w.pods()) != len(members) {
				t.Errorf("there are %d pods", len(w.pods()))
			}
		})
	}
}

// flood is a member whose alarms are many and long.
type flood struct{ *admintest.Fake }

func (f flood) Members(ctx context.Context) ([]admin.Member, error) {
	members, err := f.Fake.Members(ctx)
	for i := uint64(1000); len(members) < 64; i++ {
		members = append(members, admin.Member{ID: i, Name: fmt.Sprintf("%d%s", i, strings.Repeat("x", 500)), PeerURLs: []string{"https://x:2380"}})
	}
	return members, err
}

func (f flood) Status(ctx context.Context, url string) (admin.Status, error) {
	status, err := f.Fake.Status(ctx, url)
	status.HasAlarm = true
	return status, err
}

func (f flood) Alarms(context.Context) ([]admin.Alarm, error) {
	var alarms []admin.Alarm
	for i := range 256 {
		alarms = append(alarms, admin.Alarm{MemberID: 1000 + uint64(i)%61, Kind: "CORRUPT"})
	}
	return alarms, nil
}

// One member reports as many alarms as an answer may have, and the API server takes no message of that length.
func TestAlarmsOfOneMemberDoNotKeepTheStatusFromBeingWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(3))
	w.bring()
	names := model.Names{Namespace: w.namespace, Cluster: cluster}
	w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
		if len(urls) == 1 && urls[0] == names.ClientURL(third) {
			return flood{w.etcd}, nil
		}
		return w.etcd.Dial(ctx, urls, identity)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.operator.Look(t.Context())
	w.lose(second)
	uids := map[types.UID]bool{}
	for range 10 {
		if _, err := w.try(); err != nil {
			t.Logf("pass: %.300v", err)
		}
		w.play()
		if uid, exists := w.podUIDs()[second]; exists {
			uids[uid] = true
		}
	}
	if len(uids) != 1 || !isReady(w.pod(second)) {
		t.Errorf("pod %s was created %d times; Ready is %.200s", second, len(uids), w.condition("Ready").Message)
	}
}

// A status that was lost, a member that lies, and others that are not ready for a moment. Static and insecure clusters.
func TestALiarHasNoEphemeralPodsDeletedWithoutAStatus(t *testing.T) {
	t.Parallel()
	for mode, of := range modes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := begun(t, inPods(of(3)))
			before := w.podUIDs()
			w.forgetStatus()
			w.restart()
			names := w.names(mode)
			self, _ := w.etcd.Member(names.PeerURL(third))
			w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
				if len(urls) == 1 && urls[0] == names.ClientURL(third) {
					return &liar{w.etcd, self}, nil
				}
				return w.etcd.Dial(ctx, urls, identity)
			}
			w.setUnready(first)
			w.setUnready(second)
			for range 10 {
				_, _ = w.try()
			}
			if after := w.podUIDs(); !maps.Equal(before, after) {
				t.Errorf("pods with data %v become %v; Ready is %s: %s", before, after, w.condition("Ready").Reason, w.condition("Ready").Message)
			}
		})
	}
}

// A member that lies about the ids of the others while the status is lost and the others are not ready.
func TestALiarGivesNoIDsWithoutAStatus(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	ids := w.ids()
	w.forgetStatus()
	w.restart()
	names := w.names("")
	w.dial = func(ctx context.Context, urls []string, identity *tls.Config) (admin.Client, error) {
		if len(urls) == 1 && urls[0] == names.ClientURL(third) {
			return renaming{w.etcd}, nil
		}
		return w.etcd.Dial(ctx, urls, identity)
	}
	w.setUnready(first)
	w.setUnready(second)
	for range 6 {
		_, _ = w.try()
	}
	w.dial = nil // the liar is found and stopped
	w.setPodReady(first)
	w.setPodReady(second)
	w.turns()
	if after := w.ids(); !maps.Equal(ids, after) {
		t.Errorf("members were %v and are %v; Ready is %s: %s", ids, after, w.condition("Ready").Reason, w.condition("Ready").Message)
	}
}

type renaming struct{ *admintest.Fake }

func (r renaming) Members(ctx context.Context) ([]admin.Member, error) {
	members, err := r.Fake.Members(ctx)
	for i := range members[:min(2, len(members))] {
		members[i].ID += 0xbad0
	}
	return members, err
}

// A client with a certificate gives a member a second peer URL, which is not the operator's.
func TestASecondPeerURLIsNamed(t *testing.T) {
	t.Parallel()
	w := begun(t, of(3))
	w.look()
	w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) {
		return twofold{w.etcd}, nil
	}
	w.look()
	if ready := w.condition("Ready"); ready.Reason != "PeerURLChanged" {
		t.Errorf("Ready is %+v", ready)
	}
}

type twofold struct{ *admintest.Fake }

func (o twofold) Members(ctx context.Context) ([]admin.Member, error) {
	members, err := o.Fake.Members(ctx)
	if len(members) > 1 {
		members[1].PeerURLs = append([]string{"https://evil.example.com:2380"}, members[1].PeerURLs...)
	}
	return members, err
}

func TestADistrustedCADoesNotComeBackByTheWordOfAMember(t *testing.T) {
	t.Parallel()
	w := withApplication(t, 3)
	stolen := w.anchors()[0].Certificate
	key := w.clusterNames().CAKeySecret(contract.ClientPlane)
	w.asks(key, domains.ForceReplaceAnnotation, "true")
	w.asks(key, authority.DistrustAnnotation, authority.DistrustNow)
	w.comesTo("nothing trusts the stolen CA", func() bool {
		return len(w.anchors()) == 1 && !w.anchors()[0].Certificate.Equal(stolen) && w.rotating() == "" && w.secret(w.private, key).Annotations[authority.DistrustAnnotation] == ""
	})
	w.granted()

	liar, name := w.agentOf(second), pki.FingerprintOf(stolen).String()
	liar.isStuck = true // what it reports is its own
	report := *liar.report
	role := report.Roles[contract.ClientPlane.Role()]
	role.Trusts = append([]string{name}, role.Trusts...)
	report.Roles[contract.ClientPlane.Role()], report.Certificates[name] = role, stolen.Raw
	liar.report = &report
	w.poll(time.Minute)
	w.reconcile()

	if issuer, trusted := w.granted(); issuer != "my-cluster client-ca v1" || trusted != 1 || len(w.anchors()) != 1 {
		t.Errorf("the application has a certificate of %s and trusts %d CAs, of %d", issuer, trusted, len(w.anchors()))
	}
	for _, member := range []string{first, third} {
		if published := w.secret(w.namespace, member).Data[keyturnagent.PublicationKey]; bytes.Contains(published, []byte(name)) {
			t.Errorf("%s is given the stolen CA", member)
		}
	}
}
