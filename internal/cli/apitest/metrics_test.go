package apitest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/keyturn/keyturn/internal/freeport"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// programVariable has the test program be that of the operators.
const programVariable = "KEYTURN_TEST_OPERATORS"

var (
	scraped = regexp.MustCompile(`^([a-z_]+)(\{.*\})? \S+$`)
	label   = regexp.MustCompile(`(\w+)="`)
)

// The list of metrics that alerts and dashboards are tested against is true of the processes. Alerts for operators that are
// gone need the metric of the Lease, which other libraries make.
func TestOperatorsServeTheMetricsThatAreListed(t *testing.T) {
	t.Parallel()
	const watching = "--watch-namespaces=scraped"
	apply := kubetest.Connect(t, environment.Config)
	if err := apply.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "scraped"}}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ arguments, want []string }{
		"operator": {
			arguments: []string{"--kafka-image=4.3.1=kafka:4.3.1", "--agent-image=keyturn:test", "--operator-namespace=scraped", "--operator-labels=app.kubernetes.io/name=keyturn", watching},
			want:      []string{`leader_election_master_status{name="keyturn-operator"} 1`, "keyturn_operator_clock_ahead_seconds ", `controller_runtime_reconcile_errors_total{controller="kafka"} 0`},
		},
		"user-operator": {
			arguments: []string{"--cluster=my-cluster", "--namespace=scraped"},
			want: []string{
				`leader_election_master_status{name="my-cluster-user-operator"} 1`, "keyturn_operator_clock_ahead_seconds ",
				`keyturn_user_resources{cluster="my-cluster",namespace="scraped",ready="true"} 0`,
			},
		},
		"topic-operator": {
			arguments: []string{"--cluster=my-cluster", "--namespace=scraped"},
			want:      []string{`leader_election_master_status{name="my-cluster-topic-operator"} 1`, "keyturn_operator_clock_ahead_seconds "},
		},
		"access-operator": {
			arguments: []string{watching},
			want:      []string{`leader_election_master_status{name="keyturn-access-operator"} 1`, `keyturn_access_resources{ready="true"} 0`},
		},
		"etcd-operator": {
			arguments: []string{"--agent-image=keyturn:test", "--operator-namespace=scraped", watching},
			want:      []string{`leader_election_master_status{name="keyturn-etcd-operator"} 1`, "keyturn_operator_clock_ahead_seconds "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := runProgram(t, append([]string{name, "--leader-election-namespace=scraped"}, test.arguments...)...)
			text := scrape(t, address, test.want)
			checkListed(t, text)
		})
	}
}

// runProgram runs an operator as a process of its own and returns the address of its metrics.
func runProgram(t *testing.T, arguments ...string) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeport.Address(t)
	var output bytes.Buffer
	// The program is this one again, by way of one that leaves out the variable by which tests start programs.
	stop, err := kubetest.Run(&output, "/usr/bin/env", slices.Concat(
		[]string{"--unset=KEYTURN_TEST_PROGRAM", programVariable + "=1", "KUBECONFIG=" + kubeconfig, own},
		arguments, []string{"--metrics-address=" + address, "--probe-address=0"},
	)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("the operator wrote:\n%s", output.String())
		}
	})
	return address
}

// scrape waits until the metrics have lines that begin as wanted, and returns them.
func scrape(t *testing.T, address string, want []string) string {
	t.Helper()
	var text string
	missing := func(begin string) bool { return !strings.Contains(text, "\n"+begin) }
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // it does not listen yet
		}
		answer, err := io.ReadAll(response.Body)
		text = string(answer)
		return err == nil && !slices.ContainsFunc(want, missing), response.Body.Close()
	})
	if err != nil {
		t.Fatalf("not all metrics begin with one of %q: %v\n%s", want, err, text)
	}
	return text
}

// checkListed holds metrics and their labels to the list.
func checkListed(t *testing.T, text string) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join("..", "testdata", "metrics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Split(string(list), "\n")
	for line := range strings.Lines(text) {
		parts := scraped.FindStringSubmatch(strings.TrimSpace(line))
		if len(parts) == 0 || strings.HasPrefix(parts[1], "go_") {
			continue
		}
		var labels []string
		for _, match := range label.FindAllStringSubmatch(parts[2], -1) {
			if match[1] != "le" {
				labels = append(labels, match[1])
			}
		}
		slices.Sort(labels)
		isIt := func(ending string) bool {
			name, has := strings.CutSuffix(parts[1], ending)
			return has && slices.Contains(listed, name+"{"+strings.Join(labels, ",")+"}")
		}
		if !slices.ContainsFunc([]string{"", "_sum", "_count", "_bucket"}, isIt) {
			t.Errorf("the list of metrics lacks %s", strings.TrimSpace(line))
		}
	}
}
