package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/records"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// record writes down what trust was decided from, for people and the plans they ask for.
// Whom to trust is not decided from it, and so nothing waits for it: what keeps it from being
// written is told, and the pass is repeated. The next operator takes from it only since when
// somebody is waited for, and how long restarts and reloads take.
func (r *Reconciler) record(ctx context.Context, p *pass) {
	p.unrecorded = r.applyRecord(ctx, p)
	if p.unrecorded != nil && !lostRace(p.unrecorded) {
		p.note("ConfigMap "+rotation.ConfigMapName(p.kafka.Name), reasonNotRecorded,
			"the record for `kubectl keyturn plan` and `status` cannot be written, so they show something older or nothing: "+p.unrecorded.Error())
	}
}

// recordAgain is how soon it is tried again to write down what could not be; zero when
// trying alone does not help.
func recordAgain(failure error) time.Duration {
	_, long := errors.AsType[*rotation.TooLongError](failure)
	switch {
	case failure == nil, long:
		return 0
	case lostRace(failure):
		return lookAgain
	default:
		return recordPause
	}
}

// recordPause is how long after a failure it is tried again to write a record.
const recordPause = 5 * time.Second

// applyRecord writes the records that are short enough.
func (r *Reconciler) applyRecord(ctx context.Context, p *pass) error {
	if p.unrecalled != nil {
		return p.unrecalled
	}
	latest := make([]rotation.Record, 0, len(kinds()))
	for _, kind := range kinds() {
		latest = append(latest, r.records.Latest(p.kafka.UID, p.recordOf(kind), p.domain(kind).Plan))
	}
	data, long := records.Encode(latest)
	if data == nil {
		return fmt.Errorf("recording the trust of Kafka %s/%s: %w", p.kafka.Namespace, p.kafka.Name, long)
	}
	name := rotation.ConfigMapName(p.kafka.Name)
	intent := coreac.ConfigMap(name, p.kafka.Namespace).
		WithLabels(p.cluster.ComponentLabels(model.OperatorComponent())).
		WithOwnerReferences(ownerReference(&p.kafka)).
		WithData(data)
	if err := r.applyObject(ctx, p, intended{objectID{configMapKind().GroupKind(), name}, "", rendered(intent)}); err != nil {
		return err
	}
	return long
}

// recallRecords finds what was written down last of the cluster: by this operator, or by the
// one before it. Without that, each operator would write again what says the same but for its
// times, so that one that ends at every write would come no further, and people would be told
// that a rotation began, and that somebody is waited for, since the operator was started.
func (r *Reconciler) recallRecords(ctx context.Context, p *pass) error {
	if !r.records.Knows(p.kafka.UID) {
		found, err := r.readRecords(ctx, p)
		if err != nil {
			return err
		}
		r.records.Recall(p.kafka.UID, found, p.podUIDs())
	}
	p.recorded, p.made = r.records.Of(p.kafka.UID), r.madeAt(p)
	return nil
}

// podUIDs are the pods of all members, by name.
func (p *pass) podUIDs() map[string]types.UID {
	uids := make(map[string]types.UID, len(p.pods))
	p.ofMembers(func(_ trust.MemberID, pod *corev1.Pod) { uids[pod.Name] = pod.UID })
	return uids
}

// madeAt is since when the pods of members are known as they are, of several the last one.
func (r *Reconciler) madeAt(p *pass) map[trust.MemberID]time.Time {
	made := make(map[trust.MemberID]time.Time, len(p.pods))
	p.ofMembers(func(member trust.MemberID, pod *corev1.Pod) {
		at := r.records.Made(p.kafka.UID, records.Pod{Name: pod.Name, UID: pod.UID, Created: pod.CreationTimestamp.Time}, p.now)
		if at.After(made[member]) {
			made[member] = at
		}
	})
	return made
}

// ofMembers calls yield for each pod of each member.
func (p *pass) ofMembers(yield func(trust.MemberID, *corev1.Pod)) {
	for name, pod := range p.pods {
		yield(trust.MemberID(name), pod)
	}
	for _, at := range p.companions {
		for _, pod := range at.pods {
			yield(trust.MemberID(at.Member()), pod)
		}
	}
}

// readRecords reads what the operator before this one wrote down.
func (r *Reconciler) readRecords(ctx context.Context, p *pass) (map[string]rotation.Record, error) {
	var stored corev1.ConfigMap
	exists, err := r.find(ctx, p.observation, rotation.ConfigMapName(p.kafka.Name), &stored)
	if err != nil {
		return nil, err
	}
	if !exists || !p.isOurs(&stored) {
		return map[string]rotation.Record{}, nil
	}
	words := map[string]*rotation.Words{}
	for _, kind := range kinds() {
		words[string(kind)] = authorities.Words()
	}
	return records.Parse(stored.Data, p.kafka.Name, words, p.now), nil
}

func (p *pass) recordOf(kind authorities.Kind) rotation.Record {
	d := p.domain(kind)
	record := d.Record(authorities.Words(), p.kafka.Name, string(kind))
	record.Versions = p.versions(kind)
	for _, member := range d.Snapshot.Members {
		record.Members[member.ID] = p.factsOf(string(member.ID))
	}
	return record
}

// versions are the resource versions of the Secrets that were decided from.
func (p *pass) versions(kind authorities.Kind) map[string]string {
	versions := map[string]string{}
	note := func(name string) {
		if secret, found := p.secrets[name]; found {
			versions["Secret "+name] = secret.ResourceVersion
		}
	}
	note(kind.KeySecret(p.kafka.Name))
	note(kind.CertSecret(p.kafka.Name))
	note(kind.TrustedCertsSecret(p.kafka.Name))
	for _, node := range p.cluster.Nodes {
		note(node.Pod)
	}
	for _, at := range p.companions {
		note(at.Secret)
	}
	return versions
}

// factsOf tells people how far a member is.
func (p *pass) factsOf(member string) rotation.MemberFacts {
	i := slices.IndexFunc(p.companions, func(at accompanying) bool { return at.Member() == member })
	if i >= 0 {
		return p.factsOfCompanion(p.companions[i])
	}
	facts := rotation.MemberFacts{Published: p.published(member).Revision}
	if member == string(evidence.OperatorMember) && p.operator.leaf != nil {
		facts.Leaf, facts.LeafNotAfter = pki.FingerprintOf(p.operator.leaf).String(), p.operator.leaf.NotAfter
		return facts
	}
	for _, load := range p.clusterCA.Plan.Loads {
		if string(load.Member) == member && !load.Due.IsZero() {
			facts.RestartDue = load.Due
		}
	}
	said := p.heard[member]
	if !said.known {
		if _, exists := p.pods[member]; exists {
			facts.Trouble = "its agent does not answer"
		}
		return facts
	}
	facts.Loaded, facts.StartedAt = said.report.Revision, said.report.StartedAt
	if said.report.Mounted != nil {
		facts.Mounted = said.report.Mounted.Revision
	}
	facts.Trouble = said.report.Reload.Failure
	facts.Leaf, facts.LeafNotAfter = presented(said)
	return facts
}

// presented is the leaf that a node shows on its inter-broker listener, or to the
// quorum if it has none.
func presented(said testimony) (leaf string, notAfter time.Time) {
	for _, listener := range []publication.Role{contract.ReplicationListener, contract.ControlPlaneListener} {
		if role, found := said.report.Roles[listener]; found {
			return role.Presents, role.NotAfter
		}
	}
	return "", time.Time{}
}
