package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/records"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// recallRecords reads what was recorded last about the CAs, by the operator before this one, once.
func (p *pass) recallRecords(ctx context.Context) error {
	if p.records.Knows(p.etcd.UID) {
		return nil
	}
	name := p.cluster.Names.Record()
	stored, err := p.configMap(ctx, name)
	if err != nil {
		return err
	}
	var data map[string][]byte
	if stored != nil {
		uid, isOfACluster := stored.Labels[model.ClusterUIDLabel]
		if !isOfACluster {
			return &foreignRecordError{p.options.Namespace + "/" + name}
		}
		if uid == string(p.etcd.UID) {
			data = stored.BinaryData
		}
	}
	words := map[string]*rotation.Words{}
	for _, plane := range contract.Planes() {
		words[domains.Recorded(plane)] = domains.Words(p.etcd.Namespace, plane)
	}
	pods := map[string]types.UID{}
	for name, pod := range p.pods {
		pods[name] = pod.UID
	}
	p.records.Recall(p.etcd.UID, records.Parse(data, p.etcd.Name, words, p.now), pods)
	p.isRecalled = true
	return nil
}

// foreignRecordError is a ConfigMap in the place of the record.
type foreignRecordError struct{ name string }

func (e *foreignRecordError) Error() string {
	return fmt.Sprintf("ConfigMap %s is no record of a cluster", e.name)
}

func (e *foreignRecordError) problem() *model.Problem {
	return &model.Problem{Reason: model.ForeignObject, Message: fmt.Sprintf(
		"ConfigMap %s is no record of a cluster. It is not changed, and kubectl keyturn plan shows nothing of this one. Members and their certificates do not depend on it. Delete the ConfigMap.", e.name)}
}

// madeAt is since when the pods of members are known as they are.
func (p *pass) madeAt() map[trust.MemberID]time.Time {
	made := map[trust.MemberID]time.Time{}
	for name, pod := range p.pods {
		made[trust.MemberID(name)] = p.records.Made(p.etcd.UID, records.Pod{Name: name, UID: pod.UID, Created: pod.CreationTimestamp.Time}, p.now)
	}
	return made
}

// versionsOf are the resource versions of Secrets in the operator's namespace.
func (p *pass) versionsOf(names ...string) map[string]string {
	versions := map[string]string{}
	for _, name := range names {
		if secret := p.authorities.secrets[name]; secret != nil {
			versions["Secret "+name] = secret.ResourceVersion
		}
	}
	return versions
}

// recordCAs records what the CAs were decided from, for people and the plans that they ask for. What members trust is not decided
// from it: the next operator takes from it since when a member is waited for, and how long restarts take.
func (p *pass) recordCAs(ctx context.Context) error {
	seen := p.authorities.seen
	if seen == nil || p.unrecalled != nil {
		return p.unrecalled
	}
	isWhole := len(p.authorities.decided) == len(contract.Planes())
	if !isWhole || !p.arePolled() { // what was recorded before says more
		return nil
	}
	p.measure(seen)
	latest := make([]rotation.Record, 0, len(contract.Planes()))
	for _, plane := range contract.Planes() {
		if decided := p.authorities.decided[plane]; decided != nil {
			latest = append(latest, p.records.Latest(p.etcd.UID, seen.Record(plane, decided), decided.Plan))
		}
	}
	if !p.records.HasNew(p.etcd.UID) {
		return nil
	}
	data, err := records.Encode(latest)
	if data == nil {
		return fmt.Errorf("recording the CAs: %w", err)
	}
	if err != nil { // too long, whatever is tried again
		p.event(corev1.EventTypeWarning, reasonNotRecorded, "kubectl keyturn plan shows nothing of a CA: %s", excerpt.Of(err.Error(), excerpt.Foreign))
	}
	return p.writeRecord(ctx, data)
}

// reasonNotRecorded is that of the event that tells of a record with more than a ConfigMap holds.
const reasonNotRecorded = "TrustNotRecorded"

func (p *pass) writeRecord(ctx context.Context, data map[string][]byte) error {
	labels, err := p.privateLabels(ctx)
	if err != nil {
		return err
	}
	intent := coreac.ConfigMap(p.cluster.Names.Record(), p.options.Namespace).WithLabels(labels).WithBinaryData(data)
	if _, err := p.memory.objects.Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("recording the CAs: %w", err)
	}
	p.records.Wrote(p.etcd.UID)
	return nil
}

// removeRecord deletes the record of a cluster that is being deleted.
func (p *pass) removeRecord(ctx context.Context) error {
	stored, err := p.configMap(ctx, p.cluster.Names.Record())
	if err != nil || stored == nil || stored.Labels[model.ClusterUIDLabel] != string(p.etcd.UID) {
		return err
	}
	return kube.Delete(ctx, p.options.Client, stored)
}
