package controller

import (
	"crypto/sha256"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/operate"
)

// known is what is remembered of resources of one kind.
type known = operate.Known[types.NamespacedName, *memory]

// memory is what is remembered of an EtcdCluster or an EtcdBackup while it exists. One reconcile uses it at a time.
type memory struct {
	uid types.UID
	// place is the UID of its namespace, which it does not outlive; empty until it is read.
	place types.UID
	// objects applies what the resource consists of. The others apply as field owners of their own: what is changed of its pods,
	// how etcd starts in them, when it is started again, and what they were given.
	objects, pods, starts, restarts, notes *kube.Applier
	// denied are the digests of the requests that were denied, so that each is told of once.
	denied map[denialKey][sha256.Size]byte
	// refused are the expansions that the API server has refused, by claim.
	refused map[types.UID]refusal
	// asked are the members that were asked to start etcd again.
	asked map[string]asked
}

type denialKey struct {
	pod   types.UID
	plane contract.Plane
}

type asked struct {
	revision int64
	at       time.Time
	// isFound is true where another operator has asked, at some time before.
	isFound bool
}

// recall returns what is remembered of a resource, and forgets the one that had its name before.
func (r *Reconciler) recall(from *known, resource client.Object) *memory {
	name := client.ObjectKeyFromObject(resource)
	last, isKnown := from.Of(name)
	if isKnown && last.uid == resource.GetUID() {
		return last
	}
	r.drop(from, name)
	applier := func(owner string) *kube.Applier { return kube.NewApplier(r.options.Client, owner) }
	m := &memory{
		uid: resource.GetUID(), denied: map[denialKey][sha256.Size]byte{}, asked: map[string]asked{},
		objects: applier(fieldOwner), pods: applier(podOwner), starts: applier(startOwner), restarts: applier(restartOwner), notes: applier(noteOwner),
	}
	from.Put(name, m)
	return m
}

// drop forgets the resource of a name.
func (r *Reconciler) drop(from *known, name types.NamespacedName) {
	if last, isKnown := from.Of(name); isKnown {
		r.records.Forget(last.uid)
	}
	from.Forget(name)
}

// Remembered is how many things are remembered of all resources: none of those that are gone. It must not be called during a
// reconcile.
func (r *Reconciler) Remembered() int {
	number := r.clusters.Len() + r.backups.Len() + r.statuses.Len() + r.records.Len() + r.accessed.Len() + r.poller.Len() + r.looks.len()
	for _, m := range r.clusters.All() {
		number += len(m.denied) + len(m.refused) + len(m.asked)
	}
	return number
}

// isNew reports whether a request was not denied before.
func (m *memory) isNew(place denialKey, request string) bool {
	digest := sha256.Sum256([]byte(request))
	last, isKnown := m.denied[place]
	m.denied[place] = digest
	return !isKnown || last != digest
}

// keepDenied forgets the requests of pods that are gone.
func (m *memory) keepDenied(isThere func(pod types.UID) bool) {
	maps.DeleteFunc(m.denied, func(place denialKey, _ [sha256.Size]byte) bool { return !isThere(place.pod) })
}

func (m *memory) ask(act membership.Restart, now time.Time) {
	m.asked[act.Name] = asked{revision: act.Revision, at: now}
}

// restarted is how long a member took, once it has loaded what it was asked for.
func (m *memory) restarted(member string, loaded int64, now time.Time) (took time.Duration, isDone bool) {
	last, isAsked := m.asked[member]
	if !isAsked || loaded < last.revision {
		return 0, false
	}
	delete(m.asked, member)
	return now.Sub(last.at), !last.isFound
}

// askedSince is since when a member is asked for a revision. One that another operator has asked is remembered as asked now.
func (m *memory) askedSince(member string, revision int64, now time.Time) time.Time {
	if last, isAsked := m.asked[member]; isAsked && last.revision == revision {
		return last.at
	}
	m.asked[member] = asked{revision: revision, at: now, isFound: true}
	return now
}
