// Command certmanager is the controller of cert-manager: it issues Certificates from CA, self-signed and Vault issuers.
//
// Upstream's own program is not part of the released module, only its packages are; this is the least that runs them.
// There is no webhook: requests are approved by the built-in approver and validated by the CRD schemas.
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/vault"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/vault"
)

// workers per controller: the bed serves one cluster at a time.
const workers = 2

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file; the service account of the pod when empty")
	namespace := flag.String("cluster-resource-namespace", "cert-manager", "where ClusterIssuers look for their Secrets")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, options(*kubeconfig, *namespace)); err != nil {
		fmt.Fprintln(os.Stderr, "certmanager:", err)
		os.Exit(1)
	}
}

// options sets what upstream's program would take from its flags; the controllers refuse to start with zero back-offs
// and a zero number of challenges.
func options(kubeconfig, namespace string) controller.ContextOptions {
	return controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   50,
		KubernetesAPIBurst: 100,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: 5 * time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 1},
	}
}

// run builds every registered controller before the first informer starts, because building is what registers the
// informers that a controller needs.
func run(ctx context.Context, options controller.ContextOptions) error {
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	shared, err := factory.Build()
	if err != nil {
		return fmt.Errorf("building the shared clients: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	constructors := controller.Known()
	var starts []func() error
	for _, name := range slices.Sorted(maps.Keys(constructors)) {
		built, err := constructors[name](factory)
		if err != nil {
			return fmt.Errorf("building the controller %s: %w", name, err)
		}
		starts = append(starts, func() error {
			if err := built.Run(workers, ctx); err != nil {
				return fmt.Errorf("running the controller %s: %w", name, err)
			}
			return nil
		})
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	for _, start := range starts {
		group.Go(start)
	}
	return group.Wait()
}
