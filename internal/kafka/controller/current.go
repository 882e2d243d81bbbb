package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/trust"
)

// errOvertaken says that what a pass decided from has changed since. The next pass
// decides from what is there then.
var errOvertaken = errors.New("something else is written now than what was decided from")

func overtakenBy(kind, name string) error {
	return fmt.Errorf("%s %s: %w", kind, name, errOvertaken)
}

// stillAsked fails with errOvertaken unless people still ask for what the pass was
// decided from. What they ask for stands in specifications, annotations and labels;
// a status is nobody's wish.
func (r *Reconciler) stillAsked(ctx context.Context, p *pass) error {
	kafka := metadataObject(kafkaKind())
	exists, err := r.find(ctx, p.observation, p.kafka.Name, kafka)
	if err != nil {
		return err
	}
	if !exists || !sameWish(kafka, &p.kafka) {
		return overtakenBy("Kafka", p.kafka.Name)
	}
	pools := metadataList(poolKind())
	if err := r.options.Live.List(ctx, pools, p.inCluster()...); err != nil {
		return fmt.Errorf("listing KafkaNodePools of Kafka %s: %w", client.ObjectKeyFromObject(&p.kafka), err)
	}
	if len(pools.Items) != len(p.pools) {
		return overtakenBy("the pools of Kafka", p.kafka.Name)
	}
	for i := range pools.Items {
		now := &pools.Items[i]
		if !slices.ContainsFunc(p.pools, func(before *pool) bool { return sameWish(now, before) }) {
			return overtakenBy("KafkaNodePool", now.Name)
		}
	}
	return nil
}

func sameWish(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations()) && maps.Equal(a.GetLabels(), b.GetLabels()) &&
		(a.GetDeletionTimestamp() == nil) == (b.GetDeletionTimestamp() == nil)
}

// stillStored fails with errOvertaken unless the Secrets that the pass was decided
// from, and those that it wrote, hold what they held then.
func (r *Reconciler) stillStored(ctx context.Context, p *pass) error {
	for name := range p.secrets {
		secret := metadataObject(secretKind())
		if _, err := r.find(ctx, p.observation, name, secret); err != nil {
			return err
		}
		if secret.ResourceVersion != p.secrets[name].ResourceVersion {
			return overtakenBy("Secret", name)
		}
	}
	return nil
}

// decideTrustAgain decides about trust from what pods and agents say now. Why a pod
// is restarted is renewed by that; where nodes would be given something else, they
// get it first.
func (p *pass) decideTrustAgain() error {
	before := map[authorities.Kind]map[trust.MemberID]trust.Publication{}
	for _, kind := range kinds() {
		before[kind] = p.domain(kind).Plan.Publications
	}
	p.decideTrust()
	for _, kind := range kinds() {
		if !maps.EqualFunc(before[kind], p.domain(kind).Plan.Publications, trust.Publication.Same) {
			return overtakenBy("the trust of the", string(kind))
		}
	}
	return nil
}

// leadsThere fails with errOvertaken unless the pod that is made after a restart is
// the one that is wanted: another leader may have described another one since.
func (r *Reconciler) leadsThere(ctx context.Context, p *pass, act *rollout.Act) error {
	i := slices.IndexFunc(p.cluster.Nodes, func(n model.Node) bool { return n.Pod == act.PodName })
	if act.Kind != rollout.Restart || i < 0 {
		return nil
	}
	node := p.cluster.Nodes[i]
	var set podsetv1.StrimziPodSet
	exists, err := r.find(ctx, p.observation, p.cluster.Names.PodSet(node.Pool), &set)
	if err != nil {
		return err
	}
	now := &observation{kafka: p.kafka, podSets: map[string]podsetv1.StrimziPodSet{set.Name: set}}
	described, found := now.described(node)
	if !exists || !found {
		return overtakenBy("StrimziPodSet", p.cluster.Names.PodSet(node.Pool))
	}
	certificates, issued := p.nodes[node.Pod]
	if !issued || p.retired(node) {
		return nil
	}
	desired, err := p.podOf(node, certificates)
	if err != nil {
		return err
	}
	if len(model.Reasons(described.pod.Annotations, desired.Annotations)) > 0 {
		return overtakenBy("StrimziPodSet", set.Name)
	}
	return nil
}

// racesInARow is how many passes one after the other lose a race before people are told:
// a cache that lags behind is no failure of the cluster, and what is lost for as many
// seconds is no race.
const racesInARow = 5

// races counts the passes over each Kafka that have lost a race since one has not.
type races struct {
	mu    sync.Mutex
	inRow map[types.UID]int
}

func newRaces() *races { return &races{inRow: map[types.UID]int{}} }

// lost notes that a pass has lost a race, and reports whether that is still one.
func (r *races) lost(kafka types.UID) (isRace bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inRow[kafka]++
	return r.inRow[kafka] < racesInARow
}

// forget drops a Kafka that is gone, or whose pass has lost no race.
func (r *races) forget(kafka types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inRow, kafka)
}

// lostRace reports whether somebody else wrote first. That is no failure of the
// cluster, and nothing to tell people: the next pass begins with what they wrote.
func lostRace(err error) bool {
	return slices.ContainsFunc(parts(err), isRace)
}

func isRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, errOvertaken)
}
