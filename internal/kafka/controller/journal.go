package controller

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kstatus"
)

// journal writes into the operator's log what people are told on the Kafka itself, where
// events are gone after an hour and conditions show only the present.
type journal struct {
	log logr.Logger
}

func (j journal) of(kafka *kafkav1.Kafka) logr.Logger {
	return j.log.WithValues("kafka", kafka.Namespace+"/"+kafka.Name)
}

// event writes down an event that announces no condition.
func (j journal) event(kafka *kafkav1.Kafka, related runtime.Object, reason, action, note string) {
	j.of(kafka).Info("event", "reason", reason, "action", action, "about", nameOf(related), "note", note)
}

// nameOf names what an event is about, as people write it.
func nameOf(related runtime.Object) string {
	switch object := related.(type) {
	case *corev1.ObjectReference:
		return object.Kind + " " + object.Name
	case *corev1.Pod:
		return "Pod " + object.Name
	default:
		return ""
	}
}

// conditions writes down how the conditions of a Kafka differ from those before: each
// that is new or says something else, and each that holds no more. Of each message is
// known what it is about, if it is about an object.
func (j journal) conditions(kafka *kafkav1.Kafka, before, after []condition.Condition, objectOf map[string]object) {
	log := j.of(kafka)
	reported := func(c condition.Condition) bool {
		return slices.ContainsFunc(before, func(old condition.Condition) bool { return sameWords(old, c) })
	}
	for _, c := range after {
		if !reported(c) && !kstatus.IsDerived(string(c.Type)) {
			log.Info("condition", "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
		}
	}
	for _, old := range before {
		stays := func(c condition.Condition) bool {
			return sameWords(old, c) || !reported(c) && succeeds(c, old, objectOf[c.Message])
		}
		if !kstatus.IsDerived(string(old.Type)) && !slices.ContainsFunc(after, stays) {
			log.Info("condition no longer holds", "type", old.Type, "reason", old.Reason, "message", old.Message)
		}
	}
}

func sameWords(a, b condition.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// succeeds reports whether a condition that is new stands in the place of one before it.
// Warnings stand beside each other, so only one of the same reason about the same object
// takes the place of another.
func succeeds(c, old condition.Condition, about object) bool {
	if c.Type != condition.Warning {
		return c.Type == old.Type
	}
	return c.Type == old.Type && c.Reason == old.Reason && about.isIn(old.Message, c.Message)
}
