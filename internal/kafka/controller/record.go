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

// record writes what trust was decided from, for people and `kubectl keyturn plan`. Trust is not decided
// from it, so a failed write is only reported and retried. The next operator process reads from it
// only since when members are waited for, and how long restarts and reloads take.
func (r *Reconciler) record(ctx context.Context, c *applied) {
	c.unrecorded = r.applyRecord(ctx, c)
	if c.unrecorded != nil && !lostRace(c.unrecorded) {
		c.note("ConfigMap "+rotation.ConfigMapName(c.kafka.Name), reasonNotRecorded,
			"the record for `kubectl keyturn plan` and `status` cannot be written, so they show something older or nothing: "+c.unrecorded.Error())
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
		return retryDelay
	default:
		return recordPause
	}
}

// recordPause is how long after a failure it is tried again to write a record.
const recordPause = 5 * time.Second

// applyRecord writes the records that are short enough. While nothing is new, and the object is as it was, they are not encoded.
func (r *Reconciler) applyRecord(ctx context.Context, c *applied) error {
	if c.unrecalled != nil {
		return c.unrecalled
	}
	latest := make([]rotation.Record, 0, len(kinds()))
	for _, kind := range kinds() {
		latest = append(latest, r.records.Latest(c.kafka.UID, c.recordOf(kind), c.domain(kind).Plan))
	}
	id := objectID{configMapKind().GroupKind(), rotation.ConfigMapName(c.kafka.Name)}
	version := c.versionOf(id)
	if !r.records.HasNew(c.kafka.UID) && version != "" && version == c.memory.recorded {
		return nil
	}
	data, long := records.Encode(latest)
	if data == nil {
		return fmt.Errorf("recording the trust of Kafka %s/%s: %w", c.kafka.Namespace, c.kafka.Name, long)
	}
	intent := coreac.ConfigMap(id.name, c.kafka.Namespace).
		WithLabels(c.cluster.ComponentLabels(model.OperatorComponent())).
		WithOwnerReferences(ownerReference(&c.kafka)).
		WithBinaryData(data)
	if err := r.applyObject(ctx, c.desired, intended{id, "", rendered(intent)}); err != nil {
		return err
	}
	if long == nil {
		r.records.Wrote(c.kafka.UID)
		c.memory.recorded = version
	}
	return long
}

// versionOf is the resource version of an object that was observed, empty without one.
func (o *observation) versionOf(id objectID) string {
	if object, exists := o.objects[id]; exists {
		return object.ResourceVersion
	}
	return ""
}

// recallRecords reads the cluster's last records, which this operator process or the previous one wrote.
// Otherwise rotations and waits would seem to begin at the operator's start. Each process would also write
// new times, and one that exits at every write would never progress.
func (r *Reconciler) recallRecords(ctx context.Context, c *decided) error {
	if !r.records.Knows(c.kafka.UID) {
		found, err := r.readRecords(ctx, c.observation)
		if err != nil {
			return err
		}
		r.records.Recall(c.kafka.UID, found, c.podUIDs())
	}
	c.recorded, c.made = r.records.Of(c.kafka.UID), r.madeAt(c.polled)
	return nil
}

// podUIDs are the pods of all members, by name.
func (c *polled) podUIDs() map[string]types.UID {
	uids := make(map[string]types.UID, len(c.pods))
	c.ofMembers(func(_ trust.MemberID, pod *corev1.Pod) { uids[pod.Name] = pod.UID })
	return uids
}

// madeAt is since when the pods of members are known as they are, of several the last one.
func (r *Reconciler) madeAt(c *polled) map[trust.MemberID]time.Time {
	made := make(map[trust.MemberID]time.Time, len(c.pods))
	c.ofMembers(func(member trust.MemberID, pod *corev1.Pod) {
		at := r.records.Made(c.kafka.UID, records.Pod{Name: pod.Name, UID: pod.UID, Created: pod.CreationTimestamp.Time}, c.now)
		if at.After(made[member]) {
			made[member] = at
		}
	})
	return made
}

