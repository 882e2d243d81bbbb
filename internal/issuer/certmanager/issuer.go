package certmanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kube"
)

// errNotGiven is a request whose given Secret is gone again; the caller creates it.
var errNotGiven = errors.New("the Secret for the certificate does not exist")

// Issuer asks cert-manager for the leaves of one owner.
type Issuer struct {
	options Options
}

var _ issuer.Issuer = &Issuer{}

// New returns an Issuer. It keeps nothing between calls.
func New(options Options) *Issuer { return &Issuer{options: options} }

// Issue makes the Certificate of a request what it shall be, and reads the answer. At rest it writes nothing.
//
// Without cert-manager the request is Pending since the time of the request itself: nothing remembers it.
func (i *Issuer) Issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("requesting %q: %w", request.Name, err)
	}
	if err := i.options.check(request); err != nil {
		return issuer.Deny(err), nil
	}
	outcome, err := i.issue(ctx, request)
	switch {
	case isNotInstalled(err):
		return issuer.Pending{Since: request.Now, Why: fmt.Sprintf("cert-manager is not installed: the API server has no resource %s. "+
			"No certificate is requested. Install cert-manager; the operator notices it without a restart.", Definition)}, nil
	case err != nil:
		return nil, fmt.Errorf("requesting %q: %w", request.Name, err)
	default:
		return outcome, nil
	}
}

func (i *Issuer) issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	certificate, secret, err := i.observe(ctx, request.Name)
	if apierrors.IsForbidden(err) {
		return i.issuedBefore(ctx, request)
	}
	if err != nil {
		return nil, err
	}
	if certificate != nil {
		if why := i.options.unrelated(certificate); why != "" {
			return notOwned(kindCertificate, certificate, why), nil
		}
	}
	// Before the Certificate is written: cert-manager would overwrite the Secret, or create one of another type.
	switch {
	case secret == nil && i.options.Placement == InGivenSecret:
		return nil, fmt.Errorf("%w: %s", errNotGiven, i.options.secretName(request.Name))
	case secret != nil:
		if why := i.options.unrelatedSecret(secret, request.Name); why != "" {
			return notOwned("Secret", secret, why), nil
		}
	}
	certificate, refusal, err := i.apply(ctx, certificate, i.options.intent(request))
	if err != nil || refusal != nil {
		return refusal, err
	}
	if err := i.adopt(ctx, secret); err != nil {
		return nil, err
	}
	return i.answer(ctx, request, certificate, secret)
}

func (i *Issuer) answer(ctx context.Context, request issuer.Request, certificate *unstructured.Unstructured, secret *corev1.Secret) (issuer.Outcome, error) {
	current, err := stateOf(certificate)
	if err != nil {
		return nil, err
	}
	switch outcome := i.options.answer(request, current, secret).(type) {
	case issuer.Pending:
		if current.isIssued() || !isLate(current, outcome, request.Now) {
			return outcome, nil
		}
		return i.reason(ctx, current, outcome)
	case issuer.Issued:
		outcome, err := i.withRival(ctx, outcome, request.Name, secret)
		if err != nil || outcome.Next == nil || !isLate(current, *outcome.Next, request.Now) {
			return outcome, err
		}
		return i.lateNext(ctx, current, outcome)
	default:
		return outcome, nil
	}
}

// lateNext adds to what was issued why the next certificate is not.
func (i *Issuer) lateNext(ctx context.Context, certificate *state, issued issuer.Issued) (issuer.Outcome, error) {
	outcome, err := i.reason(ctx, certificate, *issued.Next)
	if err != nil {
		return nil, err
	}
	switch why := outcome.(type) {
	case issuer.Pending:
		issued.Next = &why
	case issuer.Denied:
		issued.Next = &issuer.Pending{Since: issued.Next.Since, Why: why.Why}
	}
	return issued, nil
}

// issuedBefore is the outcome where the operator must not read Certificates, as with its feature gate off: nothing is requested,
// and what cert-manager has written for an earlier request counts. It renews that by itself.
func (i *Issuer) issuedBefore(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	const lacking = "The operator has no rights on certificates." + Group + ". No certificate is requested. " +
		"Grant it the rights, as the chart does with featureGates=[+CertManagerCaType]."
	pending := issuer.Pending{Since: request.Now, Why: lacking}
	secret, err := i.options.Secrets.Secret(ctx, i.key(i.options.secretName(request.Name)))
	switch {
	case apierrors.IsNotFound(err):
		return pending, nil
	case err != nil:
		return nil, err
	}
	if _, is := i.options.leftOver(secret); !is {
		return pending, nil
	}
	if err := i.adopt(ctx, secret); err != nil {
		return nil, err
	}
	outcome := found(request, secret, pending, "have it reissued")
	if denied, is := outcome.(issuer.Denied); is {
		return issuer.Denied{Why: denied.Why + " " + lacking}, nil
	}
	return outcome, nil
}

// observe reads what exists for a request; what does not exist is nil. The Secret is read after the Certificate: it is
// at least as new as what the Certificate says of it.
func (i *Issuer) observe(ctx context.Context, name string) (*unstructured.Unstructured, *corev1.Secret, error) {
	certificate, err := i.options.Certificates.Certificate(ctx, i.key(name))
	if apierrors.IsNotFound(err) && !isNotInstalled(err) {
		certificate, err = nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	secret, err := i.options.Secrets.Secret(ctx, i.key(i.options.secretName(name)))
	if apierrors.IsNotFound(err) {
		secret, err = nil, nil
	}
	return certificate, secret, err
}

func (i *Issuer) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: i.options.Namespace, Name: name}
}

