package model

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/excerpt"
	kafkamodel "github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/topics"
)

// Decision is what becomes of a topic.
type Decision struct {
	// State is Ready for a topic that is managed, and else why it is left alone.
	State condition.Type
	// Problem is why the topic is not ready, nil when it is; Why is the reason for any other state.
	Problem  *Remark
	Why      Remark
	Warnings []Remark
	// Name and ID are those of the topic in Kafka, empty while there is none that is managed.
	Name, ID string
	// Keep puts the finalizer on the object before anything is changed in Kafka, LetGo removes it when all else is done.
	Keep, LetGo bool
	// Create is the topic to create; nil when none is. Lost is what is said when it existed before.
	Create *topics.New
	Lost   *Remark
	// Partitions are how many the topic shall have; zero when none are added.
	Partitions int32
	Config     topics.ConfigChange
	// Delete is the id of the topic to delete; nil when none is.
	Delete *topics.ID
	// Event is what has happened to a topic that is not told by its status.
	Event *Remark
	// minimum is how many replicas must be in sync, as far as the topic says it; zero where it does not.
	minimum int64
	// Wake is when the next decision is due although nothing changes; zero when never.
	Wake time.Time
}

// Decide says what becomes of a topic whose object is not being deleted.
func Decide(o Observed) Decision {
	d := Decision{State: condition.Ready, Warnings: slices.Clone(o.Unnoticed)}
	switch {
	case !IsManaged(o.Topic):
		d.State, d.LetGo = condition.Unmanaged, true
		d.Why = Remark{Unmanaged, "The annotation " + managedAnnotation + " is false. The topic in Kafka is not changed, and not deleted with this KafkaTopic. " +
			"Remove the annotation to continue."}
		return d
	case IsPaused(o.Topic):
		o.pause(&d, "The topic in Kafka is not changed. ")
		return d
	}
	d.Name, d.ID = Name(o.Topic), o.Topic.Status.TopicID
	o.keepLost(&d)
	if d.Problem = o.obstacle(); d.Problem != nil {
		if o.Kafka == nil {
			d.ID, d.LetGo = "", true
		}
		return d
	}
	if winner := o.winner(); winner != "" {
		d.ID, d.LetGo = "", true
		d.Problem = &Remark{ResourceConflict, fmt.Sprintf("KafkaTopic %s manages topic %s, too, and is older. This KafkaTopic changes nothing in Kafka. "+
			"Delete it, or set spec.topicName to the name of another topic.", winner, shown(d.Name))}
		return d
	}
	d.Keep = true
	if d.Problem = o.Unknown; d.Problem != nil {
		return d
	}
	o.decideTopic(&d)
	d.minimum, _ = topics.Integer(o.wantedConfig()[topics.MinInSync])
	d.warnOfMinimum(o.fewestReplicas())
	o.warnOfSegments(&d)
	return d
}

func (o Observed) pause(d *Decision, consequence string) {
	d.State, d.Name, d.ID = condition.ReconciliationPaused, o.Topic.Status.TopicName, o.Topic.Status.TopicID
	d.Why = Remark{ReconciliationPaused, "The annotation " + kafkamodel.PauseAnnotation + " is true. " + consequence + "Remove the annotation to continue."}
}

// obstacle is why nothing can be done for a topic, whatever Kafka holds.
func (o Observed) obstacle() *Remark {
	name := Name(o.Topic)
	switch {
	case o.Kafka == nil:
		return &Remark{MissingKafka, fmt.Sprintf("Kafka %s does not exist in namespace %s. The topic is not created. Create the Kafka, or correct the label %s.",
			o.Cluster, o.Topic.Namespace, kafkamodel.ClusterLabel)}
	case !topics.IsName(name):
		return &Remark{NotSupported, fmt.Sprintf("Kafka takes no topic of the name %s. The topic is not created. "+
			"Set spec.topicName to at most 249 characters of a to z, A to Z, 0 to 9, dot, underscore and hyphen.", shown(name))}
	case o.longText() != "":
		return &Remark{NotSupported, fmt.Sprintf("The property %s of spec.config has a name or a value of more than %d bytes. The topic is not changed. "+
			"Shorten it: beyond %d bytes brokers close the connection.", shown(o.longText()), maxText, 1<<15-1)}
	default:
		return nil
	}
}