// ofMembers calls yield for each pod of each member.
func (c *polled) ofMembers(yield func(trust.MemberID, *corev1.Pod)) {
	for name, pod := range c.pods {
		yield(trust.MemberID(name), pod)
	}
	for _, at := range c.companions {
		for _, pod := range at.pods {
			yield(trust.MemberID(at.Member()), pod)
		}
	}
}

// readRecords reads what the operator before this one wrote down.
func (r *Reconciler) readRecords(ctx context.Context, o *observation) (map[string]rotation.Record, error) {
	var stored corev1.ConfigMap
	exists, err := r.getLive(ctx, o, rotation.ConfigMapName(o.kafka.Name), &stored)
	if err != nil {
		return nil, err
	}
	if !exists || !o.isOurs(&stored) {
		return map[string]rotation.Record{}, nil
	}
	words := map[string]*rotation.Words{}
	for _, kind := range kinds() {
		words[string(kind)] = authorities.Words()
	}
	return records.Parse(stored.BinaryData, o.kafka.Name, words, o.now), nil
}

func (c *applied) recordOf(kind authorities.Kind) rotation.Record {
	d := c.domain(kind)
	record := d.Record(authorities.Words(), c.kafka.Name, string(kind))
	record.Versions = c.versions(kind)
	for _, member := range d.Snapshot.Members {
		record.Members[member.ID] = c.factsOf(string(member.ID))
	}
	return record
}

// versions are the resource versions of the Secrets that were decided from.
func (c *polled) versions(kind authorities.Kind) map[string]string {
	versions := map[string]string{}
	note := func(name string) {
		if secret, found := c.secrets[name]; found {
			versions["Secret "+name] = secret.ResourceVersion
		}
	}
	note(kind.KeySecret(c.kafka.Name))
	note(kind.CertSecret(c.kafka.Name))
	note(kind.TrustedCertsSecret(c.kafka.Name))
	for _, node := range c.cluster.Nodes {
		note(node.Pod)
	}
	for _, at := range c.companions {
		note(at.Secret)
	}
	return versions
}

// factsOf tells people how far a member is.
func (c *applied) factsOf(member string) rotation.MemberFacts {
	i := slices.IndexFunc(c.companions, func(at observedCompanion) bool { return at.Member() == member })
	if i >= 0 {
		return c.factsOfCompanion(c.companions[i])
	}
	facts := rotation.MemberFacts{Published: c.published(member).Revision}
	if member == string(evidence.OperatorMember) && c.operator.leaf != nil {
		facts.Leaf, facts.LeafNotAfter = pki.FingerprintOf(c.operator.leaf).String(), c.operator.leaf.NotAfter
		return facts
	}
	for _, load := range c.clusterCA.Plan.Loads {
		if string(load.Member) == member && !load.Due.IsZero() {
			facts.RestartDue = load.Due
		}
	}
	reported := c.reports[member]
	if !reported.known {
		if _, exists := c.pods[member]; exists {
			facts.Trouble = "its agent does not answer"
		}
		return facts
	}
	facts.Loaded, facts.StartedAt = reported.report.Revision, reported.report.StartedAt
	if reported.report.Mounted != nil {
		facts.Mounted = reported.report.Mounted.Revision
	}
	facts.Trouble = reported.report.Reload.Failure
	facts.Leaf, facts.LeafNotAfter = presented(reported.report)
	return facts
}

// presented is the leaf that a node shows on its inter-broker listener, or to the
// quorum if it has none.
func presented(report publication.Report) (leaf string, notAfter time.Time) {
	for _, listener := range []publication.Role{contract.ReplicationListener, contract.ControlPlaneListener} {
		if role, found := report.Roles[listener]; found {
			return role.Presents, role.NotAfter
		}
	}
	return "", time.Time{}
}
