package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/rollout"
	"github.com/keyturn/keyturn/internal/kube"
)

// disruptionKey is the key under which the record of a disruption stands in the
// cluster's ConfigMap of that purpose.
const disruptionKey = "disruption.json"

// disruptionRecord is the one object on which every disruption of a cluster is
// recorded before it is done. A lease fences nothing: of two operators that both
// believe to lead, only the one whose write of this object succeeds may act.
type disruptionRecord struct {
	// Disruption is nil when none is in progress.
	Disruption *disruption `json:"disruption,omitempty"`
	// Kind and Reasons tell people what is going on.
	Kind    rollout.ActKind `json:"kind,omitempty"`
	Reasons []string        `json:"reasons,omitempty"`

	// resourceVersion is empty while the object does not exist.
	resourceVersion string
}

// disruption is the stored form of a rollout.Disruption.
type disruption struct {
	Node  rollout.NodeID `json:"node"`
	UID   rollout.UID    `json:"uid"`
	Since time.Time      `json:"since"`
}

// planned is the disruption as the planner wants it.
func (d disruptionRecord) planned() *rollout.Disruption {
	if d.Disruption == nil {
		return nil
	}
	return &rollout.Disruption{Node: d.Disruption.Node, UID: d.Disruption.UID, Since: d.Disruption.Since}
}

// recordOf describes an act before it is done.
func recordOf(act *rollout.Act, now time.Time) disruptionRecord {
	record := disruptionRecord{
		Disruption: &disruption{Node: act.Node, UID: act.UID, Since: now.UTC().Truncate(time.Second)},
		Kind:       act.Kind,
	}
	for _, reason := range act.Reasons {
		record.Reasons = append(record.Reasons, fmt.Sprintf("%s: %s", reason.Code, reason.Note))
	}
	return record
}

// unreadableRecordError is a record of disruptions that says nothing: no pod is restarted
// and none removed, because one may be already, and everything else goes on.
type unreadableRecordError struct {
	record types.NamespacedName
	err    error
}

// Error names the record, and says what to do.
func (e *unreadableRecordError) Error() string {
	return fmt.Sprintf("ConfigMap %s, which records whose pod is being restarted, cannot be read: %v; "+
		"no pod is restarted or removed until it is deleted: delete it when all pods of the cluster are ready", e.record, e.err)
}

func (e *unreadableRecordError) Unwrap() error { return e.err }

func unreadableRecord(err error) bool {
	_, unreadable := errors.AsType[*unreadableRecordError](err)
	return unreadable
}

func disruptionName(cluster string) string { return cluster + "-disruption" }

// disruptionObject is the object that a cluster records its disruptions in.
func disruptionObject(cluster string) objectID {
	return objectID{configMapKind().GroupKind(), disruptionName(cluster)}
}

// readDisruption reads the record from the API server itself. An object not owned by
// the cluster holds no record and is a *foreignObjectsError. A record that cannot be
// read or trusted is an *unreadableRecordError.
func (r *Reconciler) readDisruption(ctx context.Context, o *observation) (disruptionRecord, error) {
	key := types.NamespacedName{Namespace: o.kafka.Namespace, Name: disruptionName(o.kafka.Name)}
	var object corev1.ConfigMap
	err := r.options.Live.Get(ctx, key, &object)
	if apierrors.IsNotFound(err) {
		return disruptionRecord{}, nil
	}
	if err != nil {
		return disruptionRecord{}, fmt.Errorf("reading the disruption record %s: %w", key, err)
	}
	if !o.isOurs(&object) {
		id := disruptionObject(o.kafka.Name)
		return disruptionRecord{}, &foreignObjectsError{cluster: o.kafka.Name, objects: []foreignObject{{id, o.describeOwner(&object), otherOwner(&object, o) == nil}}}
	}
	record := disruptionRecord{}
	if text, found := object.Data[disruptionKey]; found && text != "" {
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			return disruptionRecord{}, &unreadableRecordError{key, err}
		}
	}
	if record.Disruption != nil {
		if err := recordedByOthers(&object); err != nil {
			return disruptionRecord{}, &unreadableRecordError{key, err}
		}
	}
	record.resourceVersion = object.ResourceVersion
	return record, nil
}

// recordedByOthers fails if another client has written the record, or its writer is unknown: a
// removal that the planner has not granted could lose what a broker holds. The operator creates
// the first record of a cluster and applies later ones.
func recordedByOthers(object *corev1.ConfigMap) error {
	own := false
	for _, entry := range object.ManagedFields {
		switch {
		case !recordsDisruption(entry):
		case kube.Writes(entry, fieldOwner):
			own = true
		default:
			return fmt.Errorf("its data were written by %q, and not by the operator", entry.Manager)
		}
	}
	if !own {
		return errRecordOfNobody
	}
	return nil
}

var errRecordOfNobody = errors.New("it is not known who wrote its data, because its managed fields were removed")

func recordsDisruption(entry metav1.ManagedFieldsEntry) bool {
	var fields struct {
		Data struct {
			Record *struct{} `json:"f:disruption.json"`
		} `json:"f:data"`
	}
	return entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil && fields.Data.Record != nil
}

// writeDisruption replaces the record that was read. An AlreadyExists or Conflict error
// means that another client wrote it first: the caller must not disrupt any node then.
func (r *Reconciler) writeDisruption(ctx context.Context, c *desired, read, next disruptionRecord) error {
	text, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("encoding the disruption record: %w", err)
	}
	name := disruptionName(c.kafka.Name)
	if read.resourceVersion == "" {
		return r.createDisruption(ctx, c, name, string(text))
	}
	intent := applycorev1.ConfigMap(name, c.kafka.Namespace).
		WithLabels(c.cluster.ComponentLabels(model.OperatorComponent())).
		WithOwnerReferences(ownerReference(&c.kafka)).
		WithData(map[string]string{disruptionKey: string(text)}).
		WithResourceVersion(read.resourceVersion)
	if _, err := r.appliers.Of(c.kafka.UID).Apply(ctx, intent, nil); err != nil {
		return fmt.Errorf("recording a disruption: %w", err)
	}
	return nil
}

func (r *Reconciler) createDisruption(ctx context.Context, c *desired, name, text string) error {
	object := &corev1.ConfigMap{}
	object.Name, object.Namespace = name, c.kafka.Namespace
	object.Labels = c.cluster.ComponentLabels(model.OperatorComponent())
	object.OwnerReferences = ownerReferences(&c.kafka)
	object.Data = map[string]string{disruptionKey: text}
	if err := r.options.Client.Create(ctx, object, fieldOwner); err != nil {
		return fmt.Errorf("recording a disruption: %w", err)
	}
	return nil
}
