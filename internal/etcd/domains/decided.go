package domains

import (
	"crypto/x509"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/domain"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/enrollment"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// Decided is what becomes of the CAs of a cluster, by plane.
type Decided map[contract.Plane]*domain.Decided

// Each are the CAs that are decided about, in the order of their planes.
func (d Decided) Each() iter.Seq2[contract.Plane, *domain.Decided] {
	return func(yield func(contract.Plane, *domain.Decided) bool) {
		for _, plane := range contract.Planes() {
			if decided := d[plane]; decided != nil && !yield(plane, decided) {
				return
			}
		}
	}
}

// Given is what a member is given in a plane.
type Given struct {
	// Anchors are the CAs that it is to trust.
	Anchors []*x509.Certificate
	// Signer signs its certificates; zero where its key is not at hand.
	Signer pki.Authority
}

// Has reports whether something is planned for a member.
func (d Decided) Has(member string) bool {
	return !slices.ContainsFunc(contract.Planes(), func(plane contract.Plane) bool {
		if d[plane] == nil {
			return true
		}
		_, isPlanned := d[plane].Given(trust.MemberID(member))
		return !isPlanned
	})
}

// To is what a member is given in a plane; zero where its CA is not decided about.
func (d Decided) To(member string, plane contract.Plane) (Given, error) {
	return d.to(trust.MemberID(member), plane)
}

// ToOperator is what the operator presents to members is signed by.
func (d Decided) ToOperator() (pki.Authority, error) {
	given, err := d.to(evidence.OperatorMember, contract.ClientPlane)
	return given.Signer, err
}

func (d Decided) to(member trust.MemberID, plane contract.Plane) (Given, error) {
	if d[plane] == nil {
		return Given{}, nil
	}
	given, _ := d[plane].Given(member)
	if given.Signer.IsZero() { // what the member presents is not known
		given.Signer, given.Crosses = d[plane].Signing()
	}
	signer, err := presenting(given.Signer, given.Crosses)
	return Given{Anchors: given.Main, Signer: signer}, err
}

// Known are all CA certificates of a plane that anything may trust.
func (d Decided) Known(plane contract.Plane) []*x509.Certificate {
	if d[plane] == nil {
		return nil
	}
	return d[plane].Known
}

// Proofs are the CA certificates that show a pod that it may trust what it is given: those that it was created to accept, and
// those that cross-sign each other from there. stored are those that it has, which nothing else may know any more.
func (d Decided) Proofs(plane contract.Plane, pinned []string, stored []*x509.Certificate) []*x509.Certificate {
	var all []*x509.Certificate
	for _, certificate := range slices.Concat(d.Known(plane), d[plane].Crosses, stored) {
		if !slices.ContainsFunc(all, certificate.Equal) {
			all = append(all, certificate)
		}
	}
	return enrollment.Accepted(all, pinned)
}

// Restart is a member whose etcd is to be started again.
type Restart struct {
	Member string
	// IsUrgent is true when what etcd has loaded ends soon, or has ended.
	IsUrgent bool
}

// Restarts are the members whose etcd is to be started again now, sorted.
func (d Decided) Restarts(now time.Time) []Restart {
	var all []*domain.Decided
	for _, decided := range d.Each() {
		all = append(all, decided)
	}
	loads := domain.Restarts(all...)
	restarts := make([]Restart, 0, len(loads))
	for _, load := range loads {
		restarts = append(restarts, Restart{Member: string(load.Member), IsUrgent: load.IsUrgent(now)})
	}
	return restarts
}

// mostNamed is how many applications and backups a text names.
const mostNamed = 3

// rotating says of which CAs more than one is known to members, and what is waited for; empty when there is none.
func (d Decided) rotating() string {
	var texts []string
	for plane, decided := range d.Each() {
		if decided.Pending == nil && len(decided.Trusted()) < 2 {
			continue
		}
		text := fmt.Sprintf("The %s CA is being renewed or replaced.", plane)
		if waits := waitsOf(decided); len(waits) > 0 {
			text += " It is " + strings.Join(waits, "; ") + "."
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}

// waitsOf is what a plane waits for, each as people say it.
func waitsOf(decided *domain.Decided) []string {
	waits := rotation.Waiting(decided.Plan.Blockers, decided.Snapshot.Members)
	former := make([]string, 0, len(decided.Former()))
	for _, holder := range decided.Former() {
		former = append(former, string(holder))
	}
	if len(former) > 0 {
		waits = append(waits, "waiting for "+excerpt.First(former, mostNamed, ", "))
	}
	return waits
}

// WakeAt are the times at which something is due although nothing changes.
func (d Decided) WakeAt() []time.Time {
	var due []time.Time
	for _, decided := range d {
		due = append(due, decided.RenewalAt, decided.Plan.Deadline)
		for _, load := range decided.Plan.Loads {
			due = append(due, load.Due)
		}
		if len(decided.Former()) > 0 {
			due = append(append(due, decided.HeldUpAt()), decided.HoldersEnd()...)
		}
	}
	return due
}

// GivenBy are the CAs that a publication gives to etcd, by domain.
func GivenBy(p publication.Publication) publication.Given {
	return publication.GivenBy(p, Stores(), Of(contract.ClientPlane))
}

// Trust is what a member is to trust, with what shows its pod that it may.
func (d Decided) Trust(member string, pod PodTrust) (model.Trust, error) {
	given := model.Trust{Anchors: map[contract.Plane][]*x509.Certificate{}, Proofs: map[contract.Plane][]*x509.Certificate{}}
	for _, plane := range contract.Planes() {
		to, err := d.To(member, plane)
		if err != nil {
			return model.Trust{}, err
		}
		given.Anchors[plane], given.Proofs[plane] = to.Anchors, d.Proofs(plane, pod.Pinned.Trust[plane.Role()], pod.Stored[plane])
	}
	return given, nil
}

// PodTrust is what a pod was created to trust, and the CA certificates that its Secret has.
type PodTrust struct {
	Pinned publication.Publication
	Stored map[contract.Plane][]*x509.Certificate
}
