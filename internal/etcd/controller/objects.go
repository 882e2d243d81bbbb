package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/publication"
)

// foreignObjectError is an object in the way that is not the cluster's.
type foreignObjectError struct{ Kind, Name string }

func (e *foreignObjectError) Error() string {
	return fmt.Sprintf("%s %s is not owned by this cluster", e.Kind, e.Name)
}

func (e *foreignObjectError) problem() *model.Problem {
	return &model.Problem{Reason: model.ForeignObject, Message: fmt.Sprintf(
		"%s %s is not owned by this cluster. It is not changed, and members are neither added nor replaced. Delete it, or rename the EtcdCluster.", e.Kind, e.Name)}
}

// unlabelledError is an object that names the cluster as its owner and that the operator did not create.
type unlabelledError struct {
	Kind, Name string
	// HasData is true of a pod that may have the only data of its member.
	HasData bool
}

func (e *unlabelledError) Error() string {
	return fmt.Sprintf("%s %s lacks the labels of this cluster", e.Kind, e.Name)
}

func (e *unlabelledError) problem() *model.Problem {
	remedy := "Delete it: the operator creates it again, and the data of the member stays on its claim."
	if e.HasData {
		remedy = "Find out who took the label off, and set it again. Without that, take a snapshot of etcd in the pod before you delete it."
	}
	return &model.Problem{Reason: model.Reason(membership.UnknownMemberPod), Message: fmt.Sprintf(
		"%s %s has the name of a member and lacks the label %s=%s that the operator gives its pods. It gets no certificate, and members are neither added nor replaced. %s",
		e.Kind, e.Name, model.ManagedByLabel, model.Manager, remedy)}
}

// readPods reads the pods that say they are the cluster's.
func (p *pass) readPods(ctx context.Context, reader client.Reader) error {
	var pods corev1.PodList
	err := reader.List(ctx, &pods, client.InNamespace(p.etcd.Namespace), client.MatchingLabels(map[string]string{
		model.ManagedByLabel: model.Manager, model.ClusterLabel: p.etcd.Name,
	}))
	if err != nil {
		return fmt.Errorf("listing the pods of EtcdCluster %s: %w", p.etcd.Name, err)
	}
	p.pods = map[string]*corev1.Pod{}
	for i := range pods.Items {
		p.pods[pods.Items[i].Name] = &pods.Items[i]
	}
	return nil
}

// readUnlisted reads the pods of recorded members that lack the labels of the cluster. One that the operator has signed for gets
// them back: it may have the only data of its member. The status alone is no proof, which others may write. Other pods are in
// the way of their members.
func (p *pass) readUnlisted(ctx context.Context) (map[string]error, error) {
	others := map[string]error{}
	for _, member := range p.members {
		if p.pods[member.Name] != nil || !slices.Contains(p.memberNames(), member.Name) {
			continue
		}
		pod := &corev1.Pod{}
		err := p.options.Live.Get(ctx, p.inNamespace(member.Name), pod)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading pod %s: %w", member.Name, err)
		case string(pod.UID) == member.PodUID && p.ledger.issued.HasPod(member.PodUID):
			if err := p.label(ctx, pod); err != nil {
				others[member.Name] = err
				continue
			}
			p.pods[member.Name] = pod
		case p.cluster.IsOwned(pod):
			others[member.Name] = &unlabelledError{"Pod", member.Name, model.IsEphemeral(pod)}
		default:
			others[member.Name] = &foreignObjectError{"Pod", member.Name}
		}
	}
	return others, nil
}

// label gives the pod of a member the labels that it was created with, from the state in which it was read.
func (p *pass) label(ctx context.Context, pod *corev1.Pod) error {
	before := pod.DeepCopy()
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, p.cluster.MemberLabels(pod.Name))
	err := p.options.Client.Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
	if err != nil {
		return fmt.Errorf("giving pod %s its labels back: %w", pod.Name, err)
	}
	p.options.Log.Info("gave a pod its labels back", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name, "pod", pod.Name)
	return nil
}

