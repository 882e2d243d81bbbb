package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/featuregate"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

func completeOptions() operatorOptions {
	return operatorOptions{
		kafkaImages: map[string]string{"4.3.1": "kafka"}, agentImage: "keyturn",
		networkPolicies: true, operatorNamespace: "keyturn", operatorLabels: map[string]string{"app": "keyturn"},
	}
}

// Without them, the operator would shut itself out of its own clusters.
func TestPoliciesAreNotMadeByAnOperatorThatDoesNotKnowItself(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*operatorOptions){
		"operator-namespace": func(o *operatorOptions) { o.operatorNamespace = "" },
		"operator-labels":    func(o *operatorOptions) { o.operatorLabels = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := completeOptions()
			change(&o)
			if missing, is := errors.AsType[missingFlagError](o.complete()); !is || string(missing) != name {
				t.Errorf("missing is %q, want %s", missing, name)
			}
			o.networkPolicies = false
			if err := o.complete(); err != nil {
				t.Errorf("it is asked for although no policies are made: %v", err)
			}
		})
	}
}

func TestPodsGetThePullSecretsOfTheFlag(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]struct {
		secrets []corev1.LocalObjectReference
		says    string
	}{
		"--image-pull-secrets=":           {},
		"--image-pull-secrets=b,a":        {secrets: []corev1.LocalObjectReference{{Name: "b"}, {Name: "a"}}},
		"--image-pull-secrets=a,a":        {says: `reading --image-pull-secrets: "a" is there twice: give each Secret once, by its name`},
		"--image-pull-secrets=a,,b":       {says: "one has no name"},
		"--image-pull-secrets=Not_a_name": {says: `"Not_a_name" cannot be the name of a Secret`},
	} {
		t.Run(argument, func(t *testing.T) {
			t.Parallel()
			o := operatorOptions{}
			flags := pflag.NewFlagSet("operator", pflag.ContinueOnError)
			o.addFlags(flags)
			if err := flags.Parse([]string{"--kafka-image=4.3.1=kafka", "--agent-image=keyturn", "--network-policies=false", argument}); err != nil {
				t.Fatal(err)
			}
			err := o.complete()
			if want.says != "" {
				if err == nil || !strings.Contains(err.Error(), want.says) {
					t.Errorf("the error is %v, want %q", err, want.says)
				}
				return
			}
			if diff := cmp.Diff(want.secrets, o.settings().PullSecrets); err != nil || diff != "" {
				t.Errorf("error %v, pull Secrets (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestThePoliciesLetInWhomTheFlagsName(t *testing.T) {
	t.Parallel()
	o := completeOptions()
	want := &model.NetworkPolicies{OperatorNamespace: "keyturn", OperatorLabels: map[string]string{"app": "keyturn"}}
	if diff := cmp.Diff(want, o.settings().NetworkPolicies); diff != "" {
		t.Errorf("settings differ (-want +got):\n%s", diff)
	}
	o.networkPolicies = false
	if got := o.settings().NetworkPolicies; got != nil {
		t.Errorf("policies are made that were switched off: %+v", got)
	}
}

func TestTheLeaseIsTheOneThatTheFlagNames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"without the flag": {want: "keyturn-operator"},
		"with it":          {arguments: []string{"--leader-election-id=shop-keyturn-operator"}, want: "shop-keyturn-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := operatorOptions{}
			flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
			o.addFlags(flags)
			if err := flags.Parse(test.arguments); err != nil {
				t.Fatal(err)
			}
			if got := o.managerOptions().LeaderElectionID; got != test.want {
				t.Errorf("the Lease is %s, want %s", got, test.want)
			}
		})
	}
}

// The variable is Strimzi's, and what the chart sets; it is that of the process, so these tests take turns.
func TestFeatureGatesAreThoseOfTheFlagOrOfTheEnvironment(t *testing.T) {
	for name, test := range map[string]struct {
		flag, variable string
		want           featuregate.State
	}{
		"neither":                    {want: featuregate.Off},
		"the variable":               {variable: "+CertManagerCaType", want: featuregate.On},
		"the flag":                   {flag: "+CertManagerCaType", want: featuregate.On},
		"the flag over the variable": {flag: "-CertManagerCaType", variable: "+CertManagerCaType", want: featuregate.Off},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("STRIMZI_FEATURE_GATES", test.variable)
			o := completeOptions()
			o.featureGates = test.flag
			if err := o.complete(); err != nil {
				t.Fatal(err)
			}
			if got := o.gates.CertManagerCaType; got != test.want {
				t.Errorf("the gate is %s, want %s", got, test.want)
			}
		})
	}
}

func TestABadFeatureGateStopsTheStart(t *testing.T) {
	for name, test := range map[string]struct {
		flag, variable, source string
		want                   error
	}{
		"unknown, in the variable": {variable: "+UnknownGate", source: "STRIMZI_FEATURE_GATES", want: featuregate.ErrUnknown},
		"malformed, in the flag":   {flag: "CertManagerCaType", source: "--feature-gates", want: featuregate.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("STRIMZI_FEATURE_GATES", test.variable)
			o := completeOptions()
			o.featureGates = test.flag
			err := o.complete()
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.source) {
				t.Errorf("got %v, want one that names %s and is: %v", err, test.source, test.want)
			}
		})
	}
}
