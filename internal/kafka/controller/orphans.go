package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// Nodes that no pod set describes leave Secrets and ConfigMaps under names of nodes.
// Other clients may create any number of them, of any size. The operator therefore reads
// no more than a cluster can have, and reads first what certainly belongs to the cluster.

// orphanCandidate is an object that may be what is left of a node, or of a companion.
type orphanCandidate struct {
	name string
	// owned is true if the Kafka owns it. Others carry the cluster's label at most.
	owned bool
	// asked is true if a pool has the node that it is named after.
	asked bool
}

// byCertainty puts first what is most certainly the cluster's.
func byCertainty(a, b orphanCandidate) int {
	return cmp.Or(truthFirst(a.owned, b.owned), truthFirst(a.asked, b.asked), cmp.Compare(a.name, b.name))
}

func truthFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func (o *observation) orphanCandidateOf(object metav1.Object) orphanCandidate {
	return orphanCandidate{object.GetName(), o.isOwned(object), o.isOfPoolsNode(object.GetName())}
}

func (o *observation) isNodes(name string) bool {
	_, _, ofNode := o.names().NodeOf(name)
	return ofNode
}

// orphanCandidates are the names of nodes that Secrets and ConfigMaps bear, the most certain
// first.
func (o *observation) orphanCandidates() []orphanCandidate {
	var candidates []orphanCandidate
	for name := range o.secrets {
		if secret := o.secrets[name]; o.ofNode(name) {
			candidates = append(candidates, o.orphanCandidateOf(&secret))
		}
	}
	candidates = append(candidates, o.unreadNodes()...)
	for id, object := range o.objects {
		if id.kind == configMapKind().GroupKind() && object.Labels[model.PoolLabel] != "" && o.isNodes(id.name) && o.isOwned(object) {
			candidates = append(candidates, o.orphanCandidateOf(object))
		}
	}
	slices.SortFunc(candidates, byCertainty)
	return candidates
}

// unreadNodes are the Secrets of which nothing is known but that they may be those of
// nodes. One that was read after all, because its node is known, is none of them.
func (o *observation) unreadNodes() []orphanCandidate {
	return slices.DeleteFunc(slices.Clone(o.unread), func(t orphanCandidate) bool {
		_, read := o.secrets[t.name]
		return read || !o.isNodes(t.name)
	})
}

// eachSecret hands over the metadata of the Secrets with the cluster's label, save those of
// its users.
type eachSecret func(ctx context.Context, o *observation, take func(*metav1.PartialObjectMetadata)) error

// listedSecrets is how many Secrets are listed past the cache at a time: with their
// annotations they may be of any size.
const listedSecrets = 100

func (r *Reconciler) cachedSecrets(ctx context.Context, o *observation, take func(*metav1.PartialObjectMetadata)) error {
	return listSecrets(ctx, o, r.options.Client, take)
}

func (r *Reconciler) liveSecrets(ctx context.Context, o *observation, take func(*metav1.PartialObjectMetadata)) error {
	return listSecrets(ctx, o, r.options.Live, take, client.Limit(listedSecrets))
}

func listSecrets(ctx context.Context, o *observation, reader client.Reader, take func(*metav1.PartialObjectMetadata), options ...client.ListOption) error {
	selector := client.MatchingLabelsSelector{Selector: selecting(model.ClusterLabel, selection.Equals, o.kafka.Name).Add(ofNoUser()...)}
	options = append(options, client.InNamespace(o.kafka.Namespace), selector)
	for page := ""; ; {
		list := metadataList(secretKind())
		if err := reader.List(ctx, list, append(slices.Clone(options), client.Continue(page))...); err != nil {
			return fmt.Errorf("listing Secrets of Kafka %s: %w", client.ObjectKeyFromObject(&o.kafka), err)
		}
		for i := range list.Items {
			take(&list.Items[i])
		}
		if page = list.Continue; page == "" {
			return nil
		}
	}
}

