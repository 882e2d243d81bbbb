package controller

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/keyturn/keyturn/internal/etcd/admin"
	"github.com/keyturn/keyturn/internal/etcd/membership"
)

const (
	// lookEvery is how often the members of a cluster are looked at: with the reconcile that follows, what they report
	// is in the status within a minute.
	lookEvery = 50 * time.Second
	// looksAtOnce bounds how many clusters are looked at side by side: those whose members do not answer take seconds.
	looksAtOnce = 32
	// silentAfter is how many looks in vain are reported.
	silentAfter = 3
)

// looks are what the members of each cluster were seen with. Nothing of it is stored: the next process looks itself.
type looks struct {
	metrics *Metrics

	mu       sync.Mutex
	clusters map[types.NamespacedName]*lookedAt
}

func newLooks(metrics *Metrics) *looks {
	return &looks{metrics: metrics, clusters: map[types.NamespacedName]*lookedAt{}}
}

// lookedAt is a cluster, as a reconcile has left it for the next look.
type lookedAt struct {
	members []lookedAtMember
	quota   int64
	due     time.Time
	// health is nil before the first answer.
	health *membership.Health
	// misses is how many looks in a row nothing has answered.
	misses int
}

// lookedAtMember is a member, and how it is reached.
type lookedAtMember struct {
	name, id, url, peerURL string
	identity               *tls.Config
}

// offer has the members of a cluster looked at that are ready now. The first look of each cluster has a time of its own.
func (l *looks) offer(cluster types.NamespacedName, members []lookedAtMember, quota int64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clusters[cluster] == nil {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(cluster.String()))
		l.clusters[cluster] = &lookedAt{due: now.Add(time.Duration(hash.Sum32()) * time.Millisecond % lookEvery)}
	}
	l.clusters[cluster].members, l.clusters[cluster].quota = members, quota
}

func (l *looks) forget(cluster types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.clusters, cluster)
}

func (l *looks) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.clusters)
}

// health is what the last look has found; nil when there was none.
func (l *looks) health(cluster types.NamespacedName) *membership.Health {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clusters[cluster] == nil {
		return nil
	}
	return l.clusters[cluster].health
}

// take are the clusters whose look is due, which is that of the next look, too.
func (l *looks) take(now time.Time) map[types.NamespacedName]lookedAt {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := map[types.NamespacedName]lookedAt{}
	for name, cluster := range l.clusters {
		if now.Before(cluster.due) && cluster.due.Sub(now) <= lookEvery {
			continue
		}
		cluster.due = now.Add(lookEvery)
		if len(cluster.members) > 0 {
			due[name] = *cluster
		}
	}
	return due
}

// keep stores what a look has found, and reports whether that is something else than before.
func (l *looks) keep(name types.NamespacedName, found sight) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	cluster := l.clusters[name]
	if cluster == nil { // deleted meanwhile
		return false
	}
	l.metrics.sized(name, found.sizes)
	health := found.health
	switch {
	case health != nil:
		cluster.misses = 0
		l.metrics.alarmed(name, health.Alarms)
	case cluster.misses+1 < silentAfter:
		cluster.misses++
		return false
	default:
		health = &membership.Health{IsSilent: true}
	}
	changed := cluster.health == nil || !reflect.DeepEqual(*cluster.health, *health)
	cluster.health = health
	return changed
}

// offerLooks has the members that have an address looked at from now on: one with an alarm is not ready.
func (p *pass) offerLooks() {
	var members []lookedAtMember
	for _, member := range p.members {
		if pod := p.pods[member.Name]; member.ID != "" && pod != nil && pod.Status.PodIP != "" && pod.DeletionTimestamp.IsZero() && string(pod.UID) == member.PodUID {
			members = append(members, lookedAtMember{member.Name, member.ID, p.addressOf(member.Name), p.cluster.Names.PeerURL(member.Name), p.identityOf(member.Name)})
		}
	}
	p.looks.offer(p.cluster.Names.NamespacedName(), members, p.cluster.Quota(), p.now)
}

// lookAround looks at clusters until the context ends, and has those reconciled of which something else is found.
func (r *Reconciler) lookAround(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, name := range r.Look(ctx) {
			r.notice(ctx, name)
		}
	}, time.Second)
	return nil
}

// notice has a cluster reconciled of which something else is known than before.
func (r *Reconciler) notice(_ context.Context, cluster types.NamespacedName) {
	r.changed.Ring(cluster, 0)
}

