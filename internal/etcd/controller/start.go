package controller

import (
	"context"
	"fmt"

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
		if err := p.markClaim(ctx, member.Name); err != nil {
			failed = append(failed, err)
			continue
		}
		if start, err := contract.ParseStart(pod.Annotations[contract.StartAnnotation]); err == nil && start.HasJoined {
			continue
		}
		if err := p.setStart(ctx, member.Name, model.Start{HasJoined: true, Members: []string{member.Name}}); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// markClaim records on the claim of a member that it has joined: a cluster that has lost its status begins with the data
// that there are.
func (p *pass) markClaim(ctx context.Context, member string) error {
	claim, url := p.claims[member], p.cluster.Names.PeerURL(member)
	if claim == nil || claim.Annotations[model.JoinedAnnotation] == url {
		return nil
	}
	intent := coreac.PersistentVolumeClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithAnnotations(map[string]string{model.JoinedAnnotation: url})
	if _, err := p.startAppliers.Of(p.etcd.UID).Apply(ctx, intent, nil); err != nil {
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
	if _, err := p.startAppliers.Of(p.etcd.UID).Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("recording how etcd starts in pod %s: %w", member, err)
	}
	return nil
}
