package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// recordStarts records on the claims of members that etcd has that they have joined, and tells their pods then. Until a pod
// has been told, it is not ready, and clients are not sent to a member that would start as a new one if it lost its volume.
func (p *pass) recordStarts(ctx context.Context) []error {
	var failed []error
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if member.ID == "" || pod == nil || string(pod.UID) != member.PodUID || !p.cluster.IsOwned(pod) {
			continue
		}
		if err := p.recordStart(ctx, member.Name, pod); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

func (p *pass) recordStart(ctx context.Context, member string, pod *corev1.Pod) error {
	start, err := contract.ParseStart(pod.Annotations[contract.StartAnnotation])
	isTold, claim := err == nil && start.HasJoined, p.claims[member]
	if claim == nil && !isTold && !p.cluster.Ephemeral() { // the cache is behind, or the claim has lost its labels
		if claim, err = p.findClaim(ctx, member); err != nil {
			return err
		}
	}
	if err := p.markClaim(ctx, member, claim); err != nil || isTold {
		return err
	}
	return p.setStart(ctx, member, model.Start{HasJoined: true, Members: []string{member}})
}

// markClaim records on the claim of a member that it has joined: a cluster that has lost its status begins with the data
// that there are.
func (p *pass) markClaim(ctx context.Context, member string, claim *corev1.PersistentVolumeClaim) error {
	url := p.cluster.Names.PeerURL(member)
	if claim == nil || claim.Annotations[model.JoinedAnnotation] == url {
		return nil
	}
	intent := coreac.PersistentVolumeClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithAnnotations(map[string]string{model.JoinedAnnotation: url})
	if _, err := p.memory.starts.Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("recording on PersistentVolumeClaim %s that its member has joined: %w", claim.Name, err)
	}
	return nil
}

// setStart writes how etcd starts in the pod of a member from its next start on.
func (p *pass) setStart(ctx context.Context, member string, start model.Start) error {
	told, err := p.cluster.StartAnnotation(start)
	if err != nil {
		return err
	}
	pod := p.pods[member]
	intent := coreac.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithAnnotations(map[string]string{contract.StartAnnotation: told})
	if _, err := p.memory.starts.Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("recording how etcd starts in pod %s: %w", member, err)
	}
	return nil
}