// maxText is how long the name or the value of a property may be. Kafka stores texts with a length of 15 bits, and adds to some.
const maxText = 16 << 10

// longText is the name of the first property that is too long; empty when there is none.
func (o Observed) longText() string {
	for _, key := range slices.Sorted(maps.Keys(o.Topic.Spec.Config)) {
		if len(key) > maxText || len(o.Topic.Spec.Config[key]) > maxText {
			return key
		}
	}
	return ""
}

// shown is the name of a topic as messages have it.
func shown(name string) string { return excerpt.Of(name, excerpt.Value) }

// winner is the name of the KafkaTopic that manages the topic in place of this one; empty when this one does. The older one does,
// and of two of the same second the one whose topic is known.
func (o Observed) winner() string {
	best := o.Topic
	for _, other := range o.Others {
		if IsManaged(other) && other.DeletionTimestamp.IsZero() && Name(other) == Name(o.Topic) && precedes(other, best) {
			best = other
		}
	}
	if best == o.Topic {
		return ""
	}
	return best.Name
}

// decideTopic makes the topic in Kafka what it shall be.
func (o Observed) decideTopic(d *Decision) {
	if o.Held == nil {
		o.decideCreation(d)
		return
	}
	d.ID = o.Held.ID.String()
	if before := o.knownID(); before != "" && before != d.ID {
		lost := Remark{TopicRecreated, fmt.Sprintf("Topic %s was deleted in Kafka and created again: it has the id %s in place of %s. "+
			"The records that it had are lost. Find out what has deleted it.", shown(d.Name), d.ID, before)}
		d.loses(lost, o.Now)
		d.Event = &lost
	}
	d.Problem = o.unsupported(d)
	d.Config = o.configChange()
	if o.knownID() == "" {
		d.Event = o.adoption(d.Config)
	}
}

// adoption tells what becomes of the properties of a topic that others have created; nil when they stay.
func (o Observed) adoption(change topics.ConfigChange) *Remark {
	if change.IsNone() {
		return nil
	}
	text := fmt.Sprintf("Kafka had topic %s before this KafkaTopic, which changes its properties.", shown(Name(o.Topic)))
	if set := slices.Sorted(maps.Keys(change.Set)); len(set) > 0 {
		text += " It sets, as in spec.config: " + excerpt.List(set, ", ", excerpt.Listed) + "."
	}
	if len(change.Remove) > 0 {
		text += " It removes, as spec.config does not name them: " + excerpt.List(change.Remove, ", ", excerpt.Listed) + "."
	}
	return &Remark{TopicAdopted, text}
}

func (o Observed) decideCreation(d *Decision) {
	spec := o.Topic.Spec
	if topics.HoldsState(d.Name) {
		d.Problem = &Remark{NotSupported, fmt.Sprintf("Kafka creates topic %s itself when it first needs it. The topic is not created. "+
			"It is managed once it exists.", d.Name)}
		return
	}
	d.Create = &topics.New{Name: d.Name, Partitions: topics.Default, Replicas: topics.Default, Config: o.wantedConfig()}
	if spec.Partitions != nil {
		d.Create.Partitions = *spec.Partitions
	}
	if spec.Replicas != nil {
		d.Create.Replicas = int16(max(min(*spec.Replicas, 1<<15-1), 1))
	}
	if o.knownID() != "" {
		d.Lost = &Remark{TopicRecreated, fmt.Sprintf("Topic %s was deleted in Kafka, and not by the topic operator. It is created again and is empty: "+
			"the records that it had are lost. Find out what has deleted it.", shown(d.Name))}
	}
}

