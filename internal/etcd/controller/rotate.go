package controller

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/membership"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
)

// maxDecisions is how often the CAs are decided about in one reconcile: what is written is decided from again, before anything
// is given to a member.
const maxDecisions = 4

// rotateCAs decides what becomes of the CAs, writes their Secrets, and decides again from what is written.
func (p *pass) rotateCAs(ctx context.Context) (*model.Problem, error) {
	operator, err := p.private(ctx, p.cluster.Names.OperatorSecret())
	if err != nil {
		return nil, err
	}
	p.authorities.operator = identityIn(dataOf(operator))
	if err := p.readPublished(ctx); err != nil {
		return nil, err
	}
	p.unrecalled = p.recallRecords(ctx)
	var problem *model.Problem
	for isWritten, left := true, maxDecisions; isWritten && left > 0; left-- {
		if isWritten, problem, err = p.decideAndWrite(ctx); err != nil {
			return nil, err
		}
	}
	for _, at := range p.authorities.decided.WakeAt() {
		p.wakeAt(at)
	}
	if client := p.authorities.decided[contract.ClientPlane]; client == nil || len(client.Problems) > 0 {
		return problem, nil
	}
	return problem, p.keepOperator(ctx, operator)
}

// decideAndWrite decides about the CA of each plane, and reports whether Secrets were written by that. What is in the way of one CA
// keeps no other from being decided about.
func (p *pass) decideAndWrite(ctx context.Context) (isWritten bool, problem *model.Problem, err error) {
	if err := p.decideCAs(ctx); err != nil {
		return false, nil, err
	}
	for plane, decided := range p.authorities.decided.Each() {
		if len(decided.Problems) > 0 {
			problem = cmp.Or(problem, unusable(plane, decided.Problems))
			continue
		}
		isNew, err := p.writeCA(ctx, plane, decided)
		if err != nil {
			return false, nil, err
		}
		isWritten = isWritten || isNew
	}
	return isWritten, problem, nil
}

// decideCAs decides about the CA of each plane that is not held from what is read.
func (p *pass) decideCAs(ctx context.Context) error {
	p.authorities.seen = p.seenOfCAs()
	for _, plane := range contract.Planes() {
		if p.authorities.isHeld[plane] {
			continue
		}
		decided, err := p.decideCA(ctx, p.authorities.seen, plane)
		if err != nil {
			return err
		}
		p.authorities.decided[plane] = decided
	}
	return nil
}

// maxDemands is how many things a decision demands: a parent, and then a key.
const maxDemands = 2

// errDemanding is a decision that demands again what it has.
var errDemanding = errors.New("it demands what it has")

// decideCA decides about the CA of a plane, with what the decision demands. While the operator's CA cannot sign, none is made.
func (p *pass) decideCA(ctx context.Context, seen *domains.Seen, plane contract.Plane) (*domain.Decided, error) {
	making := seen.Making(plane)
	for range maxDemands + 1 {
		decided, err := seen.Decide(plane, making)
		if err != nil || decided.Demand == nil {
			return decided, err
		}
		if decided.Demand.Parent {
			parent, problem, err := p.operatorCA(ctx, plane, p.cluster.TLS.CAValidity[plane])
			if err != nil {
				return nil, err
			}
			if problem != nil {
				p.deny(problem)
				return seen.Decide(plane, nil)
			}
			making.Parent = parent
		}
		if decided.Demand.Key != nil {
			if making.Key, err = pki.GenerateKey(*decided.Demand.Key); err != nil {
				return nil, fmt.Errorf("making the key of the %s CA: %w", plane, err)
			}
		}
	}
	return nil, fmt.Errorf("deciding about the %s CA: %w", plane, errDemanding)
}

// unusable is a CA whose Secrets a person has to put right.
func unusable(plane contract.Plane, problems []authority.Problem) *model.Problem {
	texts := make([]string, 0, len(problems))
	for _, problem := range problems {
		texts = append(texts, problem.String())
	}
	return &model.Problem{Reason: model.CAUnusable, Message: fmt.Sprintf(
		"The %s CA cannot be used: %s. %s", plane, strings.Join(texts, "; "), model.Standing)}
}

