package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rotation"
)

// Names of objects are made of the names of clusters, pools and listeners, so that
// somebody else's object may stand where one of the cluster's own should. It is neither
// written nor adopted nor deleted.

// reasonForeignObject: somebody else's object stands where the cluster's own should.
const reasonForeignObject = "ForeignObject"

// objectVersion is the version of every kind that a cluster consists of.
const objectVersion = "v1"

// foreignObject is an object that stands where the cluster's own should.
type foreignObject struct {
	objectID

	// whose it seems to be, in words.
	whose string
}

// foreignObjectsError is why a cluster cannot be built beside objects of others.
type foreignObjectsError struct {
	cluster string
	objects []foreignObject
}

// Error names every object, whose it seems to be, and what to do.
func (e *foreignObjectsError) Error() string {
	sentences := make([]string, 0, len(e.objects))
	for _, o := range e.objects {
		sentences = append(sentences, fmt.Sprintf("%s %s has a name that this cluster needs, and %s", o.kind.Kind, o.name, o.whose))
	}
	more := ""
	if len(sentences) > maxNamed {
		more = fmt.Sprintf("; and %d more", len(sentences)-maxNamed)
		sentences = sentences[:maxNamed]
	}
	return fmt.Sprintf("%s%s; it is not touched, and the cluster is not changed, until it is renamed or deleted, or labelled %s=%s if it belongs to this cluster",
		strings.Join(sentences, "; "), more, labelCluster, e.cluster)
}

// isOurs reports whether an object belongs to this very cluster: its Kafka owns it, or
// it carries the label that names the cluster and nobody else owns it.
func (o *observation) isOurs(object metav1.Object) bool {
	for _, owner := range object.GetOwnerReferences() {
		if owner.UID == o.kafka.UID {
			return true
		}
	}
	return object.GetLabels()[labelCluster] == o.kafka.Name && anotherKafka(object) == ""
}

// anotherKafka names the Kafka that owns an object; empty when none does.
func anotherKafka(object metav1.Object) string {
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == kafkaKind().Kind {
			return owner.Name
		}
	}
	return ""
}

// whose says to whom a foreign object seems to belong.
func whose(object metav1.Object) string {
	if kafka := anotherKafka(object); kafka != "" {
		return "belongs to Kafka " + kafka
	}
	if cluster := object.GetLabels()[labelCluster]; cluster != "" {
		return "carries the label of cluster " + cluster
	}
	if owner := metav1.GetControllerOf(object); owner != nil {
		return fmt.Sprintf("belongs to %s %s", owner.Kind, owner.Name)
	}
	return "it is not marked as belonging to this cluster"
}

// keepToOwn lets the cluster stand as it is while somebody else's object is where one of
// its own should be. A cluster that is not there yet is not made.
func (r *Reconciler) keepToOwn(ctx context.Context, p *pass) error {
	if p.stands() {
		return nil // nothing is written then but what is there
	}
	err := r.seekIntended(ctx, p)
	if _, foreign := errors.AsType[*foreignObjectsError](err); !foreign || !p.standOn() {
		return err
	}
	p.unusable = err
	return nil
}

// seekIntended looks, by their names and past the cache, for the objects that are to be
// written and that the observation does not show. One of our own, whose label was taken
// off, is added to the observation; others make a *foreignObjectsError. In the steady
// state the observation shows everything, and nothing is asked.
func (r *Reconciler) seekIntended(ctx context.Context, p *pass) error {
	foreign := &foreignObjectsError{cluster: p.kafka.Name}
	for _, id := range slices.Concat(p.intendedObjects(), r.companionObjects(p.cluster)) {
		if p.shows(id) {
			continue
		}
		object := metadataObject(id.kind.WithVersion(objectVersion))
		exists, err := r.find(ctx, p.observation, id.name, object)
		switch {
		case err != nil:
			return err
		case !exists:
		case !p.isOurs(object):
			foreign.objects = append(foreign.objects, foreignObject{id, whose(object)})
		case id.kind == secretKind().GroupKind():
			if err := r.seekSecret(ctx, p.observation, id.name); err != nil {
				return err
			}
		case id.kind == podSetGroupKind():
			if err := r.seekPodSet(ctx, p.observation, id.name); err != nil {
				return err
			}
		default:
			p.objects[id] = object
		}
	}
	if len(foreign.objects) == 0 {
		return nil
	}
	p.wake(p.now.Add(unwatched)) // nobody tells what becomes of them
	return foreign
}