// unsupported adds partitions, and says what of the wish cannot be fulfilled. All else is done.
func (o Observed) unsupported(d *Decision) *Remark {
	spec, held := o.Topic.Spec, o.Held
	var problems []string
	if wanted := wantedName(o.Topic); wanted != d.Name {
		problems = append(problems, fmt.Sprintf("Topic %s cannot be renamed to %s. Set spec.topicName to %s, or create another KafkaTopic.",
			shown(d.Name), shown(wanted), shown(d.Name)))
	}
	if problem := o.changePartitions(d); problem != "" {
		problems = append(problems, problem)
	}
	if policy, isSet := o.wantedConfig()[topics.CleanupPolicy]; isSet && topics.HoldsState(d.Name) && !topics.SameValue(topics.CleanupPolicy, policy, held.Config[topics.CleanupPolicy]) {
		problems = append(problems, fmt.Sprintf("Brokers need what topic %s holds, and lose it with another %s. That is not changed. Remove it from spec.config.",
			d.Name, topics.CleanupPolicy))
	}
	if spec.Replicas != nil && (*spec.Replicas != int32(held.Fewest) || *spec.Replicas != int32(held.Most)) {
		problems = append(problems, fmt.Sprintf("The partitions have %s, and the topic operator does not change that to %d. "+
			"Where replicas are being moved, wait until that has ended. Else move them with kafka-reassign-partitions.sh, or set spec.replicas to %d.",
			replicas(*held), *spec.Replicas, held.Most))
	}
	if len(problems) == 0 {
		return nil
	}
	return &Remark{NotSupported, excerpt.List(problems, " ", excerpt.Listed) + " All other changes are made."}
}

// changePartitions adds partitions, or says why it does not; empty when nothing keeps it from that.
func (o Observed) changePartitions(d *Decision) string {
	wanted, held := o.Topic.Spec.Partitions, o.Held.Partitions
	switch {
	case wanted == nil || *wanted == held:
		return ""
	case *wanted < held:
		return fmt.Sprintf("The topic has %d partitions, and Kafka cannot reduce them to %d. Set spec.partitions to %d, "+
			"or delete the KafkaTopic with its records and create it again.", held, *wanted, held)
	case topics.HoldsState(d.Name):
		return fmt.Sprintf("Brokers find what topic %s holds by the number of its partitions, which is %d. None are added. Set spec.partitions to %d.", d.Name, held, held)
	case *wanted-held > topics.MostPartitions:
		return fmt.Sprintf("The topic has %d partitions, and at most %d are added at a time: more of them can stop the controllers of Kafka. "+
			"Set spec.partitions to at most %d, and raise it again later.", held, topics.MostPartitions, held+topics.MostPartitions)
	default:
		d.Partitions = *wanted
		return ""
	}
}

func replicas(held topics.Topic) string {
	if held.Fewest == held.Most {
		return counted(int64(held.Most), "replica", "replicas")
	}
	return fmt.Sprintf("%d to %d replicas", held.Fewest, held.Most)
}

func counted(count int64, one, several string) string {
	return fmt.Sprintf("%d %s", count, excerpt.Numbered(int(count), one, several))
}

func (o Observed) wantedConfig() map[string]string {
	config := make(map[string]string, len(o.Topic.Spec.Config))
	for key, value := range o.Topic.Spec.Config {
		config[key] = string(value)
	}
	return config
}

// configChange undoes what others have set, but not for topics of Kafka's own: without what brokers set there, records are lost.
func (o Observed) configChange() topics.ConfigChange {
	change := topics.DiffConfig(o.Held.Config, o.wantedConfig())
	if topics.IsInternal(Name(o.Topic)) {
		change.Remove = nil
	}
	if topics.HoldsState(Name(o.Topic)) {
		delete(change.Set, topics.CleanupPolicy)
	}
	return change
}

func (d *Decision) warn(remark Remark) { d.Warnings = append(d.Warnings, remark) }

// wake keeps the earliest time that is still to come.
func (d *Decision) wake(now, at time.Time) {
	if at.After(now) && (d.Wake.IsZero() || at.Before(d.Wake)) {
		d.Wake = at
	}
}
