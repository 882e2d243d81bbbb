package cli

import (
	"errors"
	"testing"

	"github.com/spf13/pflag"
)

func TestTheEtcdOperatorKnowsWhereItsCAsAre(t *testing.T) {
	o := etcdOperatorOptions{}
	t.Setenv(operatorNamespaceVariable, "keyturn")
	flags := pflag.NewFlagSet("etcd-operator", pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse([]string{"--agent-image=keyturn:test", "--watch-namespaces=etcd"}); err != nil {
		t.Fatal(err)
	}
	if err := o.complete(); err != nil || o.namespace != "keyturn" {
		t.Errorf("the namespace is %q, %v, want that of the variable", o.namespace, err)
	}
	options := o.managerOptions()
	if _, watched := options.Cache.DefaultNamespaces["etcd"]; options.LeaderElectionID != "keyturn-etcd-operator" || !watched {
		t.Errorf("the Lease is %s, the namespaces are %v", options.LeaderElectionID, options.Cache.DefaultNamespaces)
	}
	o.namespace = ""
	if err := o.complete(); err == nil {
		t.Error("no error without a namespace")
	}
}

func TestTheRepositoryOfEtcdHasNoTag(t *testing.T) {
	t.Parallel()
	for argument, isTaken := range map[string]bool{
		"--access=false": true, // the default
		"--image-repository=mirror.example.org:5000/etcd/etcd":  true,
		"--image-repository=etcd":                               true,
		"--image-repository=":                                   false,
		"--image-repository=mirror.example.org/etcd:v3.6.16":    false,
		"--image-repository=mirror.example.org/etcd@sha256:abc": false,
		"--image-repository=mirror.example.org/":                false,
		"--image-repository=mirror.example.org/a b":             false,
	} {
		o := etcdOperatorOptions{}
		flags := pflag.NewFlagSet("etcd-operator", pflag.ContinueOnError)
		o.addFlags(flags)
		if err := flags.Parse([]string{"--agent-image=keyturn:test", "--operator-namespace=keyturn", argument}); err != nil {
			t.Fatal(err)
		}
		_, isRefused := errors.AsType[repositoryError](o.complete())
		if isRefused == isTaken {
			t.Errorf("%s is refused: %t", argument, isRefused)
		}
	}
}
