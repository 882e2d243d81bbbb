package cli

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

// certManager makes the issuers of Kafka clusters whose certificates cert-manager issues.
type certManager struct {
	*certmanager.Watch

	live   certmanager.Live
	memory *certmanager.Memory
	gate   featuregate.State
}

// watchOptions are what a watch of the Certificates of a process needs, but for whose they are.
func watchOptions(mgr ctrl.Manager, namespaces []string) (certmanager.WatchOptions, error) {
	server, err := dynamic.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return certmanager.WatchOptions{}, fmt.Errorf("preparing to ask cert-manager: %w", err)
	}
	definitions, err := metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return certmanager.WatchOptions{}, fmt.Errorf("preparing to watch the definition of Certificates: %w", err)
	}
	return certmanager.WatchOptions{
		Live: certmanager.Live{Server: server, Client: mgr.GetAPIReader()}, Metadata: definitions, Namespaces: namespaces,
	}, nil
}

func newCertManager(mgr ctrl.Manager, namespaces []string, gate featuregate.State) (certManager, error) {
	options, err := watchOptions(mgr, namespaces)
	if err != nil {
		return certManager{}, err
	}
	ofCluster, err := labels.NewRequirement(model.ClusterLabel, selection.Exists, nil)
	if err != nil {
		return certManager{}, fmt.Errorf("selecting Certificates: %w", err)
	}
	options.Selector, options.OwnersOf = labels.NewSelector().Add(*ofCluster), controller.ClusterOf
	return certManager{Watch: certmanager.NewWatch(options), live: options.Live, memory: certmanager.NewMemory(), gate: gate}, nil
}

// Start implements source.Source. With the gate off the operator has no right to watch Certificates.
func (c certManager) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if c.gate == featuregate.Off {
		return nil
	}
	return c.Watch.Start(ctx, queue)
}

// Sweep implements controller.OutsideIssuers.
func (c certManager) Sweep(ctx context.Context, kafka types.NamespacedName) error {
	return c.live.Sweep(ctx, kafka.Namespace, labels.SelectorFromSet(selectorOf(kafka.Name)))
}

// selectorOf are the labels of what an issuer makes for a Kafka.
func selectorOf(kafka string) map[string]string {
	return map[string]string{model.ClusterLabel: kafka, model.KindLabel: kafkav1.KindKafka}
}

// IssuerOf implements controller.OutsideIssuers.
func (c certManager) IssuerOf(k controller.OutsideIssuer) issuer.Renewer {
	references := certmanager.WithReferences
	if !k.OwnsSecrets {
		references = certmanager.WithoutReferences
	}
	return certmanager.New(certmanager.Options{
		Server: c.live.Server, Certificates: c.Watch, Secrets: c.live, Memory: c.memory,
		Namespace: k.Namespace, Issuer: certmanager.Reference(k.Issuer), Owner: k.Owner, References: references,
		Labels:   k.Labels,
		Selector: selectorOf(k.Owner.Name),
	})
}
