package harness

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Of returns an object of cert-manager in the cluster's namespace, which has only its name.
func (k Kafka) Of(kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind})
	object.SetNamespace(k.Namespace)
	object.SetName(name)
	return object
}

// ApplyIssuer applies the issuer of the example, whose CA is in the Secret ca, and puts the certificate of the CA into the
// Secret published.
func (k Kafka) ApplyIssuer(ctx context.Context, ca, published string) error {
	manifest, err := k.Kube.Example("certmanager/issuer.yaml")
	if err != nil {
		return err
	}
	if err := k.Kube.Apply(ctx, k.Namespace, manifest); err != nil {
		return err
	}
	var certificate []byte
	err = k.FollowSecrets(ctx, func(secrets map[string]*corev1.Secret) bool {
		if secret := secrets[ca]; secret != nil {
			certificate = secret.Data[corev1.TLSCertKey]
		}
		return len(certificate) > 0
	})
	if err != nil {
		return fmt.Errorf("waiting for the CA of the issuer: %w", err)
	}
	return k.Kube.Create(ctx, &corev1.Secret{ObjectMeta: k.Meta(published), Data: map[string][]byte{"ca.crt": certificate}})
}

// Reissue has cert-manager issue Certificates again, by the condition that cmctl sets for that.
func (k Kafka) Reissue(ctx context.Context, names ...string) error {
	for _, name := range names {
		// cert-manager writes the same list of conditions.
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { return k.reissue(ctx, name) }); err != nil {
			return err
		}
	}
	return nil
}

func (k Kafka) reissue(ctx context.Context, name string) error {
	certificate := k.Of("Certificate", name)
	if err := k.Kube.Get(ctx, k.Key(name), certificate); err != nil {
		return fmt.Errorf("reading Certificate %s: %w", name, err)
	}
	conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	if err != nil {
		return fmt.Errorf("reading conditions of Certificate %s: %w", name, err)
	}
	conditions = slices.DeleteFunc(conditions, func(c any) bool {
		fields, ok := c.(map[string]any)
		return ok && fields["type"] == "Issuing"
	})
	conditions = append(conditions, map[string]any{
		"type": "Issuing", "status": string(metav1.ConditionTrue), "reason": "ManuallyTriggered",
		"message": "A scenario asked for another certificate", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		"observedGeneration": certificate.GetGeneration(),
	})
	return k.Kube.patchStatus(ctx, certificate, map[string]any{
		"metadata": map[string]any{"resourceVersion": certificate.GetResourceVersion()},
		"status":   map[string]any{"conditions": conditions},
	})
}

// FollowSecrets looks at the Secrets of the cluster's namespace whenever one of them changes, until see has seen enough.
func (k Kafka) FollowSecrets(ctx context.Context, see func(map[string]*corev1.Secret) bool) error {
	return k.Kube.Follow(ctx, &corev1.SecretList{}, func(objects Objects) (bool, error) {
		secrets := map[string]*corev1.Secret{}
		for name, object := range objects {
			if secret, ok := object.(*corev1.Secret); ok {
				secrets[name] = secret
			}
		}
		return see(secrets), nil
	}, client.InNamespace(k.Namespace))
}

// EtcdOperator is the Deployment of the process that runs EtcdClusters.
const EtcdOperator = operatorName + "-etcd-operator"

// StopOperator has no pod of the operator run until it is started again.
func (k *Kubernetes) StopOperator(ctx context.Context) (start func() error, err error) {
	return k.StopProcess(ctx, operatorName)
}

// StopProcess has no pod of a process of Keyturn run, by the name of its Deployment, until it is
// started again.
func (k *Kubernetes) StopProcess(ctx context.Context, name string) (start func() error, err error) {
	return k.stop(ctx, types.NamespacedName{Namespace: OperatorNamespace, Name: name})
}

// StopDNS has no DNS server run in the bed's cluster until it is started again.
func (k *Kubernetes) StopDNS(ctx context.Context) (start func() error, err error) {
	return k.stop(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "coredns"})
}

// stop has no pod of a Deployment run until it is started again.
func (k *Kubernetes) stop(ctx context.Context, key types.NamespacedName) (start func() error, err error) {
	deployment := &appsv1.Deployment{}
	if err := k.Get(ctx, key, deployment); err != nil {
		return nil, fmt.Errorf("finding Deployment %s: %w", key, err)
	}
	before := *deployment.Spec.Replicas
	scale := func(replicas int32) error {
		named := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		return k.MergePatch(ctx, named, map[string]any{"spec": map[string]any{"replicas": replicas}})
	}
	if err := scale(0); err != nil {
		return nil, err
	}
	gone := func(pods Objects) (bool, error) { return len(pods) == 0, nil }
	err = k.Follow(ctx, &corev1.PodList{}, gone, selected(key.Namespace, deployment.Spec.Selector.MatchLabels)...)
	return func() error { return scale(before) }, err
}
