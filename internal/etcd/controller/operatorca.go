package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
)

// operatorCA returns the operator's CA of a plane, to sign a CA that is valid for so long. One reconcile at a time
// makes it; of two operators, the second fails to create the Secret and reads it when it tries again.
func (r *Reconciler) operatorCA(ctx context.Context, plane contract.Plane, longest time.Duration, now time.Time) (pki.Authority, *model.Problem, error) {
	r.makingCA.Lock()
	defer r.makingCA.Unlock()
	own := model.OperatorCA{Namespace: r.options.Namespace, Plane: plane}
	key, err := r.ownSecret(ctx, own.KeySecret())
	if err != nil {
		return pki.Authority{}, nil, err
	}
	cert, err := r.ownSecret(ctx, own.CertSecret())
	if err != nil {
		return pki.Authority{}, nil, err
	}
	switch act := own.Decide(model.StoredCA{Key: dataOf(key), Cert: dataOf(cert)}, longest, now).(type) {
	case model.UseCA:
		return act.CA, nil, nil
	case model.HoldCA:
		return pki.Authority{}, &act.Problem, nil
	case model.CertifyCA:
		ca, err := r.certifyOwn(ctx, own, cert, act.Key, act.Spec)
		return ca, nil, err
	case model.MakeCA:
		private, err := pki.GenerateKey(act.Spec.Key)
		if err != nil {
			return pki.Authority{}, nil, fmt.Errorf("making the key of the operator's %s CA: %w", plane, err)
		}
		if err := r.writeOwn(ctx, nil, own.KeySecret(), own.Labels(), map[string][]byte{authority.KeyKey: private.PEM()}); err != nil {
			return pki.Authority{}, nil, err
		}
		ca, err := r.certifyOwn(ctx, own, cert, private, act.Spec)
		return ca, nil, err
	default:
		return pki.Authority{}, nil, fmt.Errorf("the operator's %s CA: act %T is not known", plane, act)
	}
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
