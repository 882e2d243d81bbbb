package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kube"
)

// reasonMadeByAnother: another operator has made what the cluster consists of.
const reasonMadeByAnother = "MadeByAnother"

// madeByAnotherError is why a cluster is not touched: another operator runs it.
type madeByAnotherError struct{ objects []string }

// Error names the objects and what to do.
func (e *madeByAnotherError) Error() string {
	return fmt.Sprintf("another operator created %s, so the cluster is not touched: "+
		"leave the cluster to that operator, or delete it there; Keyturn cannot take over clusters of other operators", excerpt.First(e.objects, excerpt.Named, ", "))
}

// checkMaker fails with a *madeByAnotherError where another operator has made what a
// cluster consists of, and nothing shows that this one has made any of it. Beside a
// cluster of this operator's, what others make is at most in its way.
func (r *Reconciler) checkMaker(ctx context.Context, o *observation) error {
	if o.hasTraces() {
		return nil
	}
	configs, applied, err := r.nodeConfigs(ctx, o)
	if err != nil || applied {
		return err
	}
	objects := slices.Concat(o.anothersNodes(), configs)
	if len(objects) == 0 {
		return nil
	}
	slices.Sort(objects)
	o.wake(o.now.Add(kube.Unwatched)) // what carries no label is not watched
	return &madeByAnotherError{objects}
}

// anothersNodes are the pod sets, Secrets and pods of nodes of a cluster that shows no
// trace of this operator.
func (o *observation) anothersNodes() []string {
	var objects []string
	for name, forKafka := range o.anothersSets {
		if forKafka {
			objects = append(objects, podSetKind+" "+name)
		}
	}
	for name := range o.secrets {
		if o.ofNode(name) {
			objects = append(objects, "Secret "+name)
		}
	}
	for _, pod := range o.others {
		if o.isOfPoolsNode(pod.Name) {
			objects = append(objects, "Pod "+pod.Name)
		}
	}
	return objects
}

// nodeConfigs are the ConfigMaps of nodes, and whether this operator has applied one of
// them: the cache does not tell who has.
func (r *Reconciler) nodeConfigs(ctx context.Context, o *observation) (configs []string, applied bool, err error) {
	for id := range o.objects {
		if id.kind != configMapKind().GroupKind() || !o.isOfPoolsNode(id.name) {
			continue
		}
		config := metadataObject(configMapKind())
		exists, err := r.getLive(ctx, o, id.name, config)
		if err != nil {
			return nil, false, err
		}
		if exists {
			configs, applied = append(configs, "ConfigMap "+id.name), applied || kube.Applied(config, fieldOwner)
		}
	}
	return configs, applied, nil
}

// hasTraces reports whether anything shows that this operator has made the cluster.
func (o *observation) hasTraces() bool {
	if len(o.podSets) > 0 {
		return true
	}
	for name := range o.secrets {
		secret := o.secrets[name]
		if _, published := secret.Data[agent.PublicationKey]; published || kube.Wrote(&secret, fieldOwner) {
			return true
		}
	}
	pinned := func(pod *corev1.Pod) bool { return isPinned(pod.Annotations) }
	return slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(o.strangers)), o.others), pinned)
}

// isOfPoolsNode reports whether an object has the name of a node of a pool.
func (o *observation) isOfPoolsNode(name string) bool {
	of, _, named := o.names().NodeOf(name)
	return named && slices.ContainsFunc(o.pools, func(p *pool) bool { return p.Name == of })
}
