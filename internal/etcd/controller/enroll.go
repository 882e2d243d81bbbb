package controller

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
)

// enroll answers the requests of all pods that were created for members, and publishes to them.
func (p *pass) enroll(ctx context.Context) error {
	ledger := p.ledger()
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if pod == nil || !p.cluster.IsOwned(pod) || string(pod.UID) != member.PodUID {
			continue
		}
		annotations := map[string]string{}
		var signed []enroll.Signed
		for _, plane := range contract.Planes() {
			outcome, err := p.decide(pod, member, plane, ledger)
			if err != nil {
				return err
			}
			annotations[plane.CertificateAnnotation()] = pod.Annotations[plane.CertificateAnnotation()]
			if issued, is := outcome.(enroll.Signed); is {
				annotations[plane.CertificateAnnotation()] = issued.Answer
				ledger[pki.KeyIDOf(issued.Leaf)] = enroll.Holder{PodUID: string(pod.UID), Plane: plane}
				signed = append(signed, issued)
			}
			p.note(pod, plane, outcome)
		}
		published, err := p.writeSecret(ctx, member.Name)
		if err != nil {
			return err
		}
		annotations[agent.PublishedAnnotation] = strconv.FormatInt(published.Revision, 10)
		if err := p.changePod(ctx, pod, member, annotations); err != nil {
			return err
		}
		for _, issued := range signed {
			p.issued(pod, issued)
		}
	}
	return nil
}

// ledger knows the keys of all certificates that pods of the cluster have.
func (p *pass) ledger() enroll.Ledger {
	ledger := enroll.Ledger{}
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if pod == nil || string(pod.UID) != member.PodUID {
			continue
		}
		for _, plane := range contract.Planes() {
			chain, err := enroll.Chain(pod.Annotations[plane.CertificateAnnotation()])
			if err == nil && pki.IssuedBy(chain[0], p.authorities.cas[plane].Certificate()) {
				ledger[pki.KeyIDOf(chain[0])] = enroll.Holder{PodUID: string(pod.UID), Plane: plane}
			}
		}
	}
	return ledger
}

func (p *pass) decide(pod *corev1.Pod, member membership.Member, plane contract.Plane, ledger enroll.Ledger) (enroll.Outcome, error) {
	addresses := make([]string, 0, len(pod.Status.PodIPs))
	for _, address := range pod.Status.PodIPs {
		addresses = append(addresses, address.IP)
	}
	sans, err := p.cluster.SANs(plane, pod.Name, addresses)
	if err != nil {
		return nil, fmt.Errorf("naming member %s: %w", pod.Name, err)
	}
	other := contract.PeerPlane
	if plane == contract.PeerPlane {
		other = contract.ClientPlane
	}
	return enroll.Decide(enroll.Input{
		Pod: enroll.Pod{
			Name: pod.Name, UID: string(pod.UID), Recorded: member.PodUID,
			IsEnding: !pod.DeletionTimestamp.IsZero(), HasAddress: len(addresses) > 0,
		},
		Plane:   plane,
		Request: pod.Annotations[plane.RequestAnnotation()], Answer: pod.Annotations[plane.CertificateAnnotation()],
		Other: pod.Annotations[other.RequestAnnotation()],
		SANs:  sans, Usages: model.Usages(plane), Validity: p.cluster.TLS.LeafValidity,
		CA: p.authorities.cas[plane], Ledger: ledger, Now: p.now,
	}), nil
}

// note keeps what follows from an outcome: when it is due again, and an event about a request that is newly denied.
func (p *pass) note(pod *corev1.Pod, plane contract.Plane, outcome enroll.Outcome) {
	place := denialKey{pod.UID, plane}
	switch outcome := outcome.(type) {
	case enroll.Signed:
		p.wakeAt(outcome.RenewalAt)
	case enroll.Answered:
		p.wakeAt(outcome.RenewalAt)
	case enroll.Denied:
		detail := excerpt.Of(outcome.Detail, excerpt.Foreign)
		p.deny(&model.Problem{Reason: model.RequestDenied, Message: fmt.Sprintf(
			"The %s request of pod %s is denied (%s): %s. The pod gets no new certificate. Its agent must send another request.", plane, pod.Name, outcome.Cause, detail)})
		if p.denials.isNew(place, pod.Annotations[plane.RequestAnnotation()]) {
			p.options.Metrics.denied(string(outcome.Cause))
			p.options.Events.Eventf(p.etcd, pod, corev1.EventTypeWarning, string(outcome.Cause), actionSign,
				"Denied the %s request of pod %s: %s", plane, pod.Name, detail)
		}
		return
	case enroll.Held:
	}
	p.denials.forget(place)
}

// deny reports a denied request unless something else is in the way.
func (p *pass) deny(problem *model.Problem) {
	if p.problem == nil {
		p.problem = problem
	}
}

func (p *pass) issued(pod *corev1.Pod, signed enroll.Signed) {
	p.options.Metrics.issued()
	p.options.Log.Info("issued a certificate", "namespace", pod.Namespace, "pod", pod.Name,
		"serial", signed.Leaf.SerialNumber.Text(16), "reason", signed.Why)
	p.options.Events.Eventf(p.etcd, pod, corev1.EventTypeNormal, "CertificateIssued", actionSign,
		"Issued a certificate by %s for pod %s: %s", signed.Leaf.Issuer.CommonName, pod.Name, signed.Why)
}

// changePod writes annotations and the role of a member into its pod, unless they are there.
func (p *pass) changePod(ctx context.Context, pod *corev1.Pod, member membership.Member, annotations map[string]string) error {
	isCurrent := true
	for key, value := range annotations {
		if value == "" {
			delete(annotations, key)
			continue
		}
		isCurrent = isCurrent && pod.Annotations[key] == value
	}
	intent := coreac.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithAnnotations(annotations)
	if member.IsVoter {
		voter := string(etcdv1beta2.RoleVoter)
		intent.WithLabels(map[string]string{model.RoleLabel: voter})
		isCurrent = isCurrent && pod.Labels[model.RoleLabel] == voter
	}
	if isCurrent {
		return nil
	}
	_, err := p.podAppliers.Of(p.etcd.UID).Apply(ctx, intent, nil)
	return err
}

// denials remembers which requests were denied, so that each is told of once.
type denials struct {
	mu     sync.Mutex
	digest map[denialKey][sha256.Size]byte
}

type denialKey struct {
	pod   types.UID
	plane contract.Plane
}

func newDenials() *denials { return &denials{digest: map[denialKey][sha256.Size]byte{}} }

func (d *denials) isNew(place denialKey, request string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	digest := sha256.Sum256([]byte(request))
	last, known := d.digest[place]
	d.digest[place] = digest
	return !known || last != digest
}

func (d *denials) forget(place denialKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.digest, place)
}
