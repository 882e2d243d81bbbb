package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfig is which cluster is meant, and as whom: files and what kubectl's flags say in place of them.
// kubectl's own package for these flags brings kustomize along, which every operator and every agent would carry.
type kubeconfig struct {
	rules      *clientcmd.ClientConfigLoadingRules
	overrides  *clientcmd.ConfigOverrides
	userExtras userExtras
}

func newKubeconfig() *kubeconfig {
	return &kubeconfig{
		rules:      clientcmd.NewDefaultClientConfigLoadingRules(),
		overrides:  &clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults},
		userExtras: userExtras{},
	}
}

// addFlags adds the flags by which kubectl chooses a cluster, under their names.
func (k *kubeconfig) addFlags(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	// As in kubectl, nobody is named by a password on a command line.
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(k.overrides, flags, names)
	flags.StringVar(&k.rules.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "Path to the kubeconfig file to use for CLI requests")
	flags.Var(k.userExtras, "as-user-extra", "User extras to impersonate for the operation, as key=value; repeat for more")
}

// loader reads the files once it is asked, after the flags are known.
func (k *kubeconfig) loader() clientcmd.ClientConfig {
	overrides := *k.overrides
	if len(k.userExtras) > 0 {
		overrides.AuthInfo.ImpersonateUserExtra = k.userExtras
	}
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &overrides)
}

// userExtras are what is said of an impersonated user beside the name and the groups; each key may have several values.
type userExtras map[string][]string

// Set adds a value, as key=value.
func (u userExtras) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return fmt.Errorf("%q is not of the form key=value", text)
	}
	u[key] = append(u[key], value)
	return nil
}

// Type is what a value looks like, for the help.
func (u userExtras) Type() string { return "key=value" }

// String is empty: there is no value that is taken where none is given.
func (u userExtras) String() string { return "" }
