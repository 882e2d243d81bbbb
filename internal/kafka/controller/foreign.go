package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/rotation"
)

// Names of objects are made of the names of clusters, pools and listeners. An object not
// owned by this cluster may therefore have a name that the cluster needs. The operator
// does not write, adopt or delete it.

// reasonForeignObject: an object not owned by this cluster has a name that the cluster needs.
const reasonForeignObject = "ForeignObject"

// objectVersion is the version of every kind that a cluster consists of.
const objectVersion = "v1"

// foreignObject is an object that stands where the cluster's own should.
type foreignObject struct {
	objectID

	// whose it seems to be, in words.
	whose string
	// claimable is true of what the cluster's label would make the cluster's.
	claimable bool
}

// foreignObjectsError is why a cluster is not as it is asked for beside objects of others.
type foreignObjectsError struct {
	cluster string
	objects []foreignObject
}

// Error names every object, whose it seems to be, and what to do.
func (e *foreignObjectsError) Error() string {
	sentences := make([]string, 0, len(e.objects))
	label := ""
	for _, o := range e.objects {
		sentences = append(sentences, fmt.Sprintf("%s %s has a name that this cluster needs, and %s", o.kind.Kind, o.name, o.whose))
		if o.claimable {
			label = fmt.Sprintf("; if it does belong to this cluster, label it %s=%s", model.ClusterLabel, e.cluster)
		}
	}
	return fmt.Sprintf("%s; what belongs to others is not touched, and until it is gone the cluster is not changed, except that all other certificates are renewed: "+
		"delete it, or have its owner recreate it under another name%s", excerpt.First(sentences, excerpt.Named, "; "), label)
}

// checkOwnership leaves the cluster unchanged while an object not owned by it has a name that
// it needs. A cluster that does not exist yet is not created.
func (r *Reconciler) checkOwnership(ctx context.Context, c *desired) error {
	if err := r.addIntended(ctx, c); err != nil || len(c.foreign) == 0 {
		return err
	}
	c.wake(c.now.Add(kube.Unwatched)) // no watch reports when they change
	if !c.isDegraded() {
		if !c.useLastKnown() {
			return &foreignObjectsError{cluster: c.kafka.Name, objects: c.foreign}
		}
		if err := r.addIntended(ctx, c); err != nil { // of the last known cluster
			return err
		}
	}
	c.occupied = &foreignObjectsError{cluster: c.kafka.Name, objects: c.foreign}
	return nil
}

// addIntended looks, by their names and past the cache, for the objects that are to be
// written and that the observation does not show. One of our own, whose label was taken
// off, is added to the observation; others are foreign. In the steady state the
// observation shows everything, and nothing is asked.
func (r *Reconciler) addIntended(ctx context.Context, c *desired) error {
	for _, id := range slices.Concat(c.intendedObjects(), r.companionObjects(c.cluster)) {
		if c.isForeign(id) {
			continue
		}
		object := c.observed(id)
		if object == nil {
			found := metadataObject(id.kind.WithVersion(objectVersion))
			exists, err := r.getLive(ctx, c.observation, id.name, found)
			if err != nil {
				return err
			}
			if !exists {
				continue
			}
			if err := r.addOwned(ctx, c.observation, id, found); err != nil {
				return err
			}
			object = found
		}
		if !c.isOurs(object) || c.observed(id) == nil {
			c.foreign = append(c.foreign, foreignObject{id, c.describeOwner(object), otherOwner(object, c.observation) == nil && id.kind != podSetGroupKind()})
		}
	}
	return nil
}

// addOwned adds an object of ours that no list has shown to the observation.
func (r *Reconciler) addOwned(ctx context.Context, o *observation, id objectID, object *metav1.PartialObjectMetadata) error {
	switch {
	case !o.isOurs(object):
		return nil
	case id.kind == secretKind().GroupKind():
		return r.addSecret(ctx, o, id.name)
	case id.kind == podSetGroupKind():
		return r.addPodSet(ctx, o, id.name)
	default:
		o.objects[id] = object
		return nil
	}
}

// isForeign reports whether an object with that name exists that the cluster does not own.
func (c *desired) isForeign(id objectID) bool {
	return slices.ContainsFunc(c.foreign, func(o foreignObject) bool { return o.objectID == id })
}

// foreignSecrets are the names of an authority's Secrets that exist and are not owned by this cluster.
func (c *desired) foreignSecrets(kind authorities.Kind) []string {
	return slices.DeleteFunc(c.caSecrets(kind), func(name string) bool { return !c.isForeign(secretObject(name)) })
}

// comesBack reports whether a pod of the node that is made again finds all that it needs:
// it is only restarted then.
func (c *desired) comesBack(node model.Node) bool {
	return !slices.ContainsFunc([]objectID{
		{podSetGroupKind(), c.cluster.Names.PodSet(node.Pool)},
		{configMapKind().GroupKind(), node.Pod},
		secretObject(node.Pod),
		{serviceAccountKind().GroupKind(), c.cluster.Names.Kafka()},
		secretObject(authorities.Cluster.TrustedCertsSecret(c.kafka.Name)),
		secretObject(authorities.Clients.TrustedCertsSecret(c.kafka.Name)),
	}, c.isForeign)
}

func secretObject(name string) objectID { return objectID{secretKind().GroupKind(), name} }

// observed is the metadata of an object that was observed, nil if it was not.
func (o *observation) observed(id objectID) metav1.Object {
	switch id.kind {
	case secretKind().GroupKind():
		if secret, found := o.secrets[id.name]; found {
			return &secret
		}
	case podSetGroupKind():
		if set, found := o.podSets[id.name]; found {
			return &set
		}
	default:
		if object, found := o.objects[id]; found {
			return object
		}
	}
	return nil
}

// intendedObjects are those that a cluster writes by name in the mode of the reconcile, and
// those without which its pods do not come back.
func (c *desired) intendedObjects() []objectID {
	ids := []objectID{
		{configMapKind().GroupKind(), rotation.ConfigMapName(c.kafka.Name)},
		secretObject(c.kafka.Name + operatorSecretSuffix),
	}
	if !c.undisrupted {
		ids = append(ids, disruptionObject(c.kafka.Name))
	}
	for _, kind := range kinds() {
		for _, name := range c.writtenCASecrets(kind) {
			ids = append(ids, secretObject(name))
		}
	}
	for _, pool := range c.cluster.Pools {
		ids = append(ids, objectID{podSetGroupKind(), c.cluster.Names.PodSet(pool.Name)})
	}
	for _, node := range c.cluster.Nodes {
		ids = append(ids, secretObject(node.Pod), objectID{configMapKind().GroupKind(), node.Pod})
	}
	if c.isDegraded() {
		return ids
	}
	for _, object := range objectsOf(c.cluster) {
		ids = append(ids, object.objectID)
	}
	return ids
}

// writtenCASecrets are the Secrets of an authority that the operator writes: of a
// user's only the one with what nodes trust, of an issuer's all but the one with the key.
func (o *observation) writtenCASecrets(kind authorities.Kind) []string {
	switch model.CASpec(o.caSpec(kind)).Source {
	case authority.UserProvided:
		return []string{kind.TrustedCertsSecret(o.kafka.Name)}
	case authority.Outside:
		return []string{kind.CertSecret(o.kafka.Name), kind.TrustedCertsSecret(o.kafka.Name)}
	default:
		return o.caSecrets(kind)
	}
}

// ofOthers reports whether the error is about objects of others.
func ofOthers(err error) bool {
	_, foreign := errors.AsType[*foreignObjectsError](err)
	_, another := errors.AsType[*madeByAnotherError](err)
	return foreign || another
}
