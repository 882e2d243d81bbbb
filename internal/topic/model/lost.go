package model

import (
	"slices"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// lostTime is how long the status tells of records that are lost.
const lostTime = 24 * time.Hour

// keepLost keeps a warning about records that are lost: afterwards nothing else shows it.
func (o Observed) keepLost(d *Decision) {
	for _, c := range o.Topic.Status.Conditions {
		since, err := time.Parse(time.RFC3339, c.LastTransitionTime)
		if c.Type != condition.Warning || c.Reason != string(TopicRecreated) || err != nil || !o.Now.Before(since.Add(lostTime)) {
			continue
		}
		d.warn(Remark{TopicRecreated, c.Message})
		d.wake(o.Now, since.Add(lostTime))
	}
}

// loses warns of records that are lost, in place of what was lost before.
func (d *Decision) loses(lost Remark, now time.Time) {
	d.Warnings = slices.DeleteFunc(d.Warnings, func(warning Remark) bool { return warning.Reason == TopicRecreated })
	d.warn(lost)
	d.wake(now, now.Add(lostTime))
}

// Created notes that Kafka has created the topic.
func (d *Decision) Created(topic topics.Topic, now time.Time) {
	d.ID = topic.ID.String()
	if d.Create != nil && d.Create.Replicas == topics.Default {
		d.warnOfMinimum(int64(topic.Fewest))
	}
	if d.Lost != nil {
		d.loses(*d.Lost, now)
		d.Event = d.Lost
	}
}
