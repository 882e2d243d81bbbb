package controller

import (
	"context"
	"crypto/tls"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// readStatic reads the Secrets of a static cluster, and checks them for the members that run and for those to come.
func (p *pass) readStatic(ctx context.Context) (*model.Problem, error) {
	secrets := p.cluster.Static
	p.wakeAt(p.now.Add(kube.Unwatched)) // a watch would need the right to all Secrets of the namespace
	for _, secret := range secrets.All() {
		stored, err := p.secret(ctx, p.inNamespace(secret.Name))
		if err != nil {
			return nil, err
		}
		secret.Data = dataOf(stored)
	}
	if problem := p.cluster.CheckStatic(p.now); problem != nil {
		return problem, nil
	}
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if pod == nil || string(pod.UID) != member.PodUID {
			continue
		}
		if problem := secrets.CheckTrusted(member.Name, pod.Annotations[model.TrustAnnotation], p.now); problem != nil {
			return problem, nil
		}
	}
	return nil, nil //nolint:nilnil // having no problem is no error
}

// identity is how the operator connects to members, nil without TLS.
func (p *pass) identity() *tls.Config {
	switch p.cluster.Names.Mode {
	case model.Static:
		return p.cluster.Static.Client()
	case model.Insecure:
		return nil
	default:
		return p.authorities.client()
	}
}

// mayRun reports whether etcd may run in a pod: with certificates from Secrets it starts with the container.
func (p *pass) mayRun(pod *corev1.Pod) bool {
	if p.cluster.Names.Mode == model.Dynamic {
		return hasAnswer(pod) || isReady(pod)
	}
	return etcdIn(pod).State.Running != nil || isReady(pod)
}

// isStale reports whether a pod was started with other CAs than those in the Secrets now.
func (p *pass) isStale(pod *corev1.Pod) bool {
	return p.cluster.Names.Mode == model.Static && pod.Annotations[model.TrustAnnotation] != p.cluster.Static.Trust()
}
