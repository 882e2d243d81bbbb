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
	"github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// observedCompanion is a companion with the pods that it has, each as the companion alone has it.
type observedCompanion struct {
	companion.Companion

	pods []*corev1.Pod
}

// deployment is the companions that share one, at least one.
type deployment []observedCompanion

func (d deployment) name() string { return d[0].Name }

// group is what the Deployment is rendered from.
func (d deployment) group() companion.Group {
	group := make(companion.Group, 0, len(d))
	for _, at := range d {
		group = append(group, at.Companion)
	}
	return group
}

// deployments are companions by their Deployments.
func deployments(companions []observedCompanion) []deployment {
	var all []deployment
	for _, at := range companions {
		i := slices.IndexFunc(all, func(d deployment) bool { return d.name() == at.Name })
		if i < 0 {
			all = append(all, deployment{at})
			continue
		}
		all[i] = append(all[i], at)
	}
	return all
}

// podsOfDeployment are those of the pods that a Deployment has.
func podsOfDeployment(name string, pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.Labels[model.NameLabel] != name })
}

// pinAnnotations are those with the publications that processes start on.
func pinAnnotations() []string {
	return []string{agent.PinAnnotation, agent.AnnotationOf(agent.TopicOperator, agent.PinAnnotation)}
}

func isPinned(annotations map[string]string) bool {
	return slices.ContainsFunc(pinAnnotations(), func(name string) bool {
		_, pinned := annotations[name]
		return pinned
	})
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
	for _, group := range companion.Groups(r.options.Companions(cluster)) {
		for _, c := range group {
			ids = append(ids, objectID{secretKind().GroupKind(), c.Secret})
		}
		ids = append(ids, objectID{deploymentKind().GroupKind(), group.Name()})
		for _, kind := range accessKinds(group) {
			ids = append(ids, objectID{kind.GroupKind(), group.Name()})
		}
	}
	return ids
}

// accessKinds are the kinds of the objects by which companions may do something.
func accessKinds(group companion.Group) []schema.GroupVersionKind {
	if len(group.Rules()) == 0 {
		return nil
	}
	return []schema.GroupVersionKind{serviceAccountKind(), roleKind(), roleBindingKind()}
}

// findCompanions settles who runs beside the nodes, and finds their pods.
func (r *Reconciler) findCompanions(c *polled) {
	c.companions = nil
	if r.options.Companions == nil {
		return
	}
	for _, named := range r.options.Companions(c.cluster) {
		at := observedCompanion{Companion: named}
		for _, pod := range podsOfDeployment(named.Name, c.others) {
			if own, runs := named.PodOf(pod); runs {
				at.pods = append(at.pods, own)
			}
		}
		c.companions = append(c.companions, at)
	}
}

// companionOf is the companion that a pod belongs to.
func (c *polled) companionOf(pod string) (observedCompanion, bool) {
	for _, at := range c.companions {
		if slices.ContainsFunc(at.pods, func(its *corev1.Pod) bool { return its.Name == pod }) {
			return at, true
		}
	}
	return observedCompanion{}, false
}

// peers are the pods of all processes with an agent, or something that answers as one.
func (c *polled) peers() map[string]*corev1.Pod {
	all := maps.Clone(c.pods)
	for _, at := range c.companions {
		for _, pod := range at.pods {
			all[pod.Name] = pod
		}
	}
	return all
}

// publishedTo is what the Secret of a pod's node or companion says it is to load.
func (c *polled) publishedTo(pod string) publication.Publication {
	if at, is := c.companionOf(pod); is {
		return c.published(at.Secret)
	}
	return c.published(pod)
}

// addressOf says where a pod answers, by which leaves it is recognised, and how much it
// has to tell.
func (c *polled) addressOf(pod *corev1.Pod, leaves map[string][]string) client.Node {
	at, is := c.companionOf(pod.Name)
	if !is {
		node := agentOf(c.cluster.Names, pod, leaves)
		node.Roles = c.rolesOf(pod)
		return node
	}
	return client.Node{
		Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(at.AgentPort()))),
		Name:    at.Host, Leaves: leaves[at.Host],
	}
}