// hasPod reports whether the cluster has the pod.
func (p *pass) hasPod(pod types.UID) bool {
	for _, present := range p.pods {
		if present.UID == pod {
			return true
		}
	}
	return false
}

// metadataOf reads the metadata of an object, past the cache when the cache does not have it; nil when there is none.
func (r *Reconciler) metadataOf(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	object, err := readMetadata(ctx, r.options.Client, kind, key)
	if err != nil || object != nil {
		return object, err
	}
	return readMetadata(ctx, r.options.Live, kind, key)
}

// readMetadata reads the metadata of an object; nil when the reader has none.
func readMetadata(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	err := reader.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil, client.IgnoreNotFound(err)
	case err != nil:
		return nil, fmt.Errorf("reading metadata of %s %s: %w", kind.Kind, key, err)
	default:
		return object, nil
	}
}

// applyShared applies what members share.
func (p *pass) applyShared(ctx context.Context) []error {
	voters := 0
	for _, member := range p.members {
		if member.IsVoter {
			voters++
		}
	}
	for _, pod := range p.pods {
		switch {
		case p.unlikePod(pod) != "":
			return nil // what is there serves the members that are left
		case p.mayAdopt(pod):
			voters++
		}
	}
	return p.applyEach(ctx, p.etcd, p.cluster.IsOrphan, slices.Concat(p.cluster.Shared(), p.cluster.Protection(voters)))
}

