package controller

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	runtimeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// accompanying is a companion with the pods that it has.
type accompanying struct {
	companion.Companion

	pods []*corev1.Pod
}

func deploymentKind() schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind("Deployment")
}

func roleKind() schema.GroupVersionKind { return rbacv1.SchemeGroupVersion.WithKind("Role") }

func roleBindingKind() schema.GroupVersionKind {
	return rbacv1.SchemeGroupVersion.WithKind("RoleBinding")
}

// owned are the kinds whose objects are observed as metadata.
func (r *Reconciler) owned() []schema.GroupVersionKind {
	if r.options.Companions == nil {
		return ownedKinds()
	}
	return append(ownedKinds(), deploymentKind(), roleKind(), roleBindingKind())
}

// companionObjects are what the companions of a cluster consist of.
func (r *Reconciler) companionObjects(cluster model.Cluster) []objectID {
	if r.options.Companions == nil {
		return nil
	}
	var ids []objectID
	for _, c := range r.options.Companions(cluster) {
		ids = append(ids, objectID{secretKind().GroupKind(), c.Secret}, objectID{deploymentKind().GroupKind(), c.Name})
		for _, kind := range accessKinds(c) {
			ids = append(ids, objectID{kind.GroupKind(), c.Name})
		}
	}
	return ids
}

// accessKinds are the kinds of the objects by which a companion may do something.
func accessKinds(c companion.Companion) []schema.GroupVersionKind {
	if len(c.Rules) == 0 {
		return nil
	}
	return []schema.GroupVersionKind{serviceAccountKind(), roleKind(), roleBindingKind()}
}

// findCompanions settles who runs beside the nodes, and finds their pods.
func (r *Reconciler) findCompanions(p *pass) {
	p.companions = nil
	if r.options.Companions == nil {
		return
	}
	for _, c := range r.options.Companions(p.cluster) {
		at := accompanying{Companion: c}
		for _, pod := range p.others {
			if pod.Labels[model.NameLabel] == c.Name {
				at.pods = append(at.pods, pod)
			}
		}
		p.companions = append(p.companions, at)
	}
}

// companionOf is the companion that a pod belongs to.
func (p *pass) companionOf(pod string) (accompanying, bool) {
	for _, at := range p.companions {
		if slices.ContainsFunc(at.pods, func(its *corev1.Pod) bool { return its.Name == pod }) {
			return at, true
		}
	}
	return accompanying{}, false
}

// peers are the pods of all processes with an agent, or something that answers as one.
func (p *pass) peers() map[string]*corev1.Pod {
	all := maps.Clone(p.pods)
	for _, at := range p.companions {
		for _, pod := range at.pods {
			all[pod.Name] = pod
		}
	}
	return all
}

// publishedTo is what the Secret of a pod's node or companion says it is to load.
func (p *pass) publishedTo(pod string) publication.Publication {
	if at, is := p.companionOf(pod); is {
		return p.published(at.Secret)
	}
	return p.published(pod)
}

// addressOf says where a pod answers, by which leaves it is recognised, and how much it
// has to tell.
func (p *pass) addressOf(pod *corev1.Pod, leaves map[string][]string) client.Node {
	at, is := p.companionOf(pod.Name)
	if !is {
		node := agentOf(p.cluster.Names, pod, leaves)
		node.Roles = p.rolesOf(pod)
		return node
	}
	return client.Node{
		Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(agent.SecurePort)),
		Name:    at.Host, Leaves: leaves[at.Host],
	}
}

// evidence is what is known of the companion.
func (at accompanying) evidence(p *pass) evidence.Companion {
	c := evidence.Companion{
		Name: at.Name, Restarts: at.Loading == publication.LoadByRestart,
		Published: p.published(at.Secret), Presents: p.presents(at.Secret, at.certKey()),
	}
	for _, pod := range at.pods {
		said := p.heard[pod.Name]
		c.Pods = append(c.Pods, evidence.Pod{
			Name: pod.Name, Given: givenTo(pod, companion.Stores()),
			Witness: witnessOf(pod, said), Report: said.report, Since: said.sinceGiven(c.Published, p.now),
		})
	}
	return c
}

func (at accompanying) certKey() string { return at.Certificate + ".crt" }

// applyCompanions writes the Secret of each companion, and then its Deployment.
func (r *Reconciler) applyCompanions(ctx context.Context, p *pass) error {
	return each(ctx, p.companions, func(at accompanying) error { return r.applyCompanion(ctx, p, at) })
}

