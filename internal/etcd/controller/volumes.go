package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/operate"
)

// expandAgain is how soon an expansion is tried again that the API server has refused. Nothing tells when a StorageClass
// changes, which the operator has no right to read.
const expandAgain = 5 * time.Minute

// readVolumes reads the claims of members from the cache.
func (p *pass) readVolumes(ctx context.Context) error {
	if p.cluster.Ephemeral() {
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	err := p.options.Client.List(ctx, &claims, client.InNamespace(p.etcd.Namespace), client.MatchingLabels(map[string]string{
		model.ManagedByLabel: model.Manager, model.ClusterLabel: p.etcd.Name,
	}))
	if err != nil {
		return fmt.Errorf("listing the PersistentVolumeClaims of EtcdCluster %s: %w", p.etcd.Name, err)
	}
	p.claims = map[string]*corev1.PersistentVolumeClaim{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		for _, member := range p.members {
			if claim.Name == p.cluster.Names.Claim(member.Name) && p.cluster.IsOwned(claim) && claim.DeletionTimestamp.IsZero() {
				p.claims[member.Name] = claim
			}
		}
	}
	return nil
}

// awaitsMount reports whether the file system of a member grows only under another pod.
func (p *pass) awaitsMount(pod *corev1.Pod) bool {
	claim := p.claims[pod.Name]
	if claim == nil {
		return false
	}
	awaits, at := model.AwaitsMount(claim, pod, p.now)
	p.wakeAt(at)
	return awaits
}

// expandVolumes expands the claims that ask for less than the spec, and keeps what the API server does not expand.
func (p *pass) expandVolumes(ctx context.Context) []error {
	var failed []error
	refused := map[types.UID]refusal{}
	for _, member := range p.members {
		claim := p.claims[member.Name]
		if claim == nil {
			continue
		}
		volume := p.cluster.Volume(claim)
		if volume.Expands && volume.IsBound && !p.cluster.Paused {
			refusal, err := p.expand(ctx, claim, volume, p.memory.refused[claim.UID])
			if err != nil {
				failed = append(failed, err)
			}
			if volume.Refusal = refusal.answer; refusal.answer != "" {
				refused[claim.UID] = refusal
				p.wakeAt(refusal.until)
			}
		}
		p.volumes = append(p.volumes, volume)
	}
	p.memory.refused = refused
	return failed
}

// expand asks for a larger volume, unless that was refused a short while ago.
func (p *pass) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume model.Volume, last refusal) (refusal, error) {
	if last.size == volume.Size.String() && p.now.Before(last.until) {
		return last, nil
	}
	intent := coreac.PersistentVolumeClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithSpec(coreac.PersistentVolumeClaimSpec().
		WithResources(coreac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: volume.Size})))
	_, err := p.memory.objects.Apply(ctx, intent, nil)
	if err == nil || !isRefused(err) {
		return refusal{}, err
	}
	return refusal{volume.Size.String(), excerpt.Of(err.Error(), excerpt.Foreign), p.now.Add(expandAgain)}, nil
}

// tellVolumes writes an event when volumes are not as the spec says, or for another reason than before.
func (p *pass) tellVolumes(wanted etcdv1beta2.EtcdClusterStatus) {
	news := operate.News(p.etcd.Status.Conditions, wanted.Conditions, etcdv1beta2.ConditionVolumesDiffer)
	switch {
	case news == nil:
	case model.Reason(news.Reason) == model.VolumesExpanding:
		p.event(corev1.EventTypeNormal, news.Reason, "%s", news.Message)
	default:
		p.event(corev1.EventTypeWarning, news.Reason, "%s", news.Message)
	}
}

// refusal is what the API server has answered to the expansion of a claim, which is tried again then.
type refusal struct {
	size, answer string
	until        time.Time
}