// applyAccounts applies the account of each member that is known.
func (p *pass) applyAccounts(ctx context.Context) []error {
	var failed []error
	for _, member := range p.members {
		if err := p.applyAccount(ctx, member.Name); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// prepare applies what a member has besides its pod and its data, and returns which CAs the pod is created to accept.
func (p *pass) prepare(ctx context.Context, member string) (string, error) {
	switch p.cluster.Names.Mode {
	case model.Static:
		return p.cluster.Static.Trust(), nil
	case model.Insecure:
		return "", nil
	case model.Dynamic:
	}
	if err := p.applyAccount(ctx, member); err != nil {
		return "", err
	}
	published, err := p.writeSecret(ctx, member)
	if err != nil {
		return "", err
	}
	pin, err := published.Encode()
	if err != nil {
		return "", fmt.Errorf("pinning pod %s: %w", member, err)
	}
	return string(pin), nil
}

// applyOwned applies objects that the owner controls, in its namespace, unless one of them cannot be applied. It takes over
// those that were left by an owner of its name.
func (p *pass) applyOwned(ctx context.Context, owner metav1.Object, isOrphan func(metav1.Object) bool, objects []model.Object) error {
	return errors.Join(p.applyEach(ctx, owner, isOrphan, objects)...)
}

// applyEach applies objects that the owner controls, each of them whatever becomes of the others.
func (p *pass) applyEach(ctx context.Context, owner metav1.Object, isOrphan func(metav1.Object) bool, objects []model.Object) []error {
	var failed []error
	for _, object := range objects {
		if err := p.applyOne(ctx, owner, isOrphan, object); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

func (p *pass) applyOne(ctx context.Context, owner metav1.Object, isOrphan func(metav1.Object) bool, object model.Object) error {
	observed, err := p.metadataOf(ctx, object.Kind, types.NamespacedName{Namespace: owner.GetNamespace(), Name: object.Name})
	if err != nil {
		return err
	}
	switch {
	case observed == nil:
		_, err = p.memory.objects.Apply(ctx, object.Intent, nil)
	case !metav1.IsControlledBy(observed, owner) && !isOrphan(observed):
		err = &foreignObjectError{object.Kind.Kind, object.Name}
	default:
		_, err = p.memory.objects.Apply(ctx, object.Intent, observed)
	}
	return err
}

// writeSecret writes what a member is to trust.
func (p *pass) writeSecret(ctx context.Context, member string) (publication.Publication, error) {
	stored, err := p.memberSecret(ctx, member)
	if err != nil {
		return publication.Publication{}, err
	}
	var before map[string][]byte
	if stored != nil {
		if !p.cluster.IsOwned(stored) && !p.cluster.IsOrphan(stored) {
			return publication.Publication{}, &foreignObjectError{"Secret", member}
		}
		before = stored.Data
	}
	trust, err := p.trustOf(ctx, member)
	if err != nil {
		return publication.Publication{}, err
	}
	if !trust.IsComplete() {
		return publication.Publication{}, fmt.Errorf("writing Secret %s: %w", member, errNoTrust)
	}
	published, data, err := model.MemberSecret(trust, before, told(p.pods[member]), p.now)
	if err != nil {
		return publication.Publication{}, err
	}
	written, err := kube.WriteSecret(ctx, p.options.Client, fieldOwner, stored, kube.SecretIntent{
		Namespace: p.etcd.Namespace, Name: member, Labels: p.cluster.MemberLabels(member),
		Owners: []metav1.OwnerReference{p.cluster.Owner()}, Data: data,
	})
	if err != nil {
		return publication.Publication{}, err
	}
	p.secrets[member] = &written
	return published, nil
}

// memberSecret is the Secret of a member, which is read once in a reconcile; nil when there is none.
func (p *pass) memberSecret(ctx context.Context, member string) (*corev1.Secret, error) {
	if stored, isRead := p.secrets[member]; isRead {
		return stored, nil
	}
	stored, err := p.secret(ctx, p.inNamespace(member))
	if err == nil {
		p.secrets[member] = stored
	}
	return stored, err
}

// errNoTrust is a plane in which a member is to trust nothing. Its Secret stays as it is.
var errNoTrust = errors.New("no CA of a plane is known")

func publicationIn(secret *corev1.Secret) (publication.Publication, error) {
	return publication.ParsePublication(secret.Data[agent.PublicationKey])
}

// pinOf is the publication that a pod was created under; zero where it cannot be read.
func pinOf(pod *corev1.Pod) publication.Publication {
	pin, err := publication.ParsePublication([]byte(pod.Annotations[agent.PinAnnotation]))
	if err != nil {
		return publication.Publication{}
	}
	return pin
}

// givenTo are the CAs that a pod was created to accept, and those that it was given since.
func givenTo(pod *corev1.Pod) publication.Given {
	return domains.GivenBy(pinOf(pod)).With(publication.ParseGiven(pod.Annotations[agent.GivenAnnotation]))
}

// told is the newest revision that a pod is known to have.
func told(pod *corev1.Pod) int64 {
	if pod == nil {
		return 0
	}
	newest, err := strconv.ParseInt(pod.Annotations[agent.PublishedAnnotation], 10, 64)
	if err != nil {
		newest = 0
	}
	return max(pinOf(pod).Revision, newest)
}

// secret reads a Secret past the cache, which holds none; nil when there is none.
func (r *Reconciler) secret(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.options.Live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, client.IgnoreNotFound(err)
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	default:
		return secret, nil
	}
}

// hasAnswer reports whether a pod has a certificate: etcd may run in it.
func hasAnswer(pod *corev1.Pod) bool {
	for _, plane := range contract.Planes() {
		if pod.Annotations[plane.CertificateAnnotation()] != "" {
			return true
		}
	}
	return pod.Annotations[contract.CertificateAnnotation] != ""
}

// isEmptied reports whether the container of etcd has ended because its member has lost its data, and is not started again yet.
func isEmptied(pod *corev1.Pod) bool {
	status := etcdIn(pod)
	ended := status.State.Terminated
	if ended == nil && status.State.Waiting != nil {
		ended = status.LastTerminationState.Terminated
	}
	return ended != nil && contract.ParseStartFailure(ended.Message) == contract.VolumeEmpty
}

// etcdIn is how the container of etcd fares in a pod, to which a webhook may have added others.
func etcdIn(pod *corev1.Pod) corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if status := pod.Status.ContainerStatuses[i]; status.Name == model.EtcdContainer {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// hasEnded reports whether the containers of a pod have ended and are not started again.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// isDown reports whether the container of etcd has started before and no process runs in it now.
func isDown(pod *corev1.Pod) bool {
	status := etcdIn(pod)
	return status.State.Running == nil && status.LastTerminationState.Terminated != nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
