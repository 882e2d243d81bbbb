package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
)

// operatorCA returns the operator's CA of a plane, to sign a CA that is valid for so long. One reconcile at a time
// makes it; of two operators, the second fails to create the Secret and reads it when it tries again.
func (p *pass) operatorCA(ctx context.Context, plane contract.Plane, longest time.Duration) (pki.Authority, *model.Problem, error) {
	p.makingCA.Lock()
	defer p.makingCA.Unlock()
	own := model.OperatorCA{Namespace: p.options.Namespace, Plane: plane}
	key, err := p.ownSecret(ctx, own.KeySecret())
	if err != nil {
		return pki.Authority{}, nil, err
	}
	cert, err := p.ownSecret(ctx, own.CertSecret())
	if err != nil {
		return pki.Authority{}, nil, err
	}
	act, err := p.decideOwn(ctx, own, model.StoredCA{Key: dataOf(key), Cert: dataOf(cert)}, longest)
	if err != nil {
		return pki.Authority{}, nil, err
	}
	switch act := act.(type) {
	case model.UseCA:
		return act.CA, nil, nil
	case model.HoldCA:
		return pki.Authority{}, &act.Problem, nil
	case model.CertifyCA:
		ca, err := p.certifyOwn(ctx, own, cert, act.Key, act.Spec)
		return ca, nil, err
	case model.MakeCA:
		private, err := p.makeOwnKey(ctx, own)
		if err != nil {
			return pki.Authority{}, nil, err
		}
		ca, err := p.certifyOwn(ctx, own, cert, private, act.Spec)
		return ca, nil, err
	default:
		return pki.Authority{}, nil, fmt.Errorf("the operator's %s CA: act %T is not known", plane, act)
	}
}

// decideOwn lets an EtcdPKI decide who signs the CA.
func (p *pass) decideOwn(ctx context.Context, own model.OperatorCA, stored model.StoredCA, longest time.Duration) (model.CAAct, error) {
	if !p.options.ReadsPKI {
		return own.Decide(stored, longest, p.now), nil
	}
	etcdPKI, err := p.readPKI(ctx)
	switch {
	case err != nil:
		return nil, err
	case etcdPKI == nil || etcdPKI.Spec.Mode != keyturnv1alpha1.Outside:
		return own.Decide(stored, longest, p.now), nil
	}
	if problem := own.BelongsToAnother(etcdPKI.Status); problem != nil {
		return model.HoldCA{Problem: *problem}, nil
	}
	act := own.DecideSignedOutside(stored, longest, p.now)
	_, isHeld := act.(model.HoldCA)
	if isHeld && apimeta.IsStatusConditionTrue(etcdPKI.Status.Conditions, keyturnv1alpha1.ConditionReady) {
		p.wakeAt(p.now.Add(kube.Unwatched)) // a lost Secret is written again, which no event tells of
	}
	return act, nil
}

// ownKey returns the key of a CA of the operator, and makes it where the CA does not exist. A key is never replaced.
func (r *Reconciler) ownKey(ctx context.Context, own model.OperatorCA) (pki.PrivateKey, *model.Problem, error) {
	r.makingCA.Lock()
	defer r.makingCA.Unlock()
	secret, err := r.ownSecret(ctx, own.KeySecret())
	if err != nil {
		return pki.PrivateKey{}, nil, err
	}
	cert, err := r.ownSecret(ctx, own.CertSecret())
	if err != nil {
		return pki.PrivateKey{}, nil, err
	}
	if secret == nil && cert == nil {
		key, err := r.makeOwnKey(ctx, own)
		return key, nil, err
	}
	key, problem := own.ReadKey(model.StoredCA{Key: dataOf(secret), Cert: dataOf(cert)})
	return key, problem, nil
}

func (r *Reconciler) makeOwnKey(ctx context.Context, own model.OperatorCA) (pki.PrivateKey, error) {
	key, err := pki.GenerateKey(own.KeyParams())
	if err != nil {
		return pki.PrivateKey{}, fmt.Errorf("making the key of the operator's %s CA: %w", own.Plane, err)
	}
	return key, r.writeOwn(ctx, nil, own.KeySecret(), own.Labels(), map[string][]byte{authority.KeyKey: key.PEM()})
}

func (r *Reconciler) certifyOwn(ctx context.Context, own model.OperatorCA, stored *corev1.Secret, key pki.PrivateKey, spec pki.CASpec) (pki.Authority, error) {
	ca, err := pki.SelfSign(key, spec)
	if err != nil {
		return pki.Authority{}, fmt.Errorf("signing the operator's %s CA: %w", own.Plane, err)
	}
	r.options.Log.Info("made a certificate of the operator's CA", "plane", own.Plane, "notAfter", ca.Certificate().NotAfter)
	data := map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())}
	return ca, r.writeOwn(ctx, stored, own.CertSecret(), own.Labels(), data)
}

// ownSecret reads a Secret in the operator's namespace; nil when there is none.
func (r *Reconciler) ownSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	return r.secret(ctx, types.NamespacedName{Namespace: r.options.Namespace, Name: name})
}

func (r *Reconciler) writeOwn(ctx context.Context, stored *corev1.Secret, name string, labels map[string]string, data map[string][]byte) error {
	_, err := kube.WriteSecret(ctx, r.options.Client, fieldOwner, stored, kube.SecretIntent{
		Namespace: r.options.Namespace, Name: name, Labels: labels, Data: data,
	})
	return err
}
