package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/access/controller"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// accessOperatorOptions are the flags of the access operator.
type accessOperatorOptions struct {
	watchNamespaces []string
	references      string
	process         processOptions
}

func newAccessOperatorCommand() *cobra.Command {
	o := accessOperatorOptions{}
	cmd := &cobra.Command{
		Use:   "access-operator",
		Short: "Run the operator that writes the Secrets of KafkaAccess resources",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *accessOperatorOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.watchNamespaces, "watch-namespaces", nil, "namespaces to watch; none means all")
	flags.StringVar(&o.references, "cross-namespace-references", string(controller.WithConsent),
		"consent (an annotation on the Kafka or KafkaUser), or unrestricted (unsafe: a KafkaAccess can then read every credential)")
	o.process.addFlags(flags, binding.Owner)
}

func (o *accessOperatorOptions) run(cmd *cobra.Command) error {
	references, err := o.parseReferences()
	if err != nil {
		return err
	}
	return o.process.run(cmd, "the access operator", o.managerOptions(), func(mgr watches.Manager, _ *kube.ServerClock) error {
		return o.addAccessControllers(mgr, references)
	})
}

func (o *accessOperatorOptions) managerOptions() *manager.Options {
	return o.process.managerOptions(controller.CacheOptions(o.watchNamespaces))
}

func (o *accessOperatorOptions) parseReferences() (controller.References, error) {
	switch references := controller.References(o.references); references {
	case controller.WithConsent, controller.Unrestricted:
		return references, nil
	default:
		return "", fmt.Errorf("reading --cross-namespace-references: %q is neither %s nor %s", o.references, controller.WithConsent, controller.Unrestricted)
	}
}

// addAccessControllers adds one controller for each form of KafkaAccess.
func (o *accessOperatorOptions) addAccessControllers(mgr watches.Manager, references controller.References) error {
	figures := controller.NewMetrics()
	if err := register(figures); err != nil {
		return err
	}
	options := controller.Options{
		Client:     mgr.GetClient(),
		Live:       mgr.GetAPIReader(),
		Events:     mgr.GetEventRecorder(binding.Owner),
		Clock:      clock.RealClock{},
		Metrics:    figures,
		Watches:    mgr.Watches,
		References: references,
		Namespaces: o.watchNamespaces,
	}
	for _, form := range []binding.Form{binding.Public(), binding.Proposed()} {
		if err := controller.New(form, options).SetupWithManager(mgr); err != nil {
			return fmt.Errorf("adding controllers: %w", err)
		}
	}
	return nil
}
