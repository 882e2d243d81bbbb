package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/keyturn/keyturn/internal/probe"
)

func TestATemplateChoosesFromTheOutputOfEveryCommand(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		world   *world
		command func(connector) *cobra.Command
		args    []string
		want    string
	}{
		"one field":              {calm(), statusCommand, []string{"kafka/my", "-o", "jsonpath={.namespace}/{.cluster}"}, "kafka/my"},
		"each of a list":         {calm(), statusCommand, []string{"kafka/my", "-o", `jsonpath={range .domains[*]}{.domain}={.phase}{"\n"}{end}`}, "cluster-ca=Trusted\nclients-ca=Trusted\n"},
		"what a filter lets by":  {calm(), statusCommand, []string{"kafka/my", "-o", `jsonpath={.conditions[?(@.type=="Ready")].status}`}, "True"},
		"clusters of all":        {several(t), statusCommand, []string{"-A", "-o", "jsonpath={.items[*].cluster}"}, "my orders my"},
		"a number of a plan":     {calm(), planCommand, []string{"kafka/my", "--replace", "cluster-ca", "-o", "jsonpath={.domains[0].ageSeconds}"}, "12"},
		"what was asked":         {calm(), rotateCommand, []string{"kafka/my", "--cluster-ca", "-o", "jsonpath={.secret}: {.asked}"}, "my-cluster-ca: replace the key of the cluster CA"},
		"a field that is absent": {calm(), planCommand, []string{"kafka/my", "-o", "jsonpath={.domains[0].if}"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := call(t, test.world, test.command, test.args...); err != nil || out != test.want {
				t.Errorf("error %v, output %q, want %q", err, out, test.want)
			}
		})
	}
}

func TestATemplateChoosesFromTheVersionAndFromTheAccountOfAProbe(t *testing.T) {
	t.Parallel()
	if out, _, code := typed("kubectl-keyturn", "version", "-o", "jsonpath={.platform}"); code != 0 || !strings.Contains(out, "/") || strings.Contains(out, "\n") {
		t.Errorf("version ends with %d and prints %q", code, out)
	}
	var out strings.Builder
	result := probe.Result{Complete: true, Snapshot: probe.Snapshot{Clients: []probe.ClientState{{Kind: "pinned"}, {Kind: "plain"}}}}
	if err := show(&out, "jsonpath={.complete} {.clients[*].kind}", accountText(result), result); err != nil || out.String() != "true pinned plain" {
		t.Errorf("error %v, output %q", err, out.String())
	}
}

func TestABadTemplateIsAUsageError(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ output, want string }{
		"nothing behind the equals sign": {"jsonpath=", "jsonpath= needs a template, for example jsonpath='{.cluster}'\n"},
		"no equals sign":                 {"jsonpath", `"jsonpath" is not an output format: use table, json, yaml or jsonpath=TEMPLATE`},
		"a brace that stays open":        {"jsonpath={.cluster", `"{.cluster" is not a JSONPath template: unclosed action`},
		"a filter that stays open":       {"jsonpath={.items[?(@.x}", `"{.items[?(@.x}" is not a JSONPath template: unterminated`},
	}
	for name, test := range tests {
		for _, command := range [][]string{{"status", "kafka/my"}, {"plan", "kafka/my"}, {"probe", "kafka/my"}, {"rotate", "kafka/my", "--cluster-ca"}, {"version"}} {
			t.Run(name+" of "+command[0], func(t *testing.T) {
				t.Parallel()
				_, err, code := typed(append(append([]string{"kubectl-keyturn"}, command...), "-o", test.output)...)
				if code != 1 || !strings.HasPrefix(err, test.want) || !strings.Contains(err, "See 'kubectl keyturn "+command[0]+" --help'.") {
					t.Errorf("it ends with %d and says %q, want %q", code, err, test.want)
				}
			})
		}
	}
}

func TestATemplateThatDoesNotFitTheOutputSaysWhatShowsIt(t *testing.T) {
	t.Parallel()
	_, err := call(t, calm(), statusCommand, "kafka/my", "-o", "jsonpath={.domains[7].phase}")
	if err == nil || !strings.Contains(err.Error(), "does not fit the output, which -o json shows: ") {
		t.Errorf("error %v", err)
	}
}
