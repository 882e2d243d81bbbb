package controller

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/publication"
)

// enroll answers the requests of all pods that were created for members, and publishes to them. What fails for one
// member keeps no other from its certificates.
func (p *pass) enroll(ctx context.Context) []error {
	p.memory.keepDenied(p.hasPod)
	var failed []error
	for _, member := range p.members {
		switch pod := p.pods[member.Name]; {
		case pod == nil, string(pod.UID) != member.PodUID:
		case p.cluster.IsOrphan(pod):
			if err := p.adopt(ctx, pod, member); err != nil {
				failed = append(failed, err)
			}
		case !p.cluster.IsOwned(pod):
			failed = append(failed, &foreignObjectError{"Pod", pod.Name})
		default:
			if err := p.answer(ctx, pod, member); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return failed
}

// renew renews certificates of members by the CAs that can be used while another one cannot, and changes nothing else.
func (p *pass) renew(ctx context.Context) []error {
	if len(p.authorities.decided) == 0 {
		return nil
	}
	p.attest(ctx)
	var failed []error
	for _, member := range p.members {
		pod := p.pods[member.Name]
		if pod == nil || string(pod.UID) != member.PodUID || !p.cluster.IsOwned(pod) {
			continue
		}
		if err := p.renewPod(ctx, pod, member); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

func (p *pass) renewPod(ctx context.Context, pod *corev1.Pod, member membership.Member) error {
	if err := p.inspect(ctx, pod, ""); err != nil {
		return err
	}
	if err := checkRoom(pod); err != nil {
		return err
	}
	return p.sign(ctx, pod, member, pod.Annotations[agent.PublishedAnnotation])
}

// answer brings a pod up to date. One that asks for no certificates only has a role.
func (p *pass) answer(ctx context.Context, pod *corev1.Pod, member membership.Member) error {
	if p.cluster.Names.Mode != model.Dynamic {
		return p.changePod(ctx, pod, member, map[string]string{})
	}
	if err := p.inspect(ctx, pod, ""); err != nil {
		return err
	}
	return p.enrollPod(ctx, pod, member)
}

// inspect looks at the annotations of a pod before its requests are judged. namespace is empty of a member. What the
// attestation removes from the pod may have a private key.
func (p *pass) inspect(ctx context.Context, pod *corev1.Pod, namespace string) error {
	by := enroll.Owner{UID: string(pod.UID), Namespace: namespace}
	if err := p.recordExposed(ctx, enroll.ExposedIn(pod.Annotations), by); err != nil {
		return err
	}
	return p.attestPod(ctx, pod)
}

// enrollPod publishes to one pod, and answers it.
func (p *pass) enrollPod(ctx context.Context, pod *corev1.Pod, member membership.Member) error {
	if err := checkRoom(pod); err != nil {
		return err
	}
	if err := p.noteGiven(ctx, pod); err != nil {
		return err
	}
	published, err := p.writeSecret(ctx, member.Name)
	if err != nil {
		return err
	}
	return p.sign(ctx, pod, member, strconv.FormatInt(published.Revision, 10))
}

// sign answers the requests of one pod, to which a revision was published. What is signed is in the ledger before it is in the pod.
func (p *pass) sign(ctx context.Context, pod *corev1.Pod, member membership.Member, revision string) error {
	exchange := enroll.ExchangeOf(pod.Annotations)
	outcomes, err := p.decideBoth(pod, member, exchange)
	if err != nil {
		return err
	}
	answers, err := p.recordSigned(ctx, pod, exchange, outcomes)
	if err != nil {
		return err
	}
	annotations := exchange.Annotations(answers)
	annotations[agent.PublishedAnnotation] = revision
	if err := p.changePod(ctx, pod, member, annotations); err != nil {
		return err
	}
	for _, plane := range contract.Planes() {
		if issued, is := outcomes[plane].(enroll.Signed); is {
			p.issued(pod, plane, issued)
		}
	}
	return nil
}

// decideBoth says what becomes of the requests of a pod.
func (p *pass) decideBoth(pod *corev1.Pod, member membership.Member, exchange enroll.Exchange) (map[contract.Plane]enroll.Outcome, error) {
	outcomes := map[contract.Plane]enroll.Outcome{}
	for _, plane := range contract.Planes() {
		outcome, err := p.decide(pod, member, plane, exchange)
		if err != nil {
			return nil, err
		}
		outcomes[plane] = outcome
	}
	return exchange.Together(outcomes), nil
}

// recordSigned writes what is signed for a pod into the ledger, and returns the answers.
func (p *pass) recordSigned(ctx context.Context, pod *corev1.Pod, exchange enroll.Exchange, outcomes map[contract.Plane]enroll.Outcome) (map[contract.Plane]string, error) {
	answers := map[contract.Plane]string{}
	for _, plane := range contract.Planes() {
		p.note(pod, plane, outcomes[plane], exchange.Requests[plane])
		if issued, is := outcomes[plane].(enroll.Signed); is {
			answers[plane] = issued.Answer
			if err := p.record(pod, plane, issued.Leaf); err != nil {
				return nil, err
			}
		}
	}
	if len(answers) == 0 {
		return answers, nil
	}
	return answers, p.writeLedger(ctx)
}

// noteGiven notes on a pod which CAs it is given, before they are: what its etcd may trust is known by nothing else once the
// Secret names others. The note has a field owner of its own, so that nothing else that is applied removes it.
func (p *pass) noteGiven(ctx context.Context, pod *corev1.Pod) error {
	trust, err := p.trustOf(ctx, pod.Name)
	if err != nil {
		return err
	}
	given, next := givenTo(pod), domains.GivenBy(publication.Publication{Trust: trust.Roles()})
	if given.Covers(next) {
		return nil
	}
	note, err := publication.ParseGiven(pod.Annotations[agent.GivenAnnotation]).With(next).Newest().Encode()
	if err != nil {
		return fmt.Errorf("noting what pod %s is given: %w", pod.Name, err)
	}
	intent := coreac.Pod(pod.Name, pod.Namespace).WithUID(pod.UID).WithAnnotations(map[string]string{agent.GivenAnnotation: note})
	if _, err := p.memory.notes.Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("noting what pod %s is given: %w", pod.Name, err)
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, agent.GivenAnnotation, note)
	return nil
}

// record records what is signed for a member.
func (p *pass) record(pod *corev1.Pod, plane contract.Plane, leaf *x509.Certificate) error {
	given, err := p.authorities.decided.To(pod.Name, plane)
	if err != nil {
		return err
	}
	record := p.ledger.issued.Record
	if p.cluster.TLS.Attestation == etcdv1beta2.AttestationAnnotation {
		record = p.ledger.issued.RecordUnattested
	}
	record(leaf, given.Signer.Certificate(), enroll.Holder{PodUID: string(pod.UID), Plane: plane}, p.now)
	return nil
}

// errNoRoom is a pod into which no certificate can be written: what would be signed for it only fills the ledger.
var errNoRoom = errors.New("its other annotations leave no room for certificates")

// maxAnnotations is how long all annotations of a pod are together in bytes, besides those that the operator writes, and
// well below what the API server accepts.
const maxAnnotations = 224 << 10

func checkRoom(pod *corev1.Pod) error {
	size := 0
	for key, value := range pod.Annotations {
		size += len(key) + len(value)
	}
	for _, plane := range contract.Planes() {
		size -= len(pod.Annotations[plane.CertificateAnnotation()])
	}
	if size-len(pod.Annotations[contract.CertificateAnnotation]) > maxAnnotations {
		return fmt.Errorf("answering pod %s: %w", pod.Name, errNoRoom)
	}
	return nil
}

func (p *pass) decide(pod *corev1.Pod, member membership.Member, plane contract.Plane, exchange enroll.Exchange) (enroll.Outcome, error) {
	addresses := make([]string, 0, len(pod.Status.PodIPs))
	for _, address := range pod.Status.PodIPs {
		addresses = append(addresses, address.IP)
	}
	sans, err := p.cluster.SANs(plane, pod.Name, addresses)
	if err != nil {
		return nil, fmt.Errorf("naming member %s: %w", pod.Name, err)
	}
	given, err := p.authorities.decided.To(pod.Name, plane)
	if err != nil {
		return nil, err
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
		Request: exchange.Requests[plane], Answer: exchange.Answers[plane], Other: exchange.Requests[other],
		IsShared: exchange.IsShared, MayShare: p.cluster.TLS.Attestation == etcdv1beta2.AttestationAnnotation, IsAttested: p.isAttested(pod),
		SANs: sans, Usages: model.Usages(plane), Validity: p.cluster.TLS.LeafValidity,
		CA: given.Signer, Ledger: p.ledger.issued, Now: p.now,
	}), nil
}

// note keeps what follows from an outcome: when it is due again, and an event about a request that is newly denied.
func (p *pass) note(pod *corev1.Pod, plane contract.Plane, outcome enroll.Outcome, request string) {
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
		p.tellOnce(pod, place, outcome.Cause, request, fmt.Sprintf("Denied the %s request of pod %s: %s", plane, pod.Name, detail))
		return
	case enroll.Held:
		if outcome.Until.IsZero() {
			break
		}
		p.wakeAt(outcome.Until)
		p.deny(&model.Problem{Reason: model.Reason(outcome.Cause), Message: fmt.Sprintf(
			"The %s request of pod %s is not signed: %s. Its certificate in use stays. Find what changes the annotations or the addresses of the pod.", plane, pod.Name, outcome.Detail)})
		p.tellOnce(pod, place, outcome.Cause, string(outcome.Cause), fmt.Sprintf("The %s request of pod %s is not signed: %s", plane, pod.Name, outcome.Detail))
		return
	}
	delete(p.memory.denied, place)
}

// tellOnce writes an event about a request that is denied, or held for what others did, once for each content.
func (p *pass) tellOnce(pod *corev1.Pod, place denialKey, cause enroll.Cause, content, text string) {
	if p.memory.isNew(place, content) {
		p.options.Metrics.denied(string(cause))
		p.options.Events.Eventf(p.etcd, concern("Pod", pod.Namespace, pod.Name, place.plane), corev1.EventTypeWarning, string(cause), actionSign, "%s", text)
	}
}

// deny reports a denied request unless something else is in the way.
func (p *pass) deny(problem *model.Problem) {
	if p.problem == nil {
		p.problem = problem
	}
}

func (p *pass) issued(pod *corev1.Pod, plane contract.Plane, signed enroll.Signed) {
	p.options.Metrics.issued()
	p.options.Log.Info("issued a certificate", "namespace", pod.Namespace, "pod", pod.Name,
		"serial", signed.Leaf.SerialNumber.Text(16), "reason", signed.Why)
	p.options.Events.Eventf(p.etcd, concern("Pod", pod.Namespace, pod.Name, plane), corev1.EventTypeNormal, "CertificateIssued", actionSign,
		"Issued a certificate by %s for pod %s: %s", signed.Leaf.Issuer.CommonName, pod.Name, signed.Why)
	if signed.Asked != "" {
		p.options.Events.Eventf(p.etcd, concern("Pod", pod.Namespace, pod.Name, plane), corev1.EventTypeWarning, "RequestNameIgnored", actionSign,
			"The %s request of pod %s has the common name %q. Only its key counts, and the certificate names the pod. See what has sent the request.", plane, pod.Name, excerpt.Of(signed.Asked, excerpt.Foreign))
	}
}

// changePod writes annotations and the role of a member into its pod, unless they are there. A pod that an earlier
// operator has created is taken for one of the present spec.
func (p *pass) changePod(ctx context.Context, pod *corev1.Pod, member membership.Member, annotations map[string]string) error {
	annotations[model.RevisionAnnotation] = cmp.Or(pod.Annotations[model.RevisionAnnotation], p.cluster.PodRevision())
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
	_, err := p.memory.pods.Apply(ctx, intent, nil)
	return err
}