// writeCA writes the Secrets of a CA in the order after which a crash in between is recognised, and reports whether any of
// them has changed.
func (p *pass) writeCA(ctx context.Context, plane contract.Plane, decided *domain.Decided) (isWritten bool, err error) {
	secrets, transitions, err := decided.Secrets()
	if err != nil {
		return false, err
	}
	labels, err := p.privateLabels(ctx)
	if err != nil {
		return false, err
	}
	for _, secret := range secrets {
		before := p.authorities.secrets[secret.Name]
		written, err := kube.WriteSecret(ctx, p.options.Client, fieldOwner, before, kube.SecretIntent{
			Namespace: p.options.Namespace, Name: secret.Name, Labels: labels,
			Annotations: secret.Annotations, RemoveAnnotations: secret.RemoveAnnotations, Data: secret.Data,
		})
		if err != nil {
			return false, err
		}
		isWritten = isWritten || before == nil || before.ResourceVersion != written.ResourceVersion
		p.authorities.secrets[secret.Name] = &written
	}
	for _, transition := range transitions {
		p.tellTransition(plane, transition)
	}
	return isWritten, nil
}

func (p *pass) tellTransition(plane contract.Plane, transition authority.Transition) {
	p.options.Log.Info("the CA has changed", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name, "plane", plane, "what", transition.Kind, "why", transition.Why)
	p.options.Events.Eventf(p.etcd, concern("Secret", p.options.Namespace, p.cluster.Names.CACertSecret(plane), plane), corev1.EventTypeNormal, string(transition.Kind), actionReconcile,
		"The %s CA: %s", plane, transition.Why)
}

// readPublished reads the Secrets of members past the cache, which holds none.
func (p *pass) readPublished(ctx context.Context) error {
	p.secrets = map[string]*corev1.Secret{}
	for _, member := range p.serving() {
		secret, err := p.secret(ctx, p.inNamespace(member.Name))
		if err != nil {
			return err
		}
		p.secrets[member.Name] = secret
	}
	return nil
}

// seenOfCAs is what the CAs are decided from.
func (p *pass) seenOfCAs() *domains.Seen {
	seen := &domains.Seen{
		Cluster: p.cluster, Secrets: map[contract.Plane]domains.Secrets{}, Operator: p.authorities.operator.chain,
		Ledger: p.ledger.issued, Clients: p.clients, Before: p.records.Of(p.etcd.UID), Made: p.madeAt(), Now: p.now,
	}
	names := p.cluster.Names
	for _, plane := range contract.Planes() {
		seen.Secrets[plane] = domains.Secrets{
			Key: p.storedCA(names.CAKeySecret(plane)), Cert: p.storedCA(names.CACertSecret(plane)), Trusted: p.storedCA(names.TrustedCertsSecret(plane)),
			Versions: p.versionsOf(names.CAKeySecret(plane), names.CACertSecret(plane), names.TrustedCertsSecret(plane)),
		}
	}
	latest, known := p.poller.Latest(names.NamespacedName()), domains.Named{}
	for _, plane := range contract.Planes() {
		for _, anchor := range p.anchors(plane) {
			known[plane] = append(known[plane], pki.FingerprintOf(anchor).String())
		}
	}
	for _, member := range p.serving() {
		pod := p.pods[member.Name]
		if pod != nil && string(pod.UID) != member.PodUID {
			pod = nil
		}
		each := domains.Member{Name: member.Name, Published: p.publishedTo(member.Name, known), IsLeaving: member.IsLeaving}
		if pod == nil {
			each.State = evidence.Absent
		} else {
			each.Given, each.Chains = givenTo(pod), p.chainsOf(pod)
			each.State, each.Report, each.Since = p.processState(member, latest)
		}
		seen.Members = append(seen.Members, each)
	}
	for _, name := range p.coming {
		seen.Members = append(seen.Members, domains.Member{Name: name, Published: p.publishedTo(name, known), State: evidence.Absent})
	}
	return seen
}

func (p *pass) storedCA(name string) authority.Stored {
	secret := p.authorities.secrets[name]
	if secret == nil {
		return authority.Stored{}
	}
	return authority.Stored{Exists: true, Data: secret.Data, Annotations: secret.Annotations}
}

// publishedTo is what a member was told last, by its Secret and by what is noted on its pod.
func (p *pass) publishedTo(member string, known domains.Named) publication.Publication {
	notes := domains.Notes{}
	if pod := p.pods[member]; pod != nil {
		notes = domains.Notes{Given: givenTo(pod), Told: told(pod)}
	}
	secret := p.secrets[member]
	if secret == nil || !p.cluster.IsOwned(secret) && !p.cluster.IsOrphan(secret) {
		return notes.Published(publication.Publication{}, known)
	}
	published, err := publicationIn(secret)
	if err != nil { // it is written again
		published = publication.Publication{}
	}
	return notes.Published(published, known)
}

