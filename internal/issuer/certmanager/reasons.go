package certmanager

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keyturn/keyturn/internal/issuer"
)

// sought is an object that was looked for to find out why a request is late.
type sought struct {
	// kind and name say what it is in words, resource how to grant reading it.
	kind, name, resource string
	// state is nil when it does not exist, or must not be read.
	state     *state
	forbidden bool
}

// isLate reports whether it is time to look for a reason that the Certificate does not give.
func isLate(certificate *state, pending issuer.Pending, now time.Time) bool {
	return certificate.hasFailed() || now.Sub(pending.Since) >= issuer.Patience
}

// explain adds to a pending request what its CertificateRequest and its issuer say.
func explain(pending issuer.Pending, request, signer sought) issuer.Outcome {
	why := []string{pending.Why}
	blocked := signer.unready()
	if blocked == "" {
		blocked = request.unanswered()
	}
	for _, reason := range []string{request.unread(), signer.unread(), request.unapproved(), blocked} {
		if reason != "" {
			why = append(why, reason)
		}
	}
	if request.state != nil && request.state.is("Denied") {
		return issuer.Denied{Why: fmt.Sprintf("CertificateRequest %s was denied: %s. No certificate is issued. "+
			"Have its approver allow it; cert-manager asks again by itself.", request.name, firstOf(request.state.condition("Denied").Message, "no reason was given"))}
	}
	pending.Why = strings.Join(why, " ")
	return pending
}

func (s sought) unread() string {
	if !s.forbidden {
		return ""
	}
	return fmt.Sprintf("The reason in %s %s is not known, because the operator must not read it: look at its conditions, or grant the operator get on %s.", s.kind, s.name, s.resource)
}

func (s sought) unapproved() string {
	if s.state == nil || s.state.is("Approved") || s.state.is("Denied") {
		return ""
	}
	return fmt.Sprintf("No approver has approved CertificateRequest %s: install an approver for this issuer, or run cmctl approve.", s.name)
}

func (s sought) unanswered() string {
	if s.state == nil || !s.state.is("Approved") || s.state.is("Ready") {
		return ""
	}
	return fmt.Sprintf("CertificateRequest %s is approved and not signed: %s.", s.name,
		firstOf(s.state.condition("Ready").Message, "the controller of its issuer has not looked at it; check that it runs"))
}

func (s sought) unready() string {
	switch {
	case s.kind == "" || s.forbidden:
		return ""
	case s.state == nil:
		return fmt.Sprintf("%s %s does not exist: create it, or correct issuerRef.", s.kind, s.name)
	case !s.state.is("Ready"):
		return fmt.Sprintf("%s %s is not ready: %s.", s.kind, s.name, firstOf(s.state.condition("Ready").Message, "it has no condition Ready"))
	default:
		return ""
	}
}

// reason reads CertificateRequest and issuer of a late request, once.
func (i *Issuer) reason(ctx context.Context, certificate *state, pending issuer.Pending) (issuer.Outcome, error) {
	var request, signer sought
	if name, known := certificate.requestName(); known {
		request = sought{kind: "CertificateRequest", name: certificate.Namespace + "/" + name, resource: "certificaterequests." + Group}
		if err := i.seek(ctx, &request, resource("certificaterequests"), certificate.Namespace, name); err != nil {
			return nil, err
		}
	}
	if request.state != nil && !isOf(request.state, certificate) {
		request.state = nil // a leftover of another Certificate of the name
	}
	if ref := i.options.Issuer; ref.group() == Group {
		plural, namespace := "issuers", certificate.Namespace
		if ref.Kind == KindClusterIssuer {
			plural, namespace = "clusterissuers", ""
		}
		signer = sought{kind: ref.Kind, name: strings.TrimPrefix(namespace+"/"+ref.Name, "/"), resource: plural + "." + Group}
		if err := i.seek(ctx, &signer, resource(plural), namespace, ref.Name); err != nil {
			return nil, err
		}
	}
	return explain(pending, request, signer), nil
}

func isOf(request, certificate *state) bool {
	for i := range request.OwnerReferences {
		if request.OwnerReferences[i].UID == certificate.UID {
			return true
		}
	}
	return false
}

// seek reads past all caches. What does not exist, or must not be read, is no error.
func (i *Issuer) seek(ctx context.Context, s *sought, resource schema.GroupVersionResource, namespace, name string) error {
	object, err := i.options.Server.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		s.forbidden = true
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", s.kind, s.name, err)
	}
	s.state, err = stateOf(object)
	return err
}
