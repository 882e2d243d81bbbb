package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
)

func TestCompletionScriptsAreForTheExecutable(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"keyturn", "kubectl-keyturn"} {
		for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
			t.Run(file+" in "+shell, func(t *testing.T) {
				t.Parallel()
				script, _, code := typed(file, "completion", shell)
				first, _, _ := strings.Cut(script, "\n\n")
				if code != 0 || !strings.Contains(first, file) || strings.Contains(first, "for kubectl ") {
					t.Errorf("it ends with %d, and its script begins\n%s", code, first)
				}
				if strings.Contains(script, "__start_kubectl kubectl\n") {
					t.Error("the script takes kubectl's own completion away")
				}
			})
		}
	}
}

func TestKubectlIsToldHowToCompleteThePlugin(t *testing.T) {
	t.Parallel()
	help, _, _ := typed("kubectl-keyturn", "completion", "--help")
	if !strings.Contains(help, "/kubectl_complete-keyturn") {
		t.Errorf("help does not name the link that kubectl wants:\n%s", help)
	}
}

func TestKubectlCompletesThePlugin(t *testing.T) {
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	const content = `{apiVersion: v1, kind: Config, contexts: [{name: prod, context: {}}, {name: staging, context: {}}]}`
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"a command":                  {[]string{"stat"}, "status\tShow which CA is trusted, and what each node trusts and presents\n:4\n"},
		"an output":                  {[]string{"plan", "kafka/my", "-o", "y"}, "yaml\n:4\n"},
		"a time":                     {[]string{"check", "--fail-within", "1"}, "14d\n:4\n"},
		"the output of a check":      {[]string{"check", "kafka/my", "-o", "y"}, "yaml\n:4\n"},
		"no name for a check of all": {[]string{"check", "--all-namespaces", ""}, ":4\n"},
		"a flag of a check":          {[]string{"check", "--fail"}, "--fail-within\ttime within which no certificate may expire, for example 30d or 12h (default: the renewal time of each certificate)\n:4\n"},
		"a template":                 {[]string{"version", "-o", "jsonp"}, "jsonpath=\n:6\n"},
		"a CA":                       {[]string{"plan", "kafka/my", "--replace", ""}, "cluster-ca\nclients-ca\n:4\n"},
		"a context":                  {[]string{"status", "--kubeconfig", kubeconfig, "--context", "st"}, "staging\n:4\n"},
		"a kind beside others":       {[]string{"probe", "kafka/my", "--kinds", "pinned,scr"}, "pinned,scram\n:6\n"},
		"nothing where no cluster answers": {
			[]string{"status", "--kubeconfig", kubeconfig, "--context", "gone", "kafka/"}, ":4\n",
		},
		"no namespace where no cluster answers": {
			[]string{"status", "--kubeconfig", kubeconfig, "--context", "gone", "--namespace", ""}, ":4\n",
		},
		"nothing beside all namespaces": {[]string{"status", "--all-namespaces", ""}, ":4\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _, code := typed(append([]string{"/usr/local/bin/kubectl_complete-keyturn"}, test.args...)...)
			if code != 0 || fitting(out, test.args[len(test.args)-1]) != test.want {
				t.Errorf("it ends with %d and offers\n%swant\n%s", code, out, test.want)
			}
		})
	}
}

// fitting is what a shell shows of what it is offered.
func fitting(offered, begun string) string {
	var shown strings.Builder
	for line := range strings.Lines(offered) {
		if strings.HasPrefix(line, begun) || strings.HasPrefix(line, ":") {
			shown.WriteString(line)
		}
	}
	return shown.String()
}

func TestNamesOfKafkasAreCompleted(t *testing.T) {
	t.Parallel()
	refused := interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("forbidden")
	}}
	tests := map[string]struct {
		begun string
		args  []string
		calls interceptor.Funcs
		want  []string
	}{
		"from nothing":                    {"", nil, interceptor.Funcs{}, []string{"kafka/my", "kafka/orders"}},
		"after the kind":                  {"kafka/o", nil, interceptor.Funcs{}, []string{"kafka/orders"}},
		"by its plural":                   {"kafkas/", nil, interceptor.Funcs{}, []string{"kafkas/my", "kafkas/orders"}},
		"by the name alone":               {"or", nil, interceptor.Funcs{}, []string{"orders"}},
		"not for another kind":            {"pod/", nil, interceptor.Funcs{}, nil},
		"not a second one":                {"", []string{"kafka/my"}, interceptor.Funcs{}, nil},
		"nothing where they are not told": {"", nil, refused, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := calm()
			w.others = []client.Object{
				&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "orders"}},
				&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "other"}},
			}
			w.calls = test.calls
			to := connection{client: w.build(t), namespace: "kafka", clock: clocktesting.NewFakeClock(at())}
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			got, directive := completeKafka(func() (connection, error) { return to, nil })(cmd, test.args, test.begun)
			if !slices.Equal(got, test.want) || directive != cobra.ShellCompDirectiveNoFileComp {
				t.Errorf("offered %v with directive %d, want %v", got, directive, test.want)
			}
		})
	}
}

func TestCompletionAsksForMetadataAndNotForAllOfIt(t *testing.T) {
	t.Parallel()
	w := calm()
	w.calls = interceptor.Funcs{List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		var asked client.ListOptions
		asked.ApplyOptions(opts)
		if _, metadata := list.(*metav1.PartialObjectMetadataList); !metadata || asked.Limit == 0 || asked.Limit > mostNames {
			t.Errorf("it lists %T with limit %d", list, asked.Limit)
		}
		return api.List(ctx, list, opts...)
	}}
	to := connection{client: w.build(t), namespace: "kafka"}
	if got, err := kafkas(t.Context(), func() (connection, error) { return to, nil }); err != nil || len(got) != 1 {
		t.Errorf("names %v, error %v", got, err)
	}
}

func TestCompletionDoesNotWaitForAClusterThatIsSilent(t *testing.T) {
	t.Parallel()
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	ctx, pass := context.WithCancel(t.Context())
	pass() // the time is over
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	got, directive := completeKafka(func() (connection, error) {
		<-silent
		return connection{}, errors.New("it is too late")
	})(cmd, nil, "")
	if len(got) > 0 || directive != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("offered %v with directive %d", got, directive)
	}
}