// shows reports whether an object was observed.
func (o *observation) shows(id objectID) bool {
	switch id.kind {
	case secretKind().GroupKind():
		_, found := o.secrets[id.name]
		return found
	case podSetGroupKind():
		_, found := o.podSets[id.name]
		return found
	default:
		_, found := o.objects[id]
		return found
	}
}

// intendedObjects are those that a cluster as it was resolved writes by name.
func (p *pass) intendedObjects() []objectID {
	secret := func(name string) objectID { return objectID{secretKind().GroupKind(), name} }
	ids := []objectID{
		{configMapKind().GroupKind(), rotation.ConfigMapName(p.kafka.Name)},
		secret(p.kafka.Name + operatorSecretSuffix),
	}
	if !p.undisrupted {
		ids = append(ids, disruptionObject(p.kafka.Name))
	}
	for _, kind := range kinds() {
		for _, name := range p.writtenCASecrets(kind) {
			ids = append(ids, secret(name))
		}
	}
	for _, pool := range p.cluster.Pools {
		ids = append(ids, objectID{podSetGroupKind(), p.cluster.Names.PodSet(pool.Name)})
	}
	for _, node := range p.cluster.Nodes {
		ids = append(ids, secret(node.Pod))
	}
	for _, object := range objectsOf(p.cluster) {
		ids = append(ids, object.objectID)
	}
	return ids
}

// writtenCASecrets are the Secrets of an authority that the operator writes: of a
// user's only the one with what nodes trust.
func (o *observation) writtenCASecrets(kind authority.Kind) []string {
	if specOf(o.caSpec(kind)).Source == authority.UserProvided {
		return []string{kind.TrustedCertsSecret(o.kafka.Name)}
	}
	return o.caSecrets(kind)
}

// reasonMadeByAnother: another operator has made what the cluster consists of.
const reasonMadeByAnother = "MadeByAnother"

// madeByAnotherError is why a cluster is not touched: another operator runs it.
type madeByAnotherError struct{ objects []string }

// Error names the objects and what to do.
func (e *madeByAnotherError) Error() string {
	named, more := e.objects, ""
	if len(named) > maxNamed {
		named, more = named[:maxNamed], fmt.Sprintf(" and %d more", len(e.objects)-maxNamed)
	}
	return fmt.Sprintf("%s%s were created by another operator, so the cluster is not touched: "+
		"leave the cluster to that operator, or delete it there; Keyturn cannot take over clusters of other operators", strings.Join(named, ", "), more)
}

// checkMaker fails with a *madeByAnotherError where pod sets, or the Secrets of nodes
// that have no pod set, lack all that this operator gives to its own.
func (o *observation) checkMaker() error {
	var objects []string
	for _, name := range slices.Sorted(maps.Keys(o.podSets)) {
		set := o.podSets[name]
		if o.isAnothersSet(&set) {
			objects = append(objects, podSetKind+" "+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.secrets)) {
		if _, ours := o.secrets[name].Data[contract.PublicationKey]; len(o.podSets) == 0 && o.ofNode(name) && !ours {
			objects = append(objects, "Secret "+name)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	return &madeByAnotherError{objects}
}

// isAnothersSet reports whether neither a pod set nor any pod that it describes bears an
// annotation of this operator's.
func (o *observation) isAnothersSet(set *podsetv1.StrimziPodSet) bool {
	if _, recorded := set.Annotations[model.NodesAnnotation]; recorded || len(set.Spec.Pods) == 0 {
		return false
	}
	return !slices.ContainsFunc(o.describedPods(set), func(d describedPod) bool {
		_, pinned := d.pod.Annotations[contract.PinAnnotation]
		return pinned
	})
}

// ofOthers reports whether the error is about objects of others.
func ofOthers(err error) bool {
	_, foreign := errors.AsType[*foreignObjectsError](err)
	_, another := errors.AsType[*madeByAnotherError](err)
	return foreign || another
}
