package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

// completionLimit is how long somebody who has pressed tab waits for a cluster.
const completionLimit = 3 * time.Second

// mostNames bounds what a completion asks a cluster for; nobody reads more.
const mostNames = 500

// completeInNamespace offers what completeKafka does, and nothing beside --all-namespaces.
func completeInNamespace(connect connector, all *bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if *all {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeKafka(connect)(cmd, args, begun)
	}
}

// completeKafka offers the Kafkas of the namespace, as kafka/NAME or by their names
// alone, in the form that has been begun.
func completeKafka(connect connector) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		form := ""
		switch named, _, slash := strings.Cut(begun, "/"); {
		case slash:
			form = named + "/"
		case strings.HasPrefix(kafkaPrefix, begun):
			form = kafkaPrefix
		}
		if _, err := clusterName(form + "NAME"); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd.Context(), begun, form, func(ctx context.Context) ([]string, error) {
			return kafkas(ctx, connect)
		})
	}
}

func kafkas(ctx context.Context, connect connector) ([]string, error) {
	c, err := connect()
	if err != nil {
		return nil, err
	}
	return c.names(ctx, kafkav1.GroupVersion.WithKind("KafkaList"), client.InNamespace(c.namespace))
}

// names offers what a cluster lists. A cluster that does not answer in time, or
// that refuses, offers nothing: an error in the middle of what is being typed helps
// nobody.
func names(
	ctx context.Context, begun, form string, list func(context.Context) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, completionLimit)
	defer cancel()
	answer := make(chan []string, 1)
	go func() {
		// Credentials may come from a program that knows of no deadline.
		found, err := list(ctx)
		if err != nil {
			found = nil
		}
		answer <- found
	}()
	select {
	case found := <-answer:
		fitting := make([]string, 0, len(found))
		for _, name := range found {
			if strings.HasPrefix(form+name, begun) {
				fitting = append(fitting, form+name)
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
	case <-ctx.Done():
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// names are those of some objects, read without their content.
func (c connection) names(ctx context.Context, kind schema.GroupVersionKind, in ...client.ListOption) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := c.client.List(ctx, list, append(in, client.Limit(mostNames))...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	found := make([]string, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, list.Items[i].Name)
	}
	return found, nil
}

// completeFlag completes the values of a flag.
func completeFlag(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(fmt.Sprintf("completing --%s of %s: %v", flag, cmd.Name(), err))
	}
}

// completeFlags completes what can be known of the flags that name a cluster.
func (a access) completeFlags(cmd *cobra.Command) {
	completeFlag(cmd, "namespace", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return names(cmd.Context(), begun, "", func(ctx context.Context) ([]string, error) {
			c, err := a.connect()
			if err != nil {
				return nil, err
			}
			return c.names(ctx, corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		})
	})
	for flag, entries := range map[string]func(api.Config) []string{
		"context": func(c api.Config) []string { return slices.Sorted(maps.Keys(c.Contexts)) },
		"cluster": func(c api.Config) []string { return slices.Sorted(maps.Keys(c.Clusters)) },
		"user":    func(c api.Config) []string { return slices.Sorted(maps.Keys(c.AuthInfos)) },
	} {
		completeFlag(cmd, flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return names(cmd.Context(), begun, "", func(context.Context) ([]string, error) {
				config, err := a.config.loader().RawConfig()
				return entries(config), err
			})
		})
	}
}

// refuseOtherShells has the completion of a shell that there is none for end with an error, and not with help.
func refuseOtherShells(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			var shells []string
			for _, shell := range cmd.Commands() {
				shells = append(shells, shell.Name())
			}
			return misused(cmd, fmt.Errorf("%q is not supported: use %s", args[0], alternatives(shells)))
		}
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

// describeCompletion says how kubectl completes its plugin.
func describeCompletion(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Short = "Print a script that completes kubectl-keyturn in a shell"
		cmd.Long = `Prints a script that completes kubectl-keyturn, called by that name.

What follows "kubectl keyturn" is completed by kubectl itself, if its own completion is
set up (see "kubectl completion --help") and it finds an executable with the name
` + completer + ` in the PATH. A link to this program will do:

  ln -s kubectl-keyturn "$(dirname "$(command -v kubectl-keyturn)")/` + completer + `"`
	}
}
