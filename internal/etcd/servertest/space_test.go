package servertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// quota is that of the database of each member, in bytes.
const quota = 32 << 20

// A cluster is filled until it accepts no writes, and freed by the commands on the page.
func TestTheWayOutOfNoSpaceOnThePageIsOne(t *testing.T) {
	t.Parallel()
	if apiServer == nil {
		t.Skipf("$%s and $%s are needed", assets, etcdHomes)
	}
	for home, size := range map[string]int32{homeOf(t, "etcd35"): 1, homeOf(t, "etcd36"): 3} {
		t.Run(filepath.Base(home), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, home, etcdv1beta2.EtcdClusterSpec{Size: size, Pod: &etcdv1beta2.PodPolicy{
				Ephemeral: true, EtcdEnv: []corev1.EnvVar{{Name: "ETCD_QUOTA_BACKEND_BYTES", Value: strconv.Itoa(quota)}},
			}})
			w.until("ready", w.isReady)
			w.look()
			w.until("looked at", w.hasReason(etcdv1beta2.ConditionEtcdHealthy, "NoAlarm"))
			w.fill(quota * 85 / 100)
			w.look()
			w.until("the quota is nearly used", w.hasReason(etcdv1beta2.ConditionEtcdHealthy, "QuotaNearlyUsed"))
			w.fill(2 * quota)
			w.look()
			w.until("out of space", w.hasReason(etcdv1beta2.ConditionReady, "NoSpace"))
			w.runPage("etcdctl compact", int(size))
			if err := w.put("freed", 1); err != nil {
				t.Errorf("after the commands of the page: %v", err)
			}
			w.look()
			w.until("ready again", w.isReady)
			if healthy := w.condition(t.Context(), etcdv1beta2.ConditionEtcdHealthy); healthy != "NoAlarm" {
				t.Errorf("EtcdHealthy has the reason %s", healthy)
			}
		})
	}
}

func (w *world) hasReason(condition, reason string) func(context.Context) bool {
	return func(ctx context.Context) bool { return w.condition(ctx, condition) == reason }
}

// condition is the reason of a condition.
func (w *world) condition(ctx context.Context, name string) string {
	w.t.Helper()
	if condition := apimeta.FindStatusCondition(w.status(ctx).Conditions, name); condition != nil {
		return condition.Reason
	}
	return ""
}

// fill writes a key again and again until the database has a size, or etcd accepts no more.
func (w *world) fill(size int64) {
	w.t.Helper()
	client, err := w.client(w.t.Context(), w.names.Member(0))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for {
		status, err := client.Status(w.t.Context(), client.Endpoints()[0])
		if err != nil {
			w.t.Fatal(err)
		}
		if status.DbSize >= size {
			return
		}
		if err := w.put("filled", 256<<10); errors.Is(err, rpctypes.ErrNoSpace) {
			return
		} else if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) put(key string, size int) error {
	client, err := w.client(w.t.Context(), w.names.Member(0))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = client.Put(w.t.Context(), key, strings.Repeat("x", size))
	return err
}

// runPage runs the commands of the block on the page that has a command, as the operator, against all members.
func (w *world) runPage(command string, size int) {
	w.t.Helper()
	secret, dir := &corev1.Secret{}, w.t.TempDir()
	if err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: w.private, Name: w.names.OperatorSecret()}, secret); err != nil {
		w.t.Fatal(err)
	}
	for variable, entry := range map[string]string{
		"ETCDCTL_CACERT": model.OperatorAnchorsEntry, "ETCDCTL_CERT": model.OperatorCertEntry, "ETCDCTL_KEY": model.OperatorKeyEntry,
	} {
		if err := os.WriteFile(filepath.Join(dir, variable), secret.Data[entry], 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	var endpoints []string
	for ordinal := range size {
		_, port, _ := strings.Cut(w.member(w.names.Member(ordinal)).ports[contract.ClientPlane], ":")
		endpoints = append(endpoints, "https://localhost:"+port)
	}
	run := exec.CommandContext(w.t.Context(), "sh", "-e", "-c", block(w.t, command))
	run.Dir, run.Env = dir, append(os.Environ(), fmt.Sprintf("PATH=%s:%s", w.home, os.Getenv("PATH")), "ETCDCTL_ENDPOINTS="+strings.Join(endpoints, ","),
		"ETCDCTL_CACERT=ETCDCTL_CACERT", "ETCDCTL_CERT=ETCDCTL_CERT", "ETCDCTL_KEY=ETCDCTL_KEY")
	if output, err := run.CombinedOutput(); err != nil {
		w.t.Fatalf("the commands of the page: %v\n%s", err, output)
	}
}

// block is the one block of commands on the page about etcd that has a command.
func block(t *testing.T, command string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "etcd.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for i, part := range strings.Split(string(page), "```") {
		if i%2 == 1 && strings.Contains(part, command) {
			found = append(found, part)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of docs/etcd.md have the command %s", len(found), command)
	}
	return found[0]
}
