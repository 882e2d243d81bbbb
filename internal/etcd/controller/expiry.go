package controller

import (
	"crypto/x509"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// trusted are the CAs of the cluster by plane, as far as they have been read.
func (p *pass) trusted() map[contract.Plane][]*x509.Certificate {
	trusted := map[contract.Plane][]*x509.Certificate{}
	if p.cluster.Names.Mode == model.Static {
		for plane, secret := range p.cluster.Static.ByPlane() {
			trusted[plane] = secret.CAs()
		}
	}
	for plane := range p.authorities.cas {
		trusted[plane] = p.authorities.trusted(plane)
	}
	return trusted
}

// presented are the certificates of its members.
func (p *pass) presented() map[contract.Plane][]*x509.Certificate {
	presented := map[contract.Plane][]*x509.Certificate{}
	if p.cluster.Names.Mode == model.Static {
		for plane, secret := range p.cluster.Static.ByPlane() {
			presented[plane] = secret.Chain()
		}
	}
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if pod == nil || string(pod.UID) != member.PodUID {
			continue
		}
		for plane, leaf := range leavesIn(pod) {
			presented[plane] = append(presented[plane], leaf)
		}
	}
	return presented
}

// leavesIn are the certificates that were issued to a pod last.
func leavesIn(pod *corev1.Pod) map[contract.Plane]*x509.Certificate {
	leaves, exchange := map[contract.Plane]*x509.Certificate{}, enroll.ExchangeOf(pod.Annotations)
	for _, plane := range contract.Planes() {
		if chain, err := enroll.Chain(exchange.Answers[plane]); err == nil {
			leaves[plane] = chain[0]
		}
	}
	return leaves
}
