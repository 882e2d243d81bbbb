package controller

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/api/unknownfields"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
)

// Reasons of conditions. Those that the model and the authorities give are
// theirs.
const (
	reasonCreating            = "Creating"
	reasonCertificatesExpired = "CertificatesExpired"
	reasonRotationBlocked     = "RotationBlocked"
	reasonPodsNotReady        = "PodsNotReady"
	reasonFailed              = "ReconciliationFailed"
	reasonUnknownFields       = "UnknownFields"
	reasonAuthority           = "CertificateAuthority"
	reasonListenerCertificate = "ListenerCertificate"
	reasonWindows             = "MaintenanceTimeWindows"
	reasonSilent              = "AgentSilent"
	reasonProgressing         = "Progressing"
	reasonBlocked             = "Blocked"
	reasonPaused              = "ReconciliationPaused"
	reasonMoreWarnings        = "MoreWarnings"
	reasonHiddenCertificates  = "ListenerCertificatesNotShown"
	reasonNotRecorded         = "TrustNotRecorded"
	reasonClock               = "ClockDiffers"
)

// conditionRollingUpdate is True while nodes are to be restarted or removed; its
// message says which, and who is waited for.
const conditionRollingUpdate condition.Type = "RollingUpdate"

// wanted is a condition that holds, before it has a time.
type wanted struct {
	kind            condition.Type
	reason, message string
	// status is True when it is empty.
	status condition.Status
}

func holds(kind condition.Type, reason, message string) wanted {
	return wanted{kind: kind, reason: reason, message: message}
}

func notReady(reason, message string) wanted {
	return wanted{kind: condition.NotReady, reason: reason, message: message}
}

// conditions gives each wanted condition the time at which it began: that of the
// same condition in the present status, or now.
func (p *pass) conditions(list []wanted) []condition.Condition {
	return conditionsSince(list, p.kafka.Status.Conditions, p.now)
}

func conditionsSince(list []wanted, before []condition.Condition, now time.Time) []condition.Condition {
	list = withinStatus(list)
	out := make([]condition.Condition, 0, len(list))
	for _, w := range list {
		c := condition.Condition{
			Type: w.kind, Status: cmp.Or(w.status, condition.True), Reason: w.reason, Message: w.message,
			LastTransitionTime: now.UTC().Format(time.RFC3339),
		}
		at := slices.IndexFunc(before, func(old condition.Condition) bool {
			return old.Type == c.Type && old.Reason == c.Reason && old.Status == c.Status
		})
		if at >= 0 {
			c.LastTransitionTime = before[at].LastTransitionTime
		}
		out = append(out, c)
	}
	return out
}

// warnings are the findings, the notes, and the fields nobody acts on, by object.
func (p *pass) warnings() []wanted {
	var list []wanted
	for _, finding := range slices.Concat(p.findings.Warnings, p.notes) {
		list = append(list, holds(condition.Warning, finding.Reason, finding.String()))
	}
	for _, kind := range kinds() {
		for _, warning := range p.domain(kind).Warnings {
			list = append(list, holds(condition.Warning, reasonAuthority, warning)) // it names its object
		}
	}
	list = append(list, p.silence()...)
	list = append(list, p.apartWarnings()...)
	if fields := unknownfields.InSpec[kafkav1.Kafka](p.written); len(fields) > 0 {
		list = append(list, holds(condition.Warning, reasonUnknownFields, ignoredFields("Kafka "+p.kafka.Namespace+"/"+p.kafka.Name, fields)))
	}
	return list
}

// silence says whose agents do not answer, or answer what nobody reads.
func (p *pass) silence() []wanted {
	var list []wanted
	var silent []string
	for _, pod := range p.silent {
		if why := p.heard[pod].unreadable; why != "" {
			list = append(list, holds(condition.Warning, reasonSilent, "Pod "+pod+": "+why))
			continue
		}
		silent = append(silent, pod)
	}
	if len(silent) > 0 {
		list = append(list, holds(condition.Warning, reasonSilent, fmt.Sprintf(
			"the agents of pods %s do not answer the operator, so nobody knows what their servers trust and present: "+
				"see whether something keeps the operator from port %d of the pods", excerpt.List(silent, ", ", excerpt.Listed), contract.SecurePort)))
	}
	return list
}

func ignoredFields(object string, fields []string) string {
	return fmt.Sprintf("%s: these fields are kept and not acted on: %s", object, excerpt.List(fields, ", ", excerpt.Listed))
}

// writeStatus writes the status of the Kafka when it differs from the present one.
func (r *Reconciler) writeStatus(ctx context.Context, p *pass, status kafkav1.KafkaStatus) error {
	if reflect.DeepEqual(status, p.kafka.Status) {
		return nil
	}
	err := r.applyStatus(ctx, p, kafkav1.KindKafka, &p.kafka, &status)
	if err != nil {
		return err
	}
	r.announce(p, status.Conditions)
	p.kafka.Status = status
	return nil
}

// announce tells of warnings and failures that were not there before.
func (r *Reconciler) announce(p *pass, after []condition.Condition) {
	for _, c := range after {
		if c.Type != condition.Warning && c.Type != condition.NotReady || c.Reason == reasonCreating {
			continue
		}
		same := func(old condition.Condition) bool { return old.Type == c.Type && old.Reason == c.Reason }
		if !slices.ContainsFunc(p.kafka.Status.Conditions, same) {
			r.events.conditionChanged(&p.kafka, c.Reason, c.Message)
		}
	}
}

func (r *Reconciler) applyStatus(ctx context.Context, p *pass, kind string, object client.Object, status any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return fmt.Errorf("encoding the status of %s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	intent := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kafkav1.GroupVersion.String(),
		"kind":       kind,
		"metadata": map[string]any{
			"name": object.GetName(), "namespace": object.GetNamespace(), "uid": string(object.GetUID()),
		},
		"status": fields,
	}}
	return r.appliers.Of(p.kafka.UID).ApplyStatus(ctx, client.ApplyConfigurationFromUnstructured(intent))
}

// writePoolStatuses writes what the pools' own statuses say of their nodes.
func (r *Reconciler) writePoolStatuses(ctx context.Context, p *pass) error {
	for i := range p.pools {
		resource := p.pools[i]
		pool, found := p.cluster.Pool(resource.Name)
		if !found {
			continue
		}
		status := p.cluster.PoolStatus(pool)
		status.ObservedGeneration = resource.Generation
		status.Conditions = conditionsSince(poolWarnings(resource), resource.Status.Conditions, p.now)
		if equalPoolStatus(status, resource.Status) {
			continue
		}
		if err := r.applyStatus(ctx, p, kafkav1.KindKafkaNodePool, &resource.KafkaNodePool, &status); err != nil {
			return err
		}
	}
	return nil
}

func poolWarnings(resource *pool) []wanted {
	fields := unknownfields.InSpec[kafkav1.KafkaNodePool](resource.written)
	if len(fields) == 0 {
		return nil
	}
	object := "KafkaNodePool " + resource.Namespace + "/" + resource.Name
	return []wanted{holds(condition.Warning, reasonUnknownFields, ignoredFields(object, fields))}
}

// equalPoolStatus takes an empty list for an absent one, as the API server does.
func equalPoolStatus(a, b kafkav1.KafkaNodePoolStatus) bool {
	if len(a.Conditions) == 0 && len(b.Conditions) == 0 {
		a.Conditions, b.Conditions = nil, nil
	}
	return reflect.DeepEqual(a, b)
}
