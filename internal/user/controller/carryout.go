package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/user/model"
)

// outcome is how a user is after a reconcile.
type outcome struct {
	isReady bool
	// secret is the name of the Secret with the user's credentials, empty when there is none.
	secret        string
	secretVersion string
	// notBefore and notAfter are those of the certificate, zero where there is none.
	notBefore, notAfter time.Time
	// waits: the certificate is to be reissued when it is the user's turn.
	waits bool
	// awaitsTrust: the certificate is to be reissued when all nodes trust the CA that signs.
	awaitsTrust bool
	wake        time.Time
	// waitsForKafka: Kafka did not answer, and the user is looked at again when it does.
	waitsForKafka bool
	// waitsForIssuer: the issuer has not answered, and is asked again with every event.
	waitsForIssuer bool
	// inKafka is what Kafka has been left with.
	inKafka sight
	// unnoticed is which denied watches were reported.
	unnoticed string
}

// carryOut writes the finalizer before anything is written to Kafka, the Secret before Kafka, and Kafka before the
// status that reports all of it.
func (r *Reconciler) carryOut(ctx context.Context, o model.Observed, d model.Decision) (outcome, error) {
	if d.IsRefused {
		return outcome{secret: o.User.Status.Secret}, r.report(ctx, o, d, o.User.Status.Secret)
	}
	isInKafka := model.IsInKafka(o.User) && isAlive(o.Kafka)
	if isInKafka {
		if err := r.setFinalizer(ctx, o.User); err != nil {
			return outcome{}, err
		}
	}
	done, err := r.storeCredentials(ctx, o, &d)
	if problem := model.NotWritten(o.SecretName, err); problem != nil {
		d.Problem = problem
		return outcome{secret: o.User.Status.Secret, wake: o.Now.Add(rejectedPause)}, r.report(ctx, o, d, o.User.Status.Secret)
	}
	if err != nil {
		return outcome{}, err
	}
	isKept := r.keepInKafka(ctx, o, &d, &done)
	if isKept && !isInKafka {
		if err := r.release(ctx, o); err != nil {
			return outcome{}, err
		}
	}
	done.isReady = d.Problem == nil
	_, done.waitsForIssuer = o.Outside.Answer.(issuer.Pending)
	return done, r.report(ctx, o, d, done.secret)
}

// storeCredentials makes the Secret of a user what it shall be.
func (r *Reconciler) storeCredentials(ctx context.Context, o model.Observed, d *model.Decision) (outcome, error) {
	if d.Remove {
		left, err := r.leaveIssuer(ctx, o, d)
		if err != nil {
			return outcome{}, err
		}
		if left == nil {
			return outcome{wake: d.Wake}, nil
		}
		if err := kube.DeleteUnchanged(ctx, r.options.Client, left); err != nil {
			return outcome{}, err
		}
		o.Secret = nil
	}
	data, err := r.credentials(ctx, o, d)
	if err != nil {
		return outcome{}, err
	}
	done, err := r.store(ctx, o, *d, data)
	if err != nil || data == nil || d.Problem != nil {
		return done, err
	}
	err = r.settleIssuer(ctx, o, d, &done)
	return done, err
}

// credentials are what the Secret shall hold; nil leaves it alone.
func (r *Reconciler) credentials(ctx context.Context, o model.Observed, d *model.Decision) (map[string][]byte, error) {
	data := d.Data
	if d.Request != nil {
		answer, err := ownca.New(o.CA.Signer).Issue(ctx, *d.Request)
		if err != nil {
			return nil, fmt.Errorf("issuing the certificate of KafkaUser %s: %w", o.User.Name, err)
		}
		switch answer := answer.(type) {
		case issuer.Issued:
			data = o.CA.Issued(answer)
		case issuer.Denied:
			d.Deny(answer.Why)
		case issuer.Pending:
			d.Deny(answer.Why)
		}
	}
	if data[model.KeyEntry] != nil && r.options.Stores == authority.WithStores {
		data = d.AddStore(data, o)
	}
	return data, nil
}

