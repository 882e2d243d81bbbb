package controller

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/survey"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
	"github.com/keyturn/keyturn/internal/window"
)

// A reconcile is a chain of values: observation → desired → polled → decided → applied. Each holds the previous one, so
// that what takes one of them can read nothing that exists only later.

// desired is the cluster as its resources ask for it, or, where they cannot be used, as it was last.
type desired struct {
	*observation

	cluster  model.Cluster
	findings model.Findings
	window   authority.Window
	windows  window.Moment
	// undisrupted is true when it is known that no disruption is recorded.
	undisrupted bool
	// asked is what the cluster was resolved from.
	asked model.Input
	// foreign are objects not owned by the cluster that have names which it needs.
	foreign []foreignObject
	// custom are the listener certificates of users that can be presented.
	custom map[publication.Role]listenercert.Checked
	// occupied says that there are such, unusable why the resources cannot be used, unfit what listener certificates or topics have
	// against them, and invalid what is wrong with the CAs: then the cluster is the last one that was valid.
	occupied, unusable, unfit, invalid error
}

// polled adds what agents have reported.
type polled struct {
	*desired

	// companions run beside the nodes.
	companions []observedCompanion
	// reports has the reports of agents by pods; silent are ready pods whose agents did not answer.
	reports map[string]agentReport
	silent  []string
	// wasPolled is true once each agent was polled since the operator was started.
	wasPolled bool
}

// decided adds what becomes of both CAs and who trusts them.
type decided struct {
	*polled

	clusterCA, clientsCA domain
	// recorded is what was recorded last of what trust was decided from, by domain, and unrecalled is why it is not known.
	recorded   map[string]rotation.Record
	unrecalled error
	// made is when the pods of members were created, as far as that bounds what records tell of them.
	made map[trust.MemberID]time.Time
}

// applied adds what was written.
type applied struct {
	*decided

	// operator is the operator's own identity in this cluster.
	operator operatorIdentity
	// nodes are the certificates of each pod, by pod name.
	nodes map[string]nodeCertificates
	// issued are the certificates, by the names of their Secrets, that are issued and not written.
	issued map[string]authority.LeafDecision
	// hasWritten is true once a Secret was written: what was decided from Secrets is then decided again.
	hasWritten bool
	// unrecorded is why it could not be recorded what trust was decided from.
	unrecorded error
}

// begin starts a chain in which nothing but the observation is known, and what is remembered of the Kafka.
func begin(o *observation, m *memory) *applied {
	o.memory = m
	return &applied{
		decided: &decided{polled: &polled{desired: &desired{observation: o}}},
		issued:  map[string]authority.LeafDecision{},
	}
}

// operatorIdentity is what the operator presents and what it presented before.
type operatorIdentity struct {
	certificate tls.Certificate
	leaf        *x509.Certificate
}

// nodeCertificates are what one node is to present and trust.
type nodeCertificates struct {
	leaf *x509.Certificate
	// generation is that of the CA that has signed the leaf.
	generation  authority.Generation
	publication publication.Publication
}

// diary is what a reconcile has to say and to ask, at whatever stage it comes up.
type diary struct {
	// notes are worth a Warning condition besides the findings.
	notes []model.Finding
	// objectOf is what each warning is about, by its message.
	objectOf map[string]object
	// wakeAt are the times at which something falls due.
	wakeAt []time.Time
	// questions are what the servers of the cluster are to be asked.
	questions []survey.Question
}

// wake asks for a reconcile at t.
func (d *diary) wake(t time.Time) {
	if !t.IsZero() {
		d.wakeAt = append(d.wakeAt, t)
	}
}

// note adds a warning.
func (d *diary) note(object, reason, message string) {
	d.notes = append(d.notes, model.Finding{Object: object, Reason: reason, Message: message})
}