// evidence is what is known of the companion.
func (at observedCompanion) evidence(c *polled) evidence.Companion {
	entry := evidence.Companion{
		Name: at.Member(), Restarts: at.Loading == publication.LoadByRestart,
		Published: c.published(at.Secret), Presents: c.presents(at.Secret, at.certKey()),
	}
	for _, pod := range at.pods {
		reported := c.reports[pod.Name]
		entry.Pods = append(entry.Pods, evidence.Pod{
			Name: pod.Name, Given: givenTo(pod, companion.Stores()),
			State: processStateOf(pod, reported), Report: reported.report, Since: reported.waitingSince(entry.Published, c.now),
		})
	}
	return entry
}

func (at observedCompanion) certKey() string { return at.Certificate + ".crt" }

// applyCompanions writes the Secrets of companions, and then their Deployments.
func (r *Reconciler) applyCompanions(ctx context.Context, c *applied) error {
	return each(ctx, deployments(c.companions), func(d deployment) error { return r.applyDeployed(ctx, c, d) })
}

func (r *Reconciler) applyDeployed(ctx context.Context, c *applied, d deployment) error {
	published, issued, err := r.applyCompanionSecrets(ctx, c, d)
	if err != nil || !issued {
		return err // without a certificate a pod would have nothing to be pinned to
	}
	err = r.applyAccess(ctx, c.desired, d)
	if bound, is := errors.AsType[*boundElsewhereError](err); is {
		c.note("RoleBinding "+bound.binding, reasonForeignObject, bound.Error())
		c.wake(c.now.Add(kube.Unwatched))
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.applyDeployment(ctx, c, d, published); err != nil {
		return err
	}
	return r.triggerKubeletSyncs(ctx, c.observation, d, published)
}

// applyCompanionSecrets writes the Secret of each of the companions, and returns what is published to them in their order.
// The second result is false while one of them has no certificate.
func (r *Reconciler) applyCompanionSecrets(ctx context.Context, c *applied, d deployment) ([]publication.Publication, bool, error) {
	published := make([]publication.Publication, 0, len(d))
	complete := true
	err := each(ctx, d, func(at observedCompanion) error {
		given, issued, err := r.applyCompanionSecret(ctx, c, at)
		published, complete = append(published, given), complete && issued
		return err
	})
	return published, complete, err
}

func (r *Reconciler) applyCompanionSecret(ctx context.Context, c *applied, at observedCompanion) (publication.Publication, bool, error) {
	given := c.clusterCA.Plan.Publications[trust.MemberID(at.Member())]
	if len(given.Main) == 0 {
		return publication.Publication{}, false, nil // its authority is not written yet
	}
	sans, err := pki.NewSANs(at.Host)
	if err != nil {
		return publication.Publication{}, false, fmt.Errorf("names of %s: %w", at.Member(), err)
	}
	keyKey := at.Certificate + ".key"
	settled, found, err := r.settleLeaf(ctx, c, leafRequest{
		secret: at.Secret, certKey: at.certKey(), keyKey: keyKey, labels: c.labelsOf(at),
		subject: pki.Subject{Organization: model.Organization, CommonName: at.CommonName},
		sans:    sans, identity: given.Identity, interim: c.clusterCA.Plan.Interim[trust.MemberID(at.Member())],
	})
	if err != nil || !found {
		return publication.Publication{}, false, err
	}
	published := publication.Next(c.published(at.Secret), c.pinOf(at).Revision, publication.Content{
		Leaves:    map[string]*x509.Certificate{publication.NodeIdentity: settled.Chain[0]},
		Chain:     settled.Chain[1:],
		Trust:     roles.Trust(nil, roles.Decided{Cluster: given}, nil),
		Loading:   c.loadingOf(at),
		Operators: c.operator.leaves(),
	}, r.options.Clock.Now())
	encoded, err := published.Encode()
	if err != nil {
		return publication.Publication{}, false, fmt.Errorf("companion %s: %w", at.Member(), err)
	}
	err = r.writeSecret(ctx, c, kube.SecretIntent{
		Namespace: c.kafka.Namespace, Name: at.Secret,
		Labels:      c.labelsOf(at),
		Annotations: leafAnnotations(c.decided, settled),
		Owners:      ownerReferences(&c.kafka),
		Data: map[string][]byte{
			at.certKey(): settled.Certificates, keyKey: settled.Key, agent.PublicationKey: encoded,
		},
	})
	return published, err == nil, err
}

// loadingOf tells a companion how to load what is published.
func (o *observation) loadingOf(at observedCompanion) publication.Loading {
	if at.Loading == publication.LoadByRestart {
		return publication.LoadByRestart
	}
	return o.loading()
}

func (c *desired) labelsOf(at observedCompanion) map[string]string {
	return c.cluster.ComponentLabels(model.Component{Name: at.Name, Type: at.Type})
}

// place is where the companions run, without pins.
func (d deployment) place(c *desired) companion.Place {
	return companion.Place{
		Namespace: c.kafka.Namespace, Labels: c.labelsOf(d[0]), Owner: ownerReference(&c.kafka),
		TrustSecret: c.cluster.Names.ClusterTrustSecret(),
	}
}

// boundElsewhereError is a Role that would give others the rights of a companion.
type boundElsewhereError struct{ role, binding string }

func (e *boundElsewhereError) Error() string {
	return fmt.Sprintf("RoleBinding %s gives Role %s to others than its ServiceAccount. The Role is not written, and %s is not started or updated. "+
		"Find out who created the RoleBinding, and delete it.", e.binding, e.role, e.role)
}

// applyAccess writes the account of the companions and what it may do, before the pods that need it.
func (r *Reconciler) applyAccess(ctx context.Context, c *desired, d deployment) error {
	group := d.group()
	if len(group.Rules()) == 0 {
		return nil
	}
	place, name := d.place(c), d.name()
	role := types.NamespacedName{Namespace: c.kafka.Namespace, Name: name}
	binding, err := kube.BoundElsewhere(ctx, r.options.Live, role, group.Rules(), name)
	if err != nil {
		return err
	}
	if binding != "" {
		return &boundElsewhereError{name, binding}
	}
	for _, object := range []intended{
		{objectID{serviceAccountKind().GroupKind(), name}, "", rendered(group.ServiceAccount(place))},
		{objectID{roleKind().GroupKind(), name}, "", rendered(group.Role(place))},
		{objectID{roleBindingKind().GroupKind(), name}, "", rendered(group.RoleBinding(place))},
	} {
		if err := r.applyObject(ctx, c, object); err != nil {
			return err
		}
	}
	return nil
}

// applyDeployment writes the Deployment of companions. Its pods are replaced when they
// are pinned to other publications, and they are only when they have to be. The pins
// that stay were read before: if they are not the ones that stand any more, nothing is
// written, and the next reconcile sees why.
func (r *Reconciler) applyDeployment(ctx context.Context, c *applied, d deployment, published []publication.Publication) error {
	place := d.place(c.desired)
	place.Pins = map[string]string{}
	for i, at := range d {
		pinned := c.pinOf(at)
		if pinned.Revision == 0 || c.mustRestart(at, published[i], pinned) {
			pinned = published[i]
		}
		pin, err := json.Marshal(pinned)
		if err != nil {
			return fmt.Errorf("pinning companion %s: %w", at.Member(), err)
		}
		place.Pins[at.PinAnnotation()] = string(pin)
	}
	deployment := d.group().Deployment(place)
	id := objectID{deploymentKind().GroupKind(), d.name()}
	if observed, exists := c.objects[id]; exists {
		deployment.WithResourceVersion(observed.ResourceVersion)
	}
	return r.applyObject(ctx, c.desired, intended{id, "", rendered(deployment)})
}

// pinOf is the publication that the pods of a companion start on, zero when there is
// no Deployment, or its pin is unreadable.
func (o *observation) pinOf(at observedCompanion) publication.Publication {
	deployment, exists := o.objects[objectID{deploymentKind().GroupKind(), at.Name}]
	if !exists {
		return publication.Publication{}
	}
	var pin publication.Publication
	if err := json.Unmarshal([]byte(deployment.Annotations[at.PinAnnotation()]), &pin); err != nil {
		return publication.Publication{}
	}
	return pin
}

// mustRestart reports whether new pods are needed for what is published: one has not
// loaded it, and loads only at its start, or has tried in vain. A reconcile that has written
// Secrets leaves that to the next: what it publishes then may need no pods of its own.
func (c *applied) mustRestart(at observedCompanion, published, pinned publication.Publication) bool {
	if onTheirWay := pinned.Revision >= published.Revision; onTheirWay || c.hasWritten {
		return false
	}
	return slices.ContainsFunc(at.pods, func(pod *corev1.Pod) bool {
		reported := c.reports[pod.Name]
		byRestart := published.Loading == publication.LoadByRestart || c.refused(reported.report, published)
		return reported.known && byRestart && len(rollout.LoadReasons(published, companion.Stores(), reported.report)) > 0
	})
}

// triggerKubeletSyncs makes kubelets sync the volumes of the pods. The notes of all companions in a pod are one apply: each apply
// removes what the previous one has noted.
func (r *Reconciler) triggerKubeletSyncs(ctx context.Context, o *observation, d deployment, published []publication.Publication) error {
	return each(ctx, podsOfDeployment(d.name(), o.others), func(pod *corev1.Pod) error {
		notes, isNew := map[string]string{}, false
		for i, at := range d {
			own, runs := at.PodOf(pod)
			if !runs {
				continue
			}
			note, news, err := noteFor(own, published[i], companion.Stores())
			if err != nil {
				return err
			}
			for annotation, value := range note {
				notes[agent.AnnotationOf(at.Process, annotation)] = value
			}
			isNew = isNew || news
		}
		if !isNew {
			return nil
		}
		return r.noteOn(ctx, o, pod, notes)
	})
}

// cleanUpCompanions takes away the Deployments, accounts and roles of companions that are not wanted any
// more. Their Secrets go with those of nodes that are gone.
func (r *Reconciler) cleanUpCompanions(ctx context.Context, c *applied) error {
	if r.options.Companions == nil {
		return nil
	}
	var left []runtimeclient.Object
	for id, object := range c.objects {
		wanted := slices.ContainsFunc(c.companions, func(at observedCompanion) bool { return at.Name == id.name })
		if !wanted && object.DeletionTimestamp == nil && ofCompanion(c.desired, id, object) {
			left = append(left, object)
		}
	}
	return each(ctx, left, func(object runtimeclient.Object) error { return r.takeAway(ctx, c.observation, object) })
}

// ofCompanion reports whether an object is one that a companion of the cluster consists of: the Kafka owns it, and it is
// not that of the nodes.
func ofCompanion(c *desired, id objectID, object *metav1.PartialObjectMetadata) bool {
	if id.kind == deploymentKind().GroupKind() {
		return isPinned(object.Annotations)
	}
	kinds := []schema.GroupKind{serviceAccountKind().GroupKind(), roleKind().GroupKind(), roleBindingKind().GroupKind()}
	isOwned := slices.ContainsFunc(object.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == c.kafka.UID })
	return slices.Contains(kinds, id.kind) && isOwned && object.Labels[model.NameLabel] == id.name && id.name != c.cluster.Names.Kafka()
}

// factsOfCompanion tells people how far the pod is that is the farthest behind.
func (c *polled) factsOfCompanion(at observedCompanion) rotation.MemberFacts {
	facts := rotation.MemberFacts{Published: c.published(at.Secret).Revision}
	if chain := c.presents(at.Secret, at.certKey()); len(chain) > 0 {
		facts.Leaf, facts.LeafNotAfter = pki.FingerprintOf(chain[0]).String(), chain[0].NotAfter
	}
	for i, pod := range at.pods {
		reported := c.reports[pod.Name]
		switch {
		case !reported.known:
			facts.Loaded, facts.Mounted, facts.Trouble = 0, 0, pod.Name+" does not answer"
			return facts
		case i == 0 || reported.report.Revision < facts.Loaded:
			facts.Loaded, facts.StartedAt, facts.Trouble = reported.report.Revision, reported.report.StartedAt, reported.report.Reload.Failure
			facts.Mounted = 0
			if reported.report.Mounted != nil {
				facts.Mounted = reported.report.Mounted.Revision
			}
		}
	}
	return facts
}
