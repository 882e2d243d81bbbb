package controller

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
	"github.com/keyturn/keyturn/internal/window"
)

// pass is one look at a cluster: what was observed, and, step by step, what was
// decided and done about it.
type pass struct {
	*observation

	cluster  model.Cluster
	findings model.Findings
	window   authority.Window
	windows  window.Moment

	clusterCA, clientsCA domain
	// operator is the operator's own identity in this cluster.
	operator operatorIdentity
	// companions run beside the nodes.
	companions []accompanying
	// heard is what the agents of the pods said; silent are ready pods whose
	// agents did not answer.
	heard  map[string]testimony
	silent []string
	// questions are what the servers of the cluster are to be asked.
	questions []question
	// nodes are the certificates of each pod, by pod name.
	nodes map[string]nodeCertificates
	// issued are the leaves, by the names of their Secrets, that are made and not written.
	issued map[string]authority.LeafDecision
	// custom are the listener certificates of users that can be presented.
	custom map[publication.Role]listenercert.Checked
	// undisrupted is true when it is known that nobody has recorded a disruption.
	undisrupted bool
	// asked is what the cluster was resolved from.
	asked model.Input
	// foreign are the objects of others that stand where the cluster's own should.
	foreign []foreignObject
	// occupied says so, unusable why the resources cannot be used, and invalid what is
	// wrong with the authorities, when the cluster is the one that stands.
	occupied, unusable, invalid error
	// moved is true once the pass has written a Secret: what was decided from
	// Secrets is then decided again.
	moved bool
	// recorded is what was written down last of what trust was decided from, by domain, and
	// unrecalled is why it is not known.
	recorded   map[string]rotation.Record
	unrecalled error
	// made is when the pods of members were made, as far as that bounds what records tell of them.
	made map[trust.MemberID]time.Time
	// unrecorded is why it could not be written down what trust was decided from.
	unrecorded error
	// notes are worth a Warning condition besides the findings.
	notes []model.Finding
	// objectOf is what each warning is about, by its message.
	objectOf map[string]object
	// wakeAt are the times at which something falls due.
	wakeAt []time.Time
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

// wake asks for a pass at t.
func (p *pass) wake(t time.Time) {
	if !t.IsZero() {
		p.wakeAt = append(p.wakeAt, t)
	}
}

// note adds a warning.
func (p *pass) note(object, reason, message string) {
	p.notes = append(p.notes, model.Finding{Object: object, Reason: reason, Message: message})
}
