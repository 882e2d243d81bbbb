package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/trust"
)

// errOvertaken says that what a reconcile decided from has changed since. The next reconcile
// decides from what is there then.
var errOvertaken = errors.New("something else is written now than what was decided from")

func overtakenBy(kind, name string) error {
	return fmt.Errorf("%s %s: %w", kind, name, errOvertaken)
}

// checkResources fails with errOvertaken if what the resources ask for has changed since the
// reconcile read them. They ask in specifications, annotations and labels; a status asks
// for nothing.
func (r *Reconciler) checkResources(ctx context.Context, o *observation) error {
	kafka := metadataObject(kafkaKind())
	exists, err := r.getLive(ctx, o, o.kafka.Name, kafka)
	if err != nil {
		return err
	}
	if !exists || !sameWish(kafka, &o.kafka) {
		return overtakenBy("Kafka", o.kafka.Name)
	}
	pools := metadataList(poolKind())
	if err := r.options.Live.List(ctx, pools, o.inCluster()...); err != nil {
		return fmt.Errorf("listing KafkaNodePools of Kafka %s: %w", client.ObjectKeyFromObject(&o.kafka), err)
	}
	if len(pools.Items) != len(o.pools) {
		return overtakenBy("the pools of Kafka", o.kafka.Name)
	}
	for i := range pools.Items {
		now := &pools.Items[i]
		if !slices.ContainsFunc(o.pools, func(before *pool) bool { return sameWish(now, before) }) {
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

// checkSecrets fails with errOvertaken unless the Secrets that the reconcile was decided
// from, and those that it wrote, hold what they held then.
func (r *Reconciler) checkSecrets(ctx context.Context, o *observation) error {
	for name := range o.secrets {
		secret := metadataObject(secretKind())
		if _, err := r.getLive(ctx, o, name, secret); err != nil {
			return err
		}
		if secret.ResourceVersion != o.secrets[name].ResourceVersion {
			return overtakenBy("Secret", name)
		}
	}
	return nil
}

// decideTrustAgain decides about trust from what pods and agents say now. Why a pod
// is restarted is renewed by that; where nodes would be given something else, they
// get it first.
func (c *decided) decideTrustAgain() error {
	before := map[authorities.Kind]map[trust.MemberID]trust.Publication{}
	for _, kind := range kinds() {
		before[kind] = c.domain(kind).Plan.Publications
	}
	c.decideTrust()
	for _, kind := range kinds() {
		if !maps.EqualFunc(before[kind], c.domain(kind).Plan.Publications, trust.Publication.Same) {
			return overtakenBy("the trust of the", string(kind))
		}
	}
	return nil
}

// checkPodSet fails with errOvertaken unless the pod that is made after a restart is
// the one that is wanted: another leader may have described another one since.
func (r *Reconciler) checkPodSet(ctx context.Context, c *applied, act *rollout.Act) error {
	i := slices.IndexFunc(c.cluster.Nodes, func(n model.Node) bool { return n.Pod == act.PodName })
	if act.Kind != rollout.Restart || i < 0 {
		return nil
	}
	node := c.cluster.Nodes[i]
	var set podsetv1.StrimziPodSet
	exists, err := r.getLive(ctx, c.observation, c.cluster.Names.PodSet(node.Pool), &set)
	if err != nil {
		return err
	}
	now := &observation{kafka: c.kafka, podSets: map[string]podsetv1.StrimziPodSet{set.Name: set}}
	described, found := now.described(node)
	if !exists || !found {
		return overtakenBy("StrimziPodSet", c.cluster.Names.PodSet(node.Pool))
	}
	certificates, issued := c.nodes[node.Pod]
	if !issued || c.retired(node) {
		return nil
	}
	desired, err := c.podOf(node, certificates)
	if err != nil {
		return err
	}
	if len(model.Reasons(described.pod.Annotations, desired.Annotations)) > 0 {
		return overtakenBy("StrimziPodSet", set.Name)
	}
	return nil
}

// racesInARow is how many reconciles one after the other lose a race before people are told:
// a cache that lags behind is no failure of the cluster, and what is lost for as many
// seconds is no race.
const racesInARow = 5

// lostRace reports whether another client wrote first. That is no failure of the cluster
// and is not reported: the next reconcile begins with what the other client wrote.
func lostRace(err error) bool {
	return slices.ContainsFunc(parts(err), isRace)
}

func isRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || errors.Is(err, errOvertaken)
}