func (r *Reconciler) applyCompanion(ctx context.Context, p *pass, at accompanying) error {
	published, issued, err := r.applyCompanionSecret(ctx, p, at)
	if err != nil || !issued {
		return err // without a certificate a pod would have nothing to be pinned to
	}
	err = r.applyAccess(ctx, p, at)
	if bound, is := errors.AsType[*boundElsewhereError](err); is {
		p.note("RoleBinding "+bound.binding, reasonForeignObject, bound.Error())
		p.wake(p.now.Add(kube.Unwatched))
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.applyDeployment(ctx, p, at, published); err != nil {
		return err
	}
	return r.nudgeCompanion(ctx, p, at, published)
}

func (r *Reconciler) applyCompanionSecret(ctx context.Context, p *pass, at accompanying) (publication.Publication, bool, error) {
	given := p.clusterCA.plan.Publications[trust.MemberID(at.Name)]
	if len(given.Main) == 0 {
		return publication.Publication{}, false, nil // its authority is not written yet
	}
	sans, err := pki.NewSANs(at.Host)
	if err != nil {
		return publication.Publication{}, false, fmt.Errorf("names of %s: %w", at.Name, err)
	}
	keyKey := at.Certificate + ".key"
	settled, found, err := r.settleLeaf(ctx, p, leafRequest{
		secret: at.Secret, certKey: at.certKey(), keyKey: keyKey, labels: p.labelsOf(at),
		subject: pki.Subject{Organization: model.Organization, CommonName: at.CommonName},
		sans:    sans, identity: given.Identity, interim: p.clusterCA.plan.Interim[trust.MemberID(at.Name)],
	})
	if err != nil || !found {
		return publication.Publication{}, false, err
	}
	published := publication.Next(p.published(at.Secret), p.pinOf(at).Revision, publication.Content{
		Leaves:    map[string]*x509.Certificate{publication.NodeIdentity: settled.Chain[0]},
		Chain:     settled.Chain[1:],
		Trust:     roles.Trust(nil, roles.Decided{Cluster: given}, nil),
		Loading:   p.loadingOf(at),
		Operators: p.operator.leaves(),
	}, r.options.Clock.Now())
	encoded, err := published.Encode()
	if err != nil {
		return publication.Publication{}, false, fmt.Errorf("companion %s: %w", at.Name, err)
	}
	err = r.writeSecret(ctx, p, kube.SecretIntent{
		Namespace: p.kafka.Namespace, Name: at.Secret,
		Labels:      p.labelsOf(at),
		Annotations: leafAnnotations(p, settled),
		Owners:      ownerReferences(&p.kafka),
		Data: map[string][]byte{
			at.certKey(): settled.Certificates, keyKey: settled.Key, agent.PublicationKey: encoded,
		},
	})
	return published, err == nil, err
}

// loadingOf tells a companion how to load what is published.
func (p *pass) loadingOf(at accompanying) publication.Loading {
	if at.Loading == publication.LoadByRestart {
		return publication.LoadByRestart
	}
	return p.loading()
}

func (p *pass) labelsOf(at accompanying) map[string]string {
	return p.cluster.ComponentLabels(model.Component{Name: at.Name, Type: at.Type})
}

// place is where the companion runs, without a pin.
func (at accompanying) place(p *pass) companion.Place {
	return companion.Place{
		Namespace: p.kafka.Namespace, Labels: p.labelsOf(at), Owner: ownerReference(&p.kafka),
		TrustSecret: p.cluster.Names.ClusterTrustSecret(),
	}
}

// boundElsewhereError is a Role that would give others the rights of a companion.
type boundElsewhereError struct{ role, binding string }

func (e *boundElsewhereError) Error() string {
	return fmt.Sprintf("RoleBinding %s gives Role %s to others than its ServiceAccount. The Role is not written, and %s is not started or updated. "+
		"Find out who created the RoleBinding, and delete it.", e.binding, e.role, e.role)
}

// applyAccess writes the account of the companion and what it may do, before the pods that need it.
func (r *Reconciler) applyAccess(ctx context.Context, p *pass, at accompanying) error {
	if len(at.Rules) == 0 {
		return nil
	}
	place := at.place(p)
	role := types.NamespacedName{Namespace: p.kafka.Namespace, Name: at.Name}
	binding, err := kube.BoundElsewhere(ctx, r.options.Live, role, at.Rules, at.Name)
	if err != nil {
		return err
	}
	if binding != "" {
		return &boundElsewhereError{at.Name, binding}
	}
	for _, object := range []intended{
		{objectID{serviceAccountKind().GroupKind(), at.Name}, "", rendered(at.ServiceAccount(place))},
		{objectID{roleKind().GroupKind(), at.Name}, "", rendered(at.Role(place))},
		{objectID{roleBindingKind().GroupKind(), at.Name}, "", rendered(at.RoleBinding(place))},
	} {
		if err := r.applyObject(ctx, p, object); err != nil {
			return err
		}
	}
	return nil
}

// applyDeployment writes the companion's Deployment. Its pods are made again when they
// are pinned to another publication, and they are only when they have to be. The pin
// that stays was read before: if it is not the one that stands any more, nothing is
// written, and the next pass sees why.
func (r *Reconciler) applyDeployment(ctx context.Context, p *pass, at accompanying, published publication.Publication) error {
	pinned := p.pinOf(at)
	if pinned.Revision == 0 || p.mustRestart(at, published, pinned) {
		pinned = published
	}
	pin, err := json.Marshal(pinned)
	if err != nil {
		return fmt.Errorf("pinning companion %s: %w", at.Name, err)
	}
	place := at.place(p)
	place.Pin = string(pin)
	deployment := at.Deployment(place)
	id := objectID{deploymentKind().GroupKind(), at.Name}
	if observed, exists := p.objects[id]; exists {
		deployment.WithResourceVersion(observed.ResourceVersion)
	}
	return r.applyObject(ctx, p, intended{id, "", rendered(deployment)})
}

// pinOf is the publication that the pods of a companion start on, zero when there is
// no Deployment, or somebody has made its pin unreadable.
func (p *pass) pinOf(at accompanying) publication.Publication {
	deployment, exists := p.objects[objectID{deploymentKind().GroupKind(), at.Name}]
	if !exists {
		return publication.Publication{}
	}
	var pin publication.Publication
	if err := json.Unmarshal([]byte(deployment.Annotations[agent.PinAnnotation]), &pin); err != nil {
		return publication.Publication{}
	}
	return pin
}

// mustRestart reports whether new pods are needed for what is published: one has not
// loaded it, and loads only at its start, or has tried in vain. A pass that has written
// Secrets leaves that to the next: what it publishes then may need no pods of its own.
func (p *pass) mustRestart(at accompanying, published, pinned publication.Publication) bool {
	if onTheirWay := pinned.Revision >= published.Revision; onTheirWay || p.moved {
		return false
	}
	return slices.ContainsFunc(at.pods, func(pod *corev1.Pod) bool {
		said := p.heard[pod.Name]
		byRestart := published.Loading == publication.LoadByRestart || p.refused(said.report, published)
		return said.known && byRestart && len(publication.Reasons(published, companion.Stores(), said.report)) > 0
	})
}

// nudgeCompanion makes kubelets sync the volumes of the pods.
func (r *Reconciler) nudgeCompanion(ctx context.Context, p *pass, at accompanying, published publication.Publication) error {
	for _, pod := range at.pods {
		if err := r.tell(ctx, p, pod, published, companion.Stores()); err != nil {
			return err
		}
	}
	return nil
}

// cleanUpCompanions takes away the Deployments, accounts and roles of companions that are not wanted any
// more. Their Secrets go with those of nodes that are gone.
func (r *Reconciler) cleanUpCompanions(ctx context.Context, p *pass) error {
	if r.options.Companions == nil {
		return nil
	}
	var left []runtimeclient.Object
	for id, object := range p.objects {
		wanted := slices.ContainsFunc(p.companions, func(at accompanying) bool { return at.Name == id.name })
		if !wanted && object.DeletionTimestamp == nil && ofCompanion(p, id, object) {
			left = append(left, object)
		}
	}
	return each(ctx, left, func(object runtimeclient.Object) error { return r.takeAway(ctx, p, object) })
}

// ofCompanion reports whether an object is one that a companion of the cluster consists of: the Kafka owns it, and it is
// not that of the nodes.
func ofCompanion(p *pass, id objectID, object *metav1.PartialObjectMetadata) bool {
	if id.kind == deploymentKind().GroupKind() {
		_, pinned := object.Annotations[agent.PinAnnotation]
		return pinned
	}
	kinds := []schema.GroupKind{serviceAccountKind().GroupKind(), roleKind().GroupKind(), roleBindingKind().GroupKind()}
	isOwned := slices.ContainsFunc(object.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == p.kafka.UID })
	return slices.Contains(kinds, id.kind) && isOwned && object.Labels[model.NameLabel] == id.name && id.name != p.cluster.Names.Kafka()
}

// factsOfCompanion tells people how far the pod is that is the farthest behind.
func (p *pass) factsOfCompanion(at accompanying) rotation.MemberFacts {
	facts := rotation.MemberFacts{Published: p.published(at.Secret).Revision}
	if chain := p.presents(at.Secret, at.certKey()); len(chain) > 0 {
		facts.Leaf, facts.LeafNotAfter = pki.FingerprintOf(chain[0]).String(), chain[0].NotAfter
	}
	for i, pod := range at.pods {
		said := p.heard[pod.Name]
		switch {
		case !said.known:
			facts.Loaded, facts.Mounted, facts.Trouble = 0, 0, pod.Name+" does not answer"
			return facts
		case i == 0 || said.report.Revision < facts.Loaded:
			facts.Loaded, facts.StartedAt, facts.Trouble = said.report.Revision, said.report.StartedAt, said.report.Reload.Failure
			facts.Mounted = 0
			if said.report.Mounted != nil {
				facts.Mounted = said.report.Mounted.Revision
			}
		}
	}
	return facts
}
