package members

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/reach"
)

// Observe records the members that vote until ctx ends: their pods, and what the status of the
// EtcdCluster says that they have loaded. Without the right to read that, it stays unknown.
func (m *Members) Observe(ctx context.Context, clock clock.WithTicker, api client.Reader) *observe.Observer {
	observer := observe.New(m.nodes, clock, (&reports{members: m, api: api, cas: map[string]string{}}).of)
	go observer.Run(ctx)
	return observer
}

// nodes are the pods as last seen, by name.
func (m *Members) nodes() []reach.Node {
	var nodes []reach.Node
	for _, object := range m.informer.GetStore().List() {
		if pod, is := object.(*corev1.Pod); is {
			node := reach.NodeOf(pod, m.names.Host(pod.Name))
			node.Restart = pod.Annotations[contract.RestartAnnotation]
			nodes = append(nodes, node)
		}
	}
	slices.SortFunc(nodes, func(a, b reach.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// reports are what the agents of members report to the operator.
type reports struct {
	members *Members
	api     client.Reader

	mu sync.Mutex
	// cas are the names of CAs, by the fingerprints of their certificates and of those that they issued to members.
	cas map[string]string
}

var errNotReported = errors.New("its status does not have the pod")

// of is what the status says that a member has loaded.
func (r *reports) of(ctx context.Context, node reach.Node) (observe.Evidence, error) {
	cluster := r.members.names.NamespacedName()
	etcd := &etcdv1beta2.EtcdCluster{}
	if err := r.api.Get(ctx, cluster, etcd); err != nil {
		return observe.Evidence{}, fmt.Errorf("reading EtcdCluster %s: %w", cluster, err)
	}
	at := slices.IndexFunc(etcd.Status.MemberStatuses, func(member etcdv1beta2.MemberStatus) bool {
		return member.Name == node.Name && string(member.PodUID) == node.UID
	})
	if at < 0 {
		return observe.Evidence{}, fmt.Errorf("reading what %s of EtcdCluster %s has loaded: %w", node.Name, cluster, errNotReported)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	evidence := observe.Evidence{Trusts: map[string][]string{}, Issuers: map[string][]string{}}
	for _, plane := range etcd.Status.MemberStatuses[at].Loaded {
		r.learn(ctx, node.Name, append([]string{plane.Presents}, plane.Trusts...))
		audience := plane.Plane + "s"
		evidence.Trusts[audience] = observe.Named(plane.Trusts, r.cas)
		if issuer := r.cas[plane.Presents]; issuer != "" && plane.Plane == string(contract.PeerPlane) {
			evidence.Issuers[audience] = []string{issuer}
		}
	}
	return evidence, nil
}

// learn reads names of CAs when there are fingerprints without one. What cannot be read stays without.
func (r *reports) learn(ctx context.Context, member string, fingerprints []string) {
	if !slices.ContainsFunc(fingerprints, func(fingerprint string) bool { return r.cas[fingerprint] == "" }) {
		return
	}
	key := types.NamespacedName{Namespace: r.members.names.Namespace, Name: member}
	secret := &corev1.Secret{}
	_ = r.api.Get(ctx, key, secret)
	issued := r.members.issued(key)
	for _, plane := range contract.Planes() {
		anchors, _ := pki.ParseBundle(secret.Data[plane.AnchorsKey()])
		for _, anchor := range anchors {
			r.cas[pki.FingerprintOf(anchor).String()] = observe.AuthorityName(anchor)
		}
		if chain, err := enroll.Chain(issued[plane]); err == nil {
			r.cas[pki.FingerprintOf(chain[0]).String()] = observe.IssuerName(chain[0])
		}
	}
}

// issued are the answers that the pod of a member has to its requests.
func (m *Members) issued(member types.NamespacedName) map[contract.Plane]string {
	object, _, _ := m.informer.GetStore().GetByKey(member.String()) // a store in memory does not fail
	pod, is := object.(*corev1.Pod)
	if !is {
		return nil
	}
	return enroll.ExchangeOf(pod.Annotations).Answers
}
