package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

const twoContexts = `{apiVersion: v1, kind: Config, current-context: staging,
clusters: [{name: s, cluster: {server: "https://staging"}}, {name: p, cluster: {server: "https://prod"}}],
users: [{name: s, user: {token: one}}, {name: p, user: {token: two}}],
contexts: [{name: staging, context: {cluster: s, user: s, namespace: kafka}}, {name: prod, context: {cluster: p, user: p}}]}`

// chosen is whom the flags choose of the two contexts.
func chosen(t *testing.T, args ...string) (*rest.Config, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(twoContexts), 0o600); err != nil {
		t.Fatal(err)
	}
	config, flags := newKubeconfig(), pflag.NewFlagSet("connection", pflag.ContinueOnError)
	config.addFlags(flags)
	if err := flags.Parse(append([]string{"--kubeconfig", file}, args...)); err != nil {
		t.Fatal(err)
	}
	found, err := config.loader().ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	namespace, _, err := config.loader().Namespace()
	if err != nil {
		t.Fatal(err)
	}
	return found, namespace
}

func TestFlagsChooseTheClusterAsKubectlsDo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args                     []string
		server, token, namespace string
	}{
		"no flag":                   {nil, "https://staging", "one", "kafka"},
		"another context":           {[]string{"--context", "prod"}, "https://prod", "two", "default"},
		"another cluster and user":  {[]string{"--cluster", "p", "--user", "p"}, "https://prod", "two", "kafka"},
		"a server in short":         {[]string{"-s", "https://other"}, "https://other", "one", "kafka"},
		"a token":                   {[]string{"--token", "three"}, "https://staging", "three", "kafka"},
		"a namespace in short":      {[]string{"-n", "mine"}, "https://staging", "one", "mine"},
		"a namespace with its kind": {[]string{"--namespace", "ns/mine"}, "https://staging", "one", "mine"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, namespace := chosen(t, test.args...)
			if config.Host != test.server || config.BearerToken != test.token || namespace != test.namespace {
				t.Errorf("got %s with token %q and namespace %q", config.Host, config.BearerToken, namespace)
			}
		})
	}
}

func TestAUserIsImpersonatedWithGroupsAndExtras(t *testing.T) {
	t.Parallel()
	config, _ := chosen(t, "--as", "jane", "--as-uid", "7", "--as-group", "ops", "--as-group", "dev",
		"--as-user-extra", "scopes=read", "--as-user-extra", "scopes=a=b", "--as-user-extra", "team=kafka")
	got := config.Impersonate
	if got.UserName != "jane" || got.UID != "7" || !slices.Equal(got.Groups, []string{"ops", "dev"}) {
		t.Errorf("impersonated is %+v", got)
	}
	want := map[string][]string{"scopes": {"read", "a=b"}, "team": {"kafka"}}
	if !maps.EqualFunc(got.Extra, want, slices.Equal[[]string]) {
		t.Errorf("extras are %v, want %v", got.Extra, want)
	}
}

func TestAnExtraWithoutAKeyIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"scopes", "=read", ""} {
		_, message, code := typed("kubectl-keyturn", "status", "--as-user-extra", text)
		if code == 0 || !strings.Contains(message, "--as-user-extra") || !strings.Contains(message, "is not of the form key=value") {
			t.Errorf("%q ends with %d and says %q", text, code, message)
		}
	}
}

func TestNobodyIsNamedByAPasswordOnACommandLine(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	newKubeconfig().addFlags(flags)
	for _, name := range []string{"username", "password"} {
		if flags.Lookup(name) != nil {
			t.Errorf("there is a flag --%s", name)
		}
	}
}