// chainsOf are the certificates that a pod was issued last, as far as the ledger has them, too.
func (p *pass) chainsOf(pod *corev1.Pod) map[contract.Plane][]*x509.Certificate {
	chains, exchange := map[contract.Plane][]*x509.Certificate{}, enroll.ExchangeOf(pod.Annotations)
	for _, plane := range contract.Planes() {
		chain, err := enroll.Chain(exchange.Answers[plane])
		if err == nil && p.ledger.issued.HasLeaf(chain[0], enroll.Holder{PodUID: string(pod.UID), Plane: plane}) {
			chains[plane] = chain
		}
	}
	return chains
}

// processState is what is known of the etcd of a member, and since when.
func (p *pass) processState(member membership.Member, latest map[types.UID]reports.Report[publication.Report]) (evidence.ProcessState, publication.Report, time.Time) {
	pod := p.pods[member.Name]
	known, isPolled := latest[pod.UID]
	switch {
	case hasEnded(pod), !hasAnswer(pod) && !p.ledger.issued.HasPod(string(pod.UID)): // etcd does not start without certificates
		return evidence.Absent, publication.Report{}, pod.CreationTimestamp.Time
	case isPolled && known.Answer != nil:
		return evidence.Running, *known.Answer, known.Since
	case isPolled:
		return evidence.Unknown, publication.Report{}, known.Since
	default:
		return evidence.Unknown, publication.Report{}, pod.CreationTimestamp.Time
	}
}

// trustOf is what a member is to trust. One that is only now to come is decided about first.
func (p *pass) trustOf(ctx context.Context, member string) (model.Trust, error) {
	if !p.authorities.decided.Has(member) {
		p.coming = append(p.coming, member)
		if err := p.decideCAs(ctx); err != nil {
			return model.Trust{}, err
		}
	}
	pod := domains.PodTrust{Stored: map[contract.Plane][]*x509.Certificate{}}
	if of := p.pods[member]; of != nil {
		pod.Pinned = pinOf(of)
	}
	for _, plane := range contract.Planes() {
		pod.Stored[plane] = certificatesIn(dataOf(p.secrets[member])[plane.AnchorsKey()])
	}
	trust, err := p.authorities.decided.Trust(member, pod)
	trust.Operators = p.authorities.operator.chain[:min(len(p.authorities.operator.chain), 1)]
	return trust, err
}

// rotating is what the status says of CAs that are being renewed or replaced.
func (p *pass) rotating() string {
	if p.authorities.seen == nil {
		return ""
	}
	return p.authorities.seen.Rotating(p.authorities.decided)
}

// keepOperator keeps the operator's certificate valid, and by the CA that is to sign it.
func (p *pass) keepOperator(ctx context.Context, stored *corev1.Secret) error {
	ca, err := p.authorities.decided.ToOperator()
	if err != nil {
		return err
	}
	data := map[string][]byte{}
	maps.Copy(data, dataOf(stored))
	if !ca.IsZero() { // its key is at hand
		decision := p.cluster.DecideOperator(ca, data, p.now)
		p.wakeAt(decision.RenewalAt)
		if decision.Act == authority.ReissueLeaf || decision.Act == authority.RechainLeaf {
			p.wakeAt(p.now.Add(p.cluster.TLS.LeafValidity - p.cluster.OperatorRenewal()))
			if data, err = p.issueOperator(ca); err != nil {
				return err
			}
		}
	}
	data[model.OperatorAnchorsEntry] = pki.EncodeBundle(p.authorities.trusted(contract.ClientPlane)...)
	if err := p.writePrivate(ctx, stored, p.cluster.Names.OperatorSecret(), data); err != nil {
		return err
	}
	p.authorities.operator = identityIn(data)
	return nil
}

func (p *pass) issueOperator(ca pki.Authority) (map[string][]byte, error) {
	key, err := pki.GenerateKey(p.cluster.OperatorKey())
	if err != nil {
		return nil, fmt.Errorf("making the operator's key: %w", err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), p.cluster.OperatorLeaf(p.now))
	if err != nil {
		return nil, fmt.Errorf("issuing the operator's certificate: %w", err)
	}
	chain := append([]*x509.Certificate{leaf}, ca.Presents()...)
	return map[string][]byte{model.OperatorCertEntry: pki.EncodeBundle(chain...), model.OperatorKeyEntry: key.PEM()}, nil
}

// identityIn is the operator's identity in its Secret; zero where that cannot be read, and is issued again.
func identityIn(data map[string][]byte) operatorIdentity {
	chain, err := pki.ParseBundle(data[model.OperatorCertEntry])
	if err != nil {
		return operatorIdentity{}
	}
	key, err := pki.ParsePrivateKey(data[model.OperatorKeyEntry])
	if err != nil {
		return operatorIdentity{}
	}
	return operatorIdentity{chain, key}
}
