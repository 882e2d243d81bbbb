package servertest

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// playedKubectl answers what the page asks for the operator's certificate, and records the rest. It forwards no ports: those of
// members take the place of them.
const playedKubectl = `#!/bin/sh
case "$*" in
%s"port-forward --namespace etcd pod/my-cluster-"*) echo "$*" >> forwarded ;;
"apply --namespace etcd -f -") cat > applied ;;
"wait --namespace etcd etcdcluster/rescued --for=condition=Ready --timeout=15m") test -s applied ;;
*) echo "no answer to kubectl $*" >&2; exit 1 ;;
esac
`

// connect is a command of the block that connects etcdctl to three members.
const connect = "export ETCDCTL_ENDPOINTS"

// runPage runs blocks of the page after one another in one shell, as they are there, and returns where.
func (w *world) runPage(commands ...string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	w.playKubectl(dir)
	var script, ports []string
	for _, command := range commands {
		script = append(script, block(w.t, command))
	}
	for ordinal := range 3 {
		_, port, _ := strings.Cut(w.member(w.names.Member(ordinal)).ports[contract.ClientPlane], ":")
		ports = append(ports, fmt.Sprintf("localhost:%d2379", ordinal+1), "localhost:"+port)
	}
	run := exec.CommandContext(w.t.Context(), "bash", "-e", "-c", strings.NewReplacer(ports...).Replace(strings.Join(append(script, "wait"), "\n")))
	run.Dir, run.Env = dir, append(os.Environ(), fmt.Sprintf("PATH=%s:%s:%s", dir, w.home, os.Getenv("PATH")))
	if output, err := run.CombinedOutput(); err != nil {
		w.t.Fatalf("the commands of the page: %v\n%s", err, output)
	}
	forwarded, err := os.ReadFile(filepath.Join(dir, "forwarded"))
	if err != nil {
		w.t.Fatal(err)
	}
	got, want := strings.Split(strings.TrimSpace(string(forwarded)), "\n"), []string{}
	for ordinal := range 3 {
		want = append(want, fmt.Sprintf("port-forward --namespace etcd pod/my-cluster-%d %d2379:2379", ordinal, ordinal+1))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("the page forwards other ports (-want +got):\n%s", diff)
	}
	return dir
}

// playKubectl writes a kubectl that has the Secret of the operator by the name on the page.
func (w *world) playKubectl(dir string) {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: w.private, Name: w.names.OperatorSecret()}, secret); err != nil {
		w.t.Fatal(err)
	}
	var answers strings.Builder
	name := model.Names{Namespace: "etcd", Cluster: cluster}.OperatorSecret()
	for entry, value := range secret.Data {
		path := strings.ReplaceAll(entry, ".", `\.`)
		fmt.Fprintf(&answers, "\"get secret %s --namespace keyturn -o jsonpath={.data['%s']}\") echo %s ;;\n", name, path, base64.StdEncoding.EncodeToString(value))
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), fmt.Appendf(nil, playedKubectl, answers.String()), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// applied is the EtcdCluster that the page has created.
func applied(t *testing.T, dir string) *etcdv1beta2.EtcdCluster {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "applied"))
	if err != nil {
		t.Fatal(err)
	}
	resource := &etcdv1beta2.EtcdCluster{}
	if err := yaml.UnmarshalStrict(text, resource); err != nil {
		t.Fatal(err)
	}
	return resource
}

// block is the one block of commands on the page about etcd that has a command, without the indentation of a list.
func block(t *testing.T, command string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "etcd.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	parts := strings.Split(string(page), "```")
	for i := 1; i < len(parts); i += 2 {
		if strings.Contains(parts[i], command) {
			indentation := parts[i-1][strings.LastIndex(parts[i-1], "\n"):]
			found = append(found, strings.ReplaceAll(parts[i], indentation, "\n"))
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of docs/etcd.md have the command %s", len(found), command)
	}
	return found[0]
}
