package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// Attestor tells whether the admission policy for pods of members is in force.
type Attestor interface {
	// Verdict is that of a test with the pod of a member, which is repeated with any of these when it is too old.
	Verdict(ctx context.Context, pods ...*corev1.Pod) attestation.Verdict
}

// attest learns whether requests may be signed. Before the first pod there are none.
func (p *pass) attest(ctx context.Context) {
	if p.cluster.TLS.Attestation != etcdv1beta2.AttestationPolicy {
		return
	}
	var pods []*corev1.Pod
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if pod != nil && string(pod.UID) == member.PodUID && pod.DeletionTimestamp.IsZero() {
			pods = append(pods, pod)
		}
	}
	if len(pods) > 0 {
		p.attestation = p.options.Attestor.Verdict(ctx, pods...)
	}
}

// isAttested reports whether none but the pod itself can have written its requests.
func (p *pass) isAttested(pod *corev1.Pod) bool {
	if p.cluster.TLS.Attestation == etcdv1beta2.AttestationAnnotation {
		return true
	}
	return p.attestation.IsEnforced() && pod.Annotations[model.AttestationAnnotation] == p.attestation.Revision
}

// stamp records in a pod that is to be created what policy is in force from its first request on.
func (p *pass) stamp(pod *corev1.Pod) {
	if p.attestation.IsEnforced() {
		pod.Annotations[model.AttestationAnnotation] = p.attestation.Revision
	}
}

// attestPod records in a pod what policy is in force, and removes the requests that others may have written before that:
// the pod asks again. The pod must not have changed since it was read.
func (p *pass) attestPod(ctx context.Context, pod *corev1.Pod) error {
	if !p.attestation.IsEnforced() || p.isAttested(pod) || !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	annotations := map[string]any{model.AttestationAnnotation: p.attestation.Revision}
	for _, key := range enroll.Unattested(pod.Annotations, string(pod.UID), p.ledger.issued) {
		annotations[key] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return fmt.Errorf("encoding the attestation of pod %s: %w", pod.Name, err)
	}
	changed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = p.options.Client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(podOwner))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		p.wakeAt(p.now.Add(again))
		return nil
	case err != nil:
		return fmt.Errorf("recording the attestation of pod %s: %w", pod.Name, err)
	}
	*pod = *changed
	return nil
}

// testEvery is how old a test may be, and testAgain one that has failed. Looked for older ones every testAgain, each
// change of the policy is found within a minute.
const (
	testEvery = 50 * time.Second
	testAgain = 10 * time.Second
)

// testAttestation has the admission policy tested while a cluster needs it, once for all of them.
func (r *Reconciler) testAttestation(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := r.testOnce(ctx); err != nil && ctx.Err() == nil {
			r.options.Log.Error(err, "testing the admission policy")
		}
	}, testAgain)
	return nil
}

// testOnce learns whether the admission policy is in force if a cluster needs it, and has those looked at whose status says something else.
func (r *Reconciler) testOnce(ctx context.Context) error {
	var clusters etcdv1beta2.EtcdClusterList
	if err := r.options.Client.List(ctx, &clusters); err != nil {
		return fmt.Errorf("listing EtcdClusters: %w", err)
	}
	var needing []*etcdv1beta2.EtcdCluster
	for i := range clusters.Items {
		resolved, _ := model.Resolve(&clusters.Items[i], r.options.Settings)
		if resolved.TLS.Attestation == etcdv1beta2.AttestationPolicy {
			needing = append(needing, &clusters.Items[i])
		}
	}
	if len(needing) == 0 {
		r.options.Metrics.notTested()
		return nil
	}
	pods, err := r.memberPods(ctx)
	if err != nil || len(pods) == 0 {
		return err
	}
	verdict := r.options.Attestor.Verdict(ctx, pods...)
	for _, cluster := range needing {
		condition := apimeta.FindStatusCondition(cluster.Status.Conditions, etcdv1beta2.ConditionAttestationEnforced)
		if condition != nil && condition.Reason == string(verdict.Reason) {
			continue
		}
		r.changed.Ring(client.ObjectKeyFromObject(cluster), 0)
	}
	return nil
}

// memberPods are the pods of members of all clusters.
func (r *Reconciler) memberPods(ctx context.Context) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.options.Client.List(ctx, &list, client.MatchingLabels{model.ManagedByLabel: model.Manager}); err != nil {
		return nil, fmt.Errorf("listing pods of members: %w", err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods, nil
}
