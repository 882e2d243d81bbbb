package target

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/keyturn/keyturn/internal/probe"
)

// watchSecret follows one Secret until ctx ends. A watch costs nothing while
// nothing changes; reading it at each dial would be a hundred requests a minute.
func watchSecret(ctx context.Context, client kubernetes.Interface, namespace, name string) (probe.Source, error) {
	if _, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return nil, fmt.Errorf("reading Secret %s in namespace %s: %w", name, namespace, err)
	}
	informer := coreinformers.NewFilteredSecretInformer(client, namespace, 0, cache.Indexers{}, called(name))
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching Secret %s in namespace %s: %w", name, namespace, ctx.Err())
	}
	key := namespace + "/" + name
	return func(context.Context) (map[string][]byte, string, error) {
		object, _, err := informer.GetStore().GetByKey(key)
		if err != nil {
			return nil, "", fmt.Errorf("reading Secret %s in namespace %s: %w", name, namespace, err)
		}
		secret, ok := object.(*corev1.Secret)
		if !ok {
			return nil, "", fmt.Errorf("reading Secret %s in namespace %s: it was deleted", name, namespace)
		}
		return secret.Data, secret.ResourceVersion, nil
	}, nil
}

// called selects the one object of a name.
func called(name string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// watchVersion follows the version of a Secret until ctx ends, and is never told
// what is in it. The version of one that is not there is empty.
func watchVersion(ctx context.Context, client metadata.Interface, namespace, name string) (func() string, error) {
	informer := metadatainformer.NewFilteredMetadataInformer(client, corev1.SchemeGroupVersion.WithResource("secrets"),
		namespace, 0, cache.Indexers{}, called(name)).Informer()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, fmt.Errorf("watching Secret %s in namespace %s: %w", name, namespace, ctx.Err())
	}
	return func() string {
		object, _, err := informer.GetStore().GetByKey(namespace + "/" + name)
		if err != nil {
			return ""
		}
		secret, ok := object.(metav1.Object)
		if !ok {
			return ""
		}
		return secret.GetResourceVersion()
	}, nil
}
