package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/keyturn/keyturn/internal/access/controller"
)

func TestTheAccessOperatorHasALeaseOfItsOwn(t *testing.T) {
	t.Parallel()
	o := accessOperatorOptions{}
	flags := pflag.NewFlagSet("access-operator", pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse([]string{"--watch-namespaces=kafka,apps", "--leader-election-namespace=keyturn"}); err != nil {
		t.Fatal(err)
	}
	options := o.managerOptions()
	if options.LeaderElectionID != "keyturn-access-operator" || options.LeaderElectionNamespace != "keyturn" || !options.LeaderElection {
		t.Errorf("the Lease is %s/%s, leader election %t", options.LeaderElectionNamespace, options.LeaderElectionID, options.LeaderElection)
	}
	namespaces := make([]string, 0, len(options.Cache.DefaultNamespaces))
	for namespace := range options.Cache.DefaultNamespaces {
		namespaces = append(namespaces, namespace)
	}
	slices.Sort(namespaces)
	if !slices.Equal(namespaces, []string{"apps", "kafka"}) {
		t.Errorf("the namespaces are %v", namespaces)
	}
}

func TestReferencesNeedConsentUnlessTheFlagSaysOtherwise(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]controller.References{
		"":                                     controller.WithConsent,
		"--cross-namespace-references=consent": controller.WithConsent,
		"--cross-namespace-references=unrestricted": controller.Unrestricted,
		"--cross-namespace-references=":             "",
		"--cross-namespace-references=all":          "",
	} {
		o := accessOperatorOptions{}
		flags := pflag.NewFlagSet("access-operator", pflag.ContinueOnError)
		o.addFlags(flags)
		if err := flags.Parse(strings.Fields(arguments)); err != nil {
			t.Fatal(err)
		}
		if got, err := o.parseReferences(); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q (%v), want %q", arguments, got, err, want)
		}
	}
}
