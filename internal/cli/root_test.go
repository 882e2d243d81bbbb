package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/internal/cli/build"
)

// typed runs the command line as a shell does.
func typed(args ...string) (out, err string, code int) {
	var outs, errs bytes.Buffer
	if args[0] == asItself().file {
		code = Main(args, &outs, &errs)
	} else {
		code = Plugin(args, &outs, &errs, nil)
	}
	return outs.String(), errs.String(), code
}

func TestErrorsBeginWithWhatFailedAndEndWithWhereToRead(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"as a plugin of kubectl": {
			[]string{"/usr/bin/kubectl-keyturn", "plan", "kafka/my", "--replace", "etcd"},
			"\"etcd\" is not a CA of a Kafka: name cluster-ca or clients-ca\nSee 'kubectl keyturn plan --help'.\n",
		},
		"with an unknown flag": {[]string{"kubectl-keyturn", "plan", "--upside-down"}, "unknown flag: --upside-down\nSee 'kubectl keyturn plan --help'.\n"},
		"as an operator":       {[]string{"keyturn", "operator", "--upside-down"}, "unknown flag: --upside-down\nSee 'keyturn operator --help'.\n"},
		"with a misspelled command": {
			[]string{"kubectl-keyturn", "stauts", "kafka/my", "-n", "kafka"},
			"unknown command \"stauts\" for \"kubectl keyturn\"\n\nDid you mean this?\n\tstatus\n\nSee 'kubectl keyturn --help'.\n",
		},
		"without a Kafka": {
			[]string{"kubectl-keyturn", "status"},
			"specify kafka/NAME, etcd/NAME or --all-namespaces\nSee 'kubectl keyturn status --help'.\n",
		},
		"a plan without a Kafka": {
			[]string{"kubectl-keyturn", "plan"}, "specify kafka/NAME, for example kafka/my-cluster\nSee 'kubectl keyturn plan --help'.\n",
		},
		"the status of one cluster and of all": {
			[]string{"kubectl-keyturn", "status", "etcd/my", "-A"},
			"specify either one cluster or --all-namespaces, which shows Kafka clusters, and not both\nSee 'kubectl keyturn status --help'.\n",
		},
		"the status of something else": {
			[]string{"kubectl-keyturn", "status", "foo/my"}, "\"foo/my\" does not name a cluster: specify kafka/NAME or etcd/NAME\nSee 'kubectl keyturn status --help'.\n",
		},
		"a probe of no kind": {
			[]string{"kubectl-keyturn", "probe", "kafka/my", "--kinds", "pinned,foo@tls"},
			"\"foo\" is not a kind of client: use pinned, ca.crt, ca.crt-first, all-crt, mtls, mtls-reissued, scram or plain\nSee 'kubectl keyturn probe --help'.\n",
		},
		"the completion of another shell": {
			[]string{"kubectl-keyturn", "completion", "tcsh"},
			"\"tcsh\" is not supported: use bash, fish, powershell or zsh\nSee 'kubectl keyturn completion --help'.\n",
		},
		"a probe over no way": {
			[]string{"kubectl-keyturn", "probe", "kafka/my", "--via", "pigeon"},
			"\"pigeon\" is not a way to the brokers: use auto, direct, port-forward or dns\nSee 'kubectl keyturn probe --help'.\n",
		},
		"with an argument too many": {
			[]string{"keyturn", "version", "kafka/my"}, "keyturn version takes no argument, and \"kafka/my\" is one\nSee 'keyturn version --help'.\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err, code := typed(test.args...)
			if code != 1 || err != test.want || out != "" {
				t.Errorf("it ends with %d and says %q, want %q", code, err, test.want)
			}
		})
	}
}

func TestEveryCommandAboutAKafkaSaysThatItsNameIsMissing(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"status", "plan", "rotate", "probe"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			_, err, code := typed("kubectl-keyturn", command)
			if code != 1 || !strings.HasPrefix(err, "specify kafka/NAME") {
				t.Errorf("it ends with %d and says %q", code, err)
			}
		})
	}
}

func TestExitCodesTellFailureFromRefusalFromHarm(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{1: errors.ErrUnsupported, 2: fmt.Errorf("asking: %w", refuse("no")), 3: errProbeHarmed} {
		if got := exitCode(err); got != want {
			t.Errorf("%v ends with %d, want %d", err, got, want)
		}
	}
}

func TestHelpLeavesConnectionFlagsToOptions(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"check", "status", "plan", "rotate", "probe"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			help, _, code := typed("kubectl-keyturn", command, "--help")
			if code != 0 || strings.Contains(help, "--kubeconfig") || strings.Contains(help, "--as-group") {
				t.Errorf("help ends with %d and tells of flags that all commands have:\n%s", code, help)
			}
			if !strings.Contains(help, "Use \"kubectl keyturn options\" ") || !strings.Contains(help, "--help") {
				t.Errorf("help does not say where they are, or leaves out those of its own:\n%s", help)
			}
		})
	}
	options, _, code := typed("kubectl-keyturn", "options")
	for _, flag := range []string{"--kubeconfig", "--context", "--namespace", "--as-group", "--request-timeout"} {
		if code != 0 || !strings.Contains(options, flag) {
			t.Errorf("options ends with %d and leaves %s out:\n%s", code, flag, options)
		}
	}
	if help, _, _ := typed("kubectl-keyturn", "version", "--help"); strings.Contains(help, "options\"") {
		t.Errorf("help of a command that reaches no cluster speaks of such flags:\n%s", help)
	}
}

func TestEachProgramHasItsOwnCommands(t *testing.T) {
	t.Parallel()
	operators := []string{"operator", "user-operator", "topic-operator", "access-operator", "etcd-operator"}
	for file, want := range map[string][]string{
		"keyturn":         append(operators, "completion", "probe", "version"),
		"kubectl-keyturn": {"check", "completion", "options", "plan", "probe", "rotate", "status", "version"},
	} {
		root := newOperatorsRoot(nil, nil)
		if file == asPlugin().file {
			root = newPluginRoot(nil, nil, nil)
		}
		var got []string
		for _, cmd := range root.Commands() {
			got = append(got, cmd.Name())
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %q, want %q", file, got, want)
		}
	}
	if help, _, _ := typed("keyturn", "--help"); strings.Contains(help, " options\"") {
		t.Errorf("help of a program that reaches no cluster by flags speaks of such flags:\n%s", help)
	}
	if offered, _, _ := typed(completer+".exe", ""); !strings.Contains(offered, "status\t") {
		t.Errorf("on Windows it completes %q", offered)
	}
	if offered, _, _ := typed(completer, ""); !strings.Contains(offered, "status\t") {
		t.Errorf("kubectl completes:\n%s", offered)
	}
}

func TestVersionInEveryForm(t *testing.T) {
	t.Parallel()
	text, _, code := typed("kubectl-keyturn", "version")
	if want := "kubectl keyturn " + build.Version() + " (go"; code != 0 || !strings.HasPrefix(text, want) {
		t.Errorf("it ends with %d and says %q, want %q", code, text, want)
	}
	forms := map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(data []byte, into any) error { return yaml.UnmarshalStrict(data, into) },
	}
	for output, read := range forms {
		text, _, code := typed("kubectl-keyturn", "version", "-o", output)
		var got versionReport
		if err := read([]byte(text), &got); err != nil || code != 0 || got.Version != build.Version() || got.Platform == "" || got.GoVersion == "" {
			t.Errorf("-o %s ends with %d, error %v:\n%s", output, code, err, text)
		}
	}
}