// apply writes the Certificate unless it is as intended, and returns it as it is then. A Certificate that was read is
// only changed, never created again.
func (i *Issuer) apply(ctx context.Context, observed, intent *unstructured.Unstructured) (*unstructured.Unstructured, issuer.Outcome, error) {
	if observed != nil {
		if applied, err := isApplied(observed, intent); err != nil || applied {
			return observed, nil, err
		}
		intent.SetUID(observed.GetUID())
	}
	written, err := i.write(ctx, certificates(), intent)
	if isRefusal(err) {
		return nil, issuer.Denied{Why: fmt.Sprintf("Certificate %s/%s is not accepted: %s. Correct the settings that it follows from, or the policy that denies it.",
			intent.GetNamespace(), intent.GetName(), firstOf(err.Error()))}, nil
	}
	return written, nil, err
}

func (i *Issuer) write(ctx context.Context, resource schema.GroupVersionResource, intent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	written, err := i.options.Server.Resource(resource).Namespace(intent.GetNamespace()).
		Apply(ctx, intent.GetName(), intent, metav1.ApplyOptions{FieldManager: FieldOwner, Force: true})
	if err != nil {
		return nil, fmt.Errorf("applying %s %s/%s: %w", intent.GetKind(), intent.GetNamespace(), intent.GetName(), err)
	}
	return written, nil
}

// adopt makes the Secret refer to the owner, or no longer, exactly as it was read. It holds a key that must not outlive
// the owner, and cert-manager sets no owner by default.
func (i *Issuer) adopt(ctx context.Context, secret *corev1.Secret) error {
	if secret == nil || i.options.Placement == InGivenSecret {
		return nil
	}
	refers := slices.ContainsFunc(secret.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == i.options.Owner.UID })
	wanted := i.options.References == WithReferences
	if refers == wanted || !wanted && !kube.Applied(secret, FieldOwner) {
		return nil
	}
	intent := &unstructured.Unstructured{}
	intent.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	intent.SetNamespace(secret.Namespace)
	intent.SetName(secret.Name)
	intent.SetUID(secret.UID)
	intent.SetResourceVersion(secret.ResourceVersion)
	i.options.refer(intent)
	_, err := i.write(ctx, corev1.SchemeGroupVersion.WithResource("secrets"), intent)
	if apierrors.IsConflict(err) {
		return nil // it has changed since it was read, and is read again
	}
	return err
}

// Withdraw deletes the Certificates of the owner that are not kept, and then their Secrets but for given ones. cert-manager may write such
// a Secret once more, from its cache, just after both were deleted: the next call deletes it.
func (i *Issuer) Withdraw(ctx context.Context, keep []string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("withdrawing requests: %w", err)
	}
	failed := i.withdrawCertificates(ctx, keep)
	if isNotInstalled(failed) {
		failed = nil
	}
	if i.options.Placement == InOwnSecret {
		failed = errors.Join(failed, i.withdrawSecrets(ctx, keep))
	}
	if failed != nil {
		return fmt.Errorf("withdrawing requests: %w", failed)
	}
	return nil
}

func (i *Issuer) withdrawCertificates(ctx context.Context, keep []string) error {
	found, err := i.options.Certificates.Certificates(ctx, i.options.Namespace, i.options.selector())
	if err != nil {
		return err
	}
	var failed []error
	for _, certificate := range found {
		if slices.Contains(keep, certificate.GetName()) || i.options.unrelated(certificate) != "" {
			continue
		}
		failed = append(failed, i.remove(ctx, certificates(), certificate))
		i.options.Memory.forget(i.key(certificate.GetName()))
	}
	return errors.Join(failed...)
}

func (i *Issuer) withdrawSecrets(ctx context.Context, keep []string) error {
	found, err := i.options.Secrets.Secrets(ctx, i.options.Namespace, i.options.selector())
	if err != nil {
		return err
	}
	var failed []error
	for s := range found {
		certificate, is := i.options.leftOver(&found[s])
		if !is || slices.Contains(keep, certificate) {
			continue
		}
		failed = append(failed, i.remove(ctx, corev1.SchemeGroupVersion.WithResource("secrets"), &found[s]))
	}
	return errors.Join(failed...)
}

// remove deletes exactly the object that was read; one that is gone is no error.
func (i *Issuer) remove(ctx context.Context, resource schema.GroupVersionResource, object metav1.Object, dryRun ...string) error {
	uid, policy := object.GetUID(), metav1.DeletePropagationBackground
	err := i.options.Server.Resource(resource).Namespace(object.GetNamespace()).Delete(ctx, object.GetName(),
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy, DryRun: dryRun})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s %s/%s (uid %s): %w", resource.Resource, object.GetNamespace(), object.GetName(), uid, err)
	}
	return nil
}

// isNotInstalled tells a missing resource from a missing object: both are answered with 404.
func isNotInstalled(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isRefusal tells what the API server or a policy will refuse again from what may pass by itself.
func isRefusal(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) && strings.Contains(err.Error(), "metadata.uid") {
		return false // the Certificate was replaced a moment ago
	}
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsNotAcceptable(err) ||
		err != nil && strings.Contains(err.Error(), "denied the request")
}