// store writes what the Secret shall hold; without data it stays as it is.
func (r *Reconciler) store(ctx context.Context, o model.Observed, d model.Decision, data map[string][]byte) (outcome, error) {
	done := outcome{wake: d.Wake, waits: d.Waits, awaitsTrust: d.AwaitsTrust}
	if data == nil {
		if o.Secret != nil {
			done.secretVersion = o.Secret.ResourceVersion
		}
		if o.Secret != nil && model.IsOwned(o.Secret, o.User) {
			done.secret = o.Secret.Name
			done.notBefore, done.notAfter = model.Lifetime(o.Secret.Data)
		}
		return done, nil
	}
	if d.Request != nil && model.IsForced(o.Secret) {
		if err := r.serve(ctx, &o, data); err != nil {
			return outcome{}, err
		}
	}
	version, err := r.applySecret(ctx, o, data)
	if err != nil {
		return outcome{}, err
	}
	done.secretVersion = version
	if model.HasCredentials(data) {
		done.secret = o.SecretName
	}
	done.notBefore, done.notAfter = model.Lifetime(data)
	if d.Request != nil {
		done.wake = done.notAfter.Add(-d.Request.Renewal)
		r.issued(o, d)
	}
	if d.Why.Act == authority.AdoptLeaf {
		r.issued(o, d)
	}
	return done, nil
}

// applySecret writes the Secret unless it is as it shall be, and returns its version. A stored one is replaced
// exactly as it was read; where there was none, one that was created since is left alone.
func (r *Reconciler) applySecret(ctx context.Context, o model.Observed, data map[string][]byte) (string, error) {
	intent := model.Secret(o.User, o.SecretName, data)
	if o.Secret == nil {
		secret, err := kube.CreateSecret(ctx, r.options.Client, model.Owner, intent)
		if err != nil {
			return "", err
		}
		return secret.ResourceVersion, nil
	}
	if applied, err := kube.IsApplied(o.Secret, intent, model.Owner); err != nil || applied {
		return o.Secret.ResourceVersion, err
	}
	secret, err := r.replaceSecret(ctx, o.Secret, intent)
	if err != nil {
		return "", err
	}
	return secret.ResourceVersion, nil
}

// replaceSecret applies a Secret exactly as it was read, and returns it with the version that it has then. Its content is not
// that which was applied.
func (r *Reconciler) replaceSecret(ctx context.Context, stored *corev1.Secret, intent *corev1ac.SecretApplyConfiguration) (*corev1.Secret, error) {
	secret := stored.DeepCopy()
	if err := kube.OwnAsApplied(ctx, r.options.Client, model.Owner, secret); err != nil {
		return nil, err
	}
	result, err := r.applier.Apply(ctx, intent.WithUID(secret.UID).WithResourceVersion(secret.ResourceVersion), nil)
	if err != nil {
		return nil, err
	}
	secret.ResourceVersion = result.ResourceVersion
	return secret, nil
}

// serve stores the certificate that a person asked for, and with it that the request was served.
func (r *Reconciler) serve(ctx context.Context, o *model.Observed, data map[string][]byte) error {
	secret, err := r.replaceSecret(ctx, o.Secret, model.Served(model.Secret(o.User, o.SecretName, data)))
	if err != nil {
		return err
	}
	o.Secret = secret
	return nil
}

// report applies the status when it differs, and writes an event about a problem that has begun.
func (r *Reconciler) report(ctx context.Context, o model.Observed, d model.Decision, secret string) error {
	wanted := model.Status(o, d, secret)
	if isWritten, err := r.statuses.Apply(ctx, o.User, &o.User.Status, &wanted); err != nil || !isWritten {
		return err
	}
	if d.Problem != nil && model.HasBegun(o.User.Status, *d.Problem) {
		r.options.Events.Eventf(o.User, nil, corev1.EventTypeWarning, string(d.Problem.Reason), actionReconcile, "%s", d.Problem.Message)
	}
	return nil
}

// Actions of events.
const (
	actionIssue     = "IssueCertificate"
	actionReconcile = "ReconcileUser"
)

// issued counts a certificate and writes an event, once it is stored.
func (r *Reconciler) issued(o model.Observed, d model.Decision) {
	r.options.Metrics.issued(string(d.Why.Reason))
	r.options.Events.Eventf(o.User, nil, corev1.EventTypeNormal, "CertificateIssued", actionIssue,
		"Issued a certificate for CN=%s: %s (%s)", o.User.Name, d.Why.Reason, d.Why.Detail)
	r.options.Log.Info("issued a certificate", "user", o.User.Name, "reason", string(d.Why.Reason))
}
