package agent

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/agent/enrollment"
	"github.com/keyturn/keyturn/internal/publication"
)

// enroller asks for certificates and takes the answers. It is not for concurrent use.
type enroller struct {
	Options

	observer   *observer
	mounts     *mount.Reader
	identities map[contract.Plane]*identity

	// generation is that of the mounts that were looked at last; settled is true when
	// nothing was missing and nothing was refused then.
	generation uint64
	settled    bool
	// asked is the generation of the mounts at which requests were last sent, if sent; why
	// says why that failed. Nothing is sent before next; pause grows.
	sent  bool
	asked uint64
	why   error
	pause time.Duration
	next  time.Time
	// loaded is the grant that etcd was started under; nil before.
	loaded *enrollment.Grant
	// restartUnder is the grant that etcd is to be restarted under; nil while it is to run on.
	restartUnder *enrollment.Grant
	// refused is the last refusal that the log has.
	refused string
}

func newEnroller(o Options, told *observer) (*enroller, error) {
	e := &enroller{
		Options: o, observer: told, mounts: mount.NewReader(o.NodeDir, o.PodDir),
		identities: map[contract.Plane]*identity{},
	}
	for _, plane := range contract.Planes() {
		id, err := loadIdentity(plane, o)
		if err != nil {
			return nil, err
		}
		e.identities[plane] = id
	}
	return e, nil
}

// step looks at the mounts once and does what there is to do. It returns what the mounts
// allow, or an error when etcd could not be started on it; the status and the log have
// it, too.
func (e *enroller) step(ctx context.Context) (enrollment.Grant, error) {
	directories, generation, err := e.mounts.Read()
	switch {
	case err != nil && e.loaded != nil:
		return enrollment.Grant{}, err // the kubelet is exchanging it: the next look sees the new one
	case err != nil:
		return enrollment.Grant{}, e.waiting(err)
	}
	secret, pod := directories[0], directories[1]
	annotations, err := agent.ParseAnnotations(pod[agent.AnnotationsFile])
	if err != nil {
		return enrollment.Grant{}, e.waiting(err)
	}
	e.ask(ctx, annotations, generation)
	if e.settled && generation == e.generation {
		return *e.loaded, nil
	}
	grant, err := enrollment.Read(secret, pod)
	if err == nil {
		err = e.take(grant, annotations)
	} else {
		e.observer.refused(grant.Publication.Revision)
	}
	e.generation, e.settled = generation, err == nil && e.loaded != nil
	if e.settled && e.isBehind(grant, annotations[contract.RestartAnnotation]) {
		e.restartUnder = &grant
	}
	return grant, e.waiting(err)
}

// isBehind reports whether the operator asks for a start under the grant, or one before it, and etcd trusts others.
func (e *enroller) isBehind(grant enrollment.Grant, asked string) bool {
	revision, err := strconv.ParseInt(asked, 10, 64)
	return err == nil && e.loaded.Publication.Revision < revision && revision <= grant.Publication.Revision && !sameTrust(grant, *e.loaded)
}

// ask sends the requests that the mounted annotations do not show. What was sent shows
// only when the kubelet has mounted it: it is not sent again before something changes, or
// a kubelet should have.
func (e *enroller) ask(ctx context.Context, annotations map[string]string, generation uint64) {
	requests := map[string]string{}
	for plane, id := range e.identities {
		if annotations[plane.RequestAnnotation()] != id.request {
			requests[plane.RequestAnnotation()] = id.request
		}
	}
	now := e.Clock.Now()
	switch {
	case len(requests) == 0:
		e.sent, e.why, e.pause = false, nil, 0
		return
	case now.Before(e.next), e.sent && e.asked == generation && now.Before(e.next.Add(mountPatience)):
		return
	}
	e.why = e.Annotate(ctx, requests)
	e.sent, e.asked = e.why == nil, generation
	e.pause = min(max(2*e.pause, firstRetry), lastRetry)
	e.next = now.Add(e.pause)
	if e.why != nil {
		e.Log.Warn("Sending requests for certificates failed", "error", e.why, "retryIn", e.pause.String())
		return
	}
	e.Log.Info("Requests for certificates are sent", "annotations", slices.Sorted(maps.Keys(requests)))
}

// take presents what the operator has answered. The error says what is missing for a
// start, and after the start what was refused: the certificate in use stays then.
func (e *enroller) take(grant enrollment.Grant, annotations map[string]string) error {
	missing := &agent.Missing{}
	now := e.Clock.Now()
	_ = each(e.identities, func(id *identity) error {
		chain, err := grant.Answer(id.plane, annotations[id.plane.CertificateAnnotation()], id.key, now)
		if err == nil {
			err = e.present(id, chain)
		}
		if err != nil && (e.loaded != nil || !e.usable(grant, id, now)) {
			missing.Add("a usable certificate in annotation %s of the pod (%v)", id.plane.CertificateAnnotation(), err)
		}
		return nil
	})
	e.observer.granted(grant, e.identities, e.loaded)
	if missing.Empty() {
		return nil
	}
	if e.why != nil {
		missing.Add("the API server to take the requests (%v)", e.why)
	}
	return missing.Err()
}

// usable reports whether an earlier container of the pod has left a chain that etcd can
// be started on although the operator's answer is not usable.
func (e *enroller) usable(grant enrollment.Grant, id *identity, now time.Time) bool {
	return id.chain != nil && grant.Check(id.plane, id.chain, id.key, now) == nil
}

func (e *enroller) present(id *identity, chain []*x509.Certificate) error {
	if slices.EqualFunc(id.chain, chain, (*x509.Certificate).Equal) {
		return nil
	}
	if err := id.present(chain); err != nil {
		return err
	}
	e.Log.Info("A certificate is presented", "plane", id.plane,
		"serial", chain[0].SerialNumber.Text(16), "notAfter", chain[0].NotAfter.UTC())
	return nil
}

// begin writes what etcd reads when it starts, and records it.
func (e *enroller) begin(grant enrollment.Grant) error {
	roles := map[publication.Role]publication.RoleReport{}
	err := each(e.identities, func(id *identity) error {
		roles[id.plane.Role()] = publication.RoleReportOf(id.chain, grant.Anchors[id.plane])
		return id.trust(grant.Anchors[id.plane])
	})
	if err != nil {
		return err
	}
	e.loaded, e.restartUnder = &grant, nil
	e.observer.Started(grant.Publication.Revision, e.Clock.Now(), roles)
	return nil
}

// waiting puts an error into the status and, when it is news, into the log. It returns
// the error.
func (e *enroller) waiting(err error) error {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	news := reason != e.refused
	e.refused = reason
	switch {
	case e.loaded != nil:
		e.observer.Reloaded(e.outcome(err))
		if news && err != nil {
			e.Log.Warn("What is mounted is not used; etcd keeps what it has", "error", err)
		}
	case err != nil:
		e.observer.Waiting(agent.ReasonWaitingForMounts, missingOf(err))
		if news {
			e.Log.Info("Waiting", "error", err)
		}
	}
	return err
}

// outcome says how what is mounted fares with the running etcd.
func (e *enroller) outcome(err error) publication.ReloadReport {
	outcome := publication.ReloadReport{Revision: e.observer.mountedRevision()}
	if err != nil {
		outcome.Failure = fmt.Sprintf("What is mounted is not used: etcd lacks %s. It keeps its certificates and CAs.",
			strings.Join(missingOf(err), "; "))
	}
	return outcome
}

func missingOf(err error) []string {
	if waiting, ok := errors.AsType[*agent.WaitingError](err); ok {
		return waiting.For
	}
	return []string{err.Error()}
}