// orphanSecrets are the Secrets that the operator has made for the cluster, or that stand
// where one of a node does, the most certain first. They are all that tells of a node whose
// pod set is lost, and of what is left of nodes and companions that are gone.
func orphanSecrets(ctx context.Context, o *observation, each eachSecret) ([]orphanCandidate, error) {
	var candidates []orphanCandidate
	err := each(ctx, o, func(secret *metav1.PartialObjectMetadata) {
		if o.isOurs(secret) && (o.isNodes(secret.Name) || o.isOwned(secret)) {
			found := o.orphanCandidateOf(secret)
			found.name = strings.Clone(found.name) // which nothing else of the page is kept for
			candidates = append(candidates, found)
		}
	})
	slices.SortFunc(candidates, byCertainty)
	return candidates, err
}

// Limits on reading Secrets that no pod set describes. A node's Secret takes some 30 KiB, and
// there are at most model.MaxNodes of them, but other clients may have created more.
const (
	maxTrace  = 256 << 10
	maxTraces = 40 << 20
	// perTrace is what each takes beside what it holds.
	perTrace = 1 << 10
)

// addOrphanSecrets reads as many Secrets of which nothing but their labels and names tells as a
// cluster can have. Of the others it is known that they exist.
func (r *Reconciler) addOrphanSecrets(ctx context.Context, o *observation, candidates []orphanCandidate) error {
	looks, read := 0, 0
	for _, t := range candidates {
		if _, known := o.secrets[t.name]; known {
			continue
		}
		if looks == model.MaxNodes || read > maxTraces {
			o.unread = append(o.unread, t)
			continue
		}
		size, err := r.addOrphanSecret(ctx, o, t)
		if err != nil {
			return err
		}
		looks, read = looks+1, read+size
	}
	return nil
}

// addOrphanSecret adds what is read of a Secret, unless it is larger than one of a node, and
// returns how much there was to read.
func (r *Reconciler) addOrphanSecret(ctx context.Context, o *observation, t orphanCandidate) (int, error) {
	var secret corev1.Secret
	exists, err := r.getLive(ctx, o, t.name, &secret)
	if err != nil || !exists || !o.isOurs(&secret) && (!isUnmarked(&secret) || !kube.Wrote(&secret, fieldOwner)) {
		return perTrace, err
	}
	size := perTrace + secret.Size()
	if size > maxTrace {
		o.unread = append(o.unread, t)
		return size, nil
	}
	o.secrets[t.name] = trimSecret(secret)
	return size, nil
}

// trimSecret is what is read of the Secret of a node or a companion: of annotations and
// writers, those of the operator. Labels and data are compared with what they shall be.
func trimSecret(secret corev1.Secret) corev1.Secret {
	secret.Annotations = maps.Clone(secret.Annotations)
	maps.DeleteFunc(secret.Annotations, func(key, _ string) bool { return !authorities.OwnKey(key) })
	var writers []metav1.ManagedFieldsEntry
	for _, entry := range secret.ManagedFields {
		if entry.Manager == string(fieldOwner) {
			writers = append(writers, metav1.ManagedFieldsEntry{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource})
		}
	}
	secret.ManagedFields = writers
	return secret
}

// whyUnread says which Secrets are not read, and what can be done; nothing if all are. What
// the Kafka owns may hold the keys of its nodes, and is not to be deleted.
func (o *observation) whyUnread() string {
	var own, labelled []string
	for _, t := range o.unread {
		_, read := o.secrets[t.name]
		switch {
		case read:
		case t.owned:
			own = append(own, t.name)
		default:
			labelled = append(labelled, t.name)
		}
	}
	var why []string
	if len(own) > 0 {
		why = append(why, fmt.Sprintf("Secrets that belong to this Kafka are not read, because they are more, or larger, than its nodes can have: %s; "+
			"no CA is made in place of a lost one while they may be its nodes'; take out of them what the operator did not put there, "+
			"and take the Kafka off the owners of those that the operator did not create", excerpt.List(own, ", ", excerpt.Listed)))
	}
	if len(labelled) > 0 {
		why = append(why, fmt.Sprintf("Secrets with names of nodes and the label of this cluster are not read, because they are more, or larger, "+
			"than its nodes can have: %s; no CA is made in place of a lost one while they may be its nodes'; remove the label %s from those that are not",
			excerpt.List(labelled, ", ", excerpt.Listed), model.ClusterLabel))
	}
	return strings.Join(why, ". ")
}
