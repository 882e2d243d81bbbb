package controller

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
)

// request is what the application asks with: its own request, or one for the key that the operator makes for it.
func (a *accessPass) request() (request string, key []byte, err error) {
	if own := a.access.Spec.Request; own != "" {
		return base64.StdEncoding.EncodeToString([]byte(own)), nil, nil
	}
	private, err := pki.ParsePrivateKey(dataOf(a.stored)[model.OperatorKeyEntry])
	if err != nil || private.Params().Algorithm != a.cluster.OperatorKey().Algorithm || a.ledger.issued.IsExposed(private.ID()) {
		if private, err = pki.GenerateKey(a.cluster.OperatorKey()); err != nil {
			return "", nil, fmt.Errorf("making the key of EtcdAccess %s: %w", a.access.Name, err)
		}
	}
	text, err := pki.NewRequest(private, pki.Subject{CommonName: model.AccessUser(a.access)}, pki.SANs{})
	if err != nil {
		return "", nil, fmt.Errorf("requesting the certificate of EtcdAccess %s: %w", a.access.Name, err)
	}
	return base64.StdEncoding.EncodeToString(text), private.PEM(), nil
}

// elsewhere are the requests of members and of other applications, whose keys are not signed for this one.
func (a *accessPass) elsewhere(ctx context.Context) (requests []string, err error) {
	if a.access.Spec.Request == "" {
		return nil, nil
	}
	if err := a.readPods(ctx, a.options.Client); err != nil {
		return nil, err
	}
	for _, pod := range a.pods {
		requests = slices.AppendSeq(requests, maps.Values(enroll.ExchangeOf(pod.Annotations).Requests))
	}
	var accesses keyturnv1alpha1.EtcdAccessList
	if err := a.options.Client.List(ctx, &accesses); err != nil {
		return nil, fmt.Errorf("listing EtcdAccesses: %w", err)
	}
	for i := range accesses.Items {
		other := &accesses.Items[i]
		if other.UID != a.access.UID && other.Status.Binding != nil && model.AccessedCluster(other) == model.AccessedCluster(a.access) {
			requests = append(requests, base64.StdEncoding.EncodeToString([]byte(other.Spec.Request)))
		}
	}
	return requests, nil
}

// tryWrite has the API server try whether the Secret can be written: what is signed and not delivered fills the ledger.
func (a *accessPass) tryWrite(ctx context.Context, answer string, key []byte) error {
	intent, _, err := a.secretIntent(answer, key)
	if err != nil {
		return err
	}
	_, err = kube.WriteSecret(ctx, client.NewDryRunClient(a.options.Client), fieldOwner, a.stored, intent)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		a.problem = model.UnwritableSecret(intent.Name, err)
		a.lookAgain()
		return nil
	}
	return err
}

// writeAccess writes the Secret of the application.
func (a *accessPass) writeAccess(ctx context.Context, answer string, key []byte) error {
	intent, leaf, err := a.secretIntent(answer, key)
	if err != nil {
		return err
	}
	written, err := kube.WriteSecret(ctx, a.options.Client, fieldOwner, a.stored, intent)
	if err != nil {
		return err
	}
	a.stored, a.leaf = &written, leaf
	return nil
}

// secretIntent is what the Secret shall be, and the certificate in it.
func (a *accessPass) secretIntent(answer string, key []byte) (kube.SecretIntent, *x509.Certificate, error) {
	chain, err := enroll.Chain(answer)
	if err != nil {
		return kube.SecretIntent{}, nil, err
	}
	names := a.cluster.Names
	return kube.SecretIntent{
		Namespace: a.access.Namespace, Name: model.AccessSecret(a.access),
		Labels: map[string]string{model.ManagedByLabel: model.Manager, model.ClusterLabel: names.Cluster},
		Owners: []metav1.OwnerReference{model.AccessOwner(a.access)},
		Data:   model.AccessData(names, a.authorities.bundles[contract.ClientPlane], chain, key),
	}, chain[0], nil
}

// encoded is an entry of a Secret as annotations of pods carry it.
func encoded(secret *corev1.Secret, entry string) string {
	return base64.StdEncoding.EncodeToString(dataOf(secret)[entry])
}

// leafOf is the certificate in the Secret of an application; nil when there is none that can be read.
func leafOf(secret *corev1.Secret) *x509.Certificate {
	leaf, err := pki.FirstCertificate(dataOf(secret)[model.OperatorCertEntry])
	if err != nil {
		return nil
	}
	return leaf
}