// Look asks the members of each cluster whose look is due, and returns the clusters of which something else is found
// than before. It reads nothing from the API server, and writes nothing.
func (r *Reconciler) Look(ctx context.Context) []types.NamespacedName {
	var (
		mu      sync.Mutex
		changed []types.NamespacedName
		group   errgroup.Group
	)
	group.SetLimit(looksAtOnce)
	for name, cluster := range r.looks.take(r.options.Clock.Now()) {
		group.Go(func() error {
			found := r.lookAt(ctx, name, cluster)
			if ctx.Err() == nil && r.looks.keep(name, found) {
				mu.Lock()
				defer mu.Unlock()
				changed = append(changed, name)
			}
			return nil
		})
	}
	_ = group.Wait() // a look has no error: what does not answer is a finding
	return changed
}

// sight is what a look has found. Health is nil when etcd does not answer.
type sight struct {
	health *membership.Health
	sizes  map[string]membership.Size
}

// lookAt asks the members of one cluster, side by side.
func (r *Reconciler) lookAt(ctx context.Context, name types.NamespacedName, cluster lookedAt) sight {
	log := r.options.Log.WithValues("namespace", name.Namespace, "etcdcluster", name.Name)
	answers := make([]*answer, len(cluster.members))
	var asked sync.WaitGroup
	for i, member := range cluster.members {
		asked.Go(func() {
			var err error
			if answers[i], err = r.ask(ctx, member); err != nil {
				log.Info("a member does not answer", "member", member.name, "error", err.Error())
			}
		})
	}
	asked.Wait()
	defer hangUp(answers)
	found, hasAlarm := sight{sizes: map[string]membership.Size{}}, false
	var client admin.Client
	for i, answer := range answers {
		if answer == nil {
			continue
		}
		client, hasAlarm = answer.client, hasAlarm || answer.status.HasAlarm
		found.sizes[cluster.members[i].name] = sizeOf(answer.status, cluster.quota)
	}
	if client == nil {
		return found
	}
	health, err := judge(ctx, client, found.sizes, hasAlarm, cluster.members)
	if err != nil {
		log.Info("etcd does not answer", "error", err.Error())
		return found
	}
	found.health = &health
	return found
}

// answer is that of one member.
type answer struct {
	client admin.Client
	status admin.Status
}

func hangUp(answers []*answer) {
	for _, answer := range answers {
		if answer != nil {
			_ = answer.client.Close() // nothing more is asked by it
		}
	}
}

func (r *Reconciler) ask(ctx context.Context, member lookedAtMember) (*answer, error) {
	client, err := r.options.Dial(ctx, []string{member.url}, member.identity)
	if err != nil {
		return nil, err
	}
	status, err := client.Status(ctx, member.url)
	if err == nil && strconv.FormatUint(status.ID, hexadecimal) != member.id {
		err = fmt.Errorf("member %x has its address: %w", status.ID, errNoMember)
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &answer{client, status}, nil
}

func sizeOf(status admin.Status, quota int64) membership.Size {
	return membership.Size{Total: status.Size, InUse: status.InUse, Quota: cmp.Or(status.Quota, quota)}
}

// judge asks one member for what all have in common. Alarms are listed only if there is one: etcd writes an entry into
// its log for that.
func judge(ctx context.Context, client admin.Client, sizes map[string]membership.Size, hasAlarm bool, members []lookedAtMember) (membership.Health, error) {
	list, err := client.Members(ctx)
	if err != nil {
		return membership.Health{}, err
	}
	names, urls := map[string]string{}, map[string]string{}
	for _, member := range members {
		names[member.id], urls[member.id] = member.name, member.peerURL
	}
	known := make([]membership.Listed, 0, len(list))
	for _, member := range list {
		id := strconv.FormatUint(member.ID, hexadecimal)
		listed := membership.Listed{ID: id, IsLearner: member.IsLearner}
		if url, isRecorded := urls[id]; isRecorded && !slices.Equal(member.PeerURLs, []string{url}) {
			listed.OwnURL = url
		}
		known = append(known, listed)
	}
	if !hasAlarm {
		return membership.Judge(nil, sizes, known), nil
	}
	alarms, err := client.Alarms(ctx)
	if err != nil {
		return membership.Health{}, err
	}
	return membership.Judge(named(alarms, list, names), sizes, known), nil
}

// named are alarms with the names of the members that etcd has, which have one here or told etcd one.
func named(alarms []admin.Alarm, list []admin.Member, names map[string]string) []membership.Alarm {
	result := make([]membership.Alarm, 0, len(alarms))
	for _, alarm := range alarms {
		found := membership.Alarm{Kind: alarm.Kind, ID: strconv.FormatUint(alarm.MemberID, hexadecimal)}
		for _, member := range list {
			if member.ID == alarm.MemberID {
				found.Name = cmp.Or(names[found.ID], member.Name, found.ID)
			}
		}
		result = append(result, found)
	}
	return result
}
