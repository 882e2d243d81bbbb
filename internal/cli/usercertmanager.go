package cli

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/user/controller"
	usermodel "github.com/keyturn/keyturn/internal/user/model"
)

// userCertManager makes the issuers of the users of a cluster whose certificates cert-manager issues.
type userCertManager struct {
	*certmanager.Watch

	live     certmanager.Live
	memory   *certmanager.Memory
	gate     featuregate.State
	selector map[string]string
	// changed tells whom a changed Certificate is about.
	changed func(context.Context, client.Object) []reconcile.Request
}

func newUserCertManager(options certmanager.WatchOptions, cluster types.NamespacedName, gate featuregate.State) *userCertManager {
	c := &userCertManager{
		live: options.Live, memory: certmanager.NewMemory(), gate: gate,
		selector: map[string]string{model.ClusterLabel: cluster.Name, model.KindLabel: kafkav1.KindKafkaUser},
	}
	options.Selector = labels.SelectorFromSet(c.selector)
	options.OwnersOf = func(ctx context.Context, certificate client.Object) []reconcile.Request {
		return c.changed(ctx, certificate)
	}
	c.Watch = certmanager.NewWatch(options)
	return c
}

// Start implements source.Source. With the gate off the operator has no right to watch Certificates.
func (c *userCertManager) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if c.gate == featuregate.Off {
		return nil
	}
	return c.Watch.Start(ctx, queue)
}

// IssuerOf implements controller.Issuers.
func (c *userCertManager) IssuerOf(k controller.Issuance) controller.UserIssuer {
	options := certmanager.Options{
		Server: c.live.Server, Certificates: c.Watch, Secrets: c.live, Memory: c.memory,
		Namespace: k.Namespace, Issuer: certmanager.Reference(k.Issuer), Owner: k.Owner, References: certmanager.WithReferences,
		Placement: certmanager.InGivenSecret, Labels: k.Labels, Selector: c.selector,
	}
	if k.Stores == authority.WithStores {
		options.PasswordEntry = usermodel.PasswordEntry
	}
	return certmanager.New(options)
}
