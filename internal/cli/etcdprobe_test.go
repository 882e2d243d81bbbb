package cli

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/probe/etcdload"
	"github.com/keyturn/keyturn/internal/probe/ledger"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
)

func TestAProbeOfEtcdConnectsWithTheSecretOfAnEtcdAccess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*keyturnv1alpha1.EtcdAccess)
		access string
		says   string
	}{
		"one to the cluster":        {func(*keyturnv1alpha1.EtcdAccess) {}, "my-app", ""},
		"none":                      {func(*keyturnv1alpha1.EtcdAccess) {}, "other", "there is no EtcdAccess other in namespace kafka"},
		"one to another cluster":    {func(a *keyturnv1alpha1.EtcdAccess) { a.Spec.Cluster.Name = "other" }, "my-app", "is one to EtcdCluster other"},
		"one of another place":      {func(a *keyturnv1alpha1.EtcdAccess) { a.Spec.Cluster.Namespace = "other" }, "my-app", "and not to etcd/my-cluster"},
		"one without a Secret":      {func(a *keyturnv1alpha1.EtcdAccess) { a.Status.Binding = nil }, "my-app", "has no Secret yet: no operator has reconciled it"},
		"one with a key of its own": {func(a *keyturnv1alpha1.EtcdAccess) { a.Spec.Request = "PEM" }, "my-app", "is its application's own"},
		"one that is not ready": {func(a *keyturnv1alpha1.EtcdAccess) {
			a.Status.Binding = nil
			a.Status.Conditions = []metav1.Condition{{Type: keyturnv1alpha1.ConditionReady, Message: "The cluster has no CA."}}
		}, "my-app", "has no Secret yet: The cluster has no CA."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access := &keyturnv1alpha1.EtcdAccess{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-app"},
				Spec:       keyturnv1alpha1.EtcdAccessSpec{Cluster: keyturnv1alpha1.EtcdClusterReference{Name: "my-cluster"}},
				Status:     keyturnv1alpha1.EtcdAccessStatus{Binding: &keyturnv1alpha1.SecretBinding{Name: "credentials"}},
			}
			test.change(access)
			c := etcdCluster{connection{client: fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(access).Build(), namespace: "kafka"}, "my-cluster"}
			secret, err := c.accessSecret(t.Context(), test.access)
			if test.says == "" {
				if err != nil || secret.String() != "kafka/credentials" {
					t.Errorf("Secret %s, error %v", secret, err)
				}
				return
			}
			if _, isRefused := errors.AsType[refusedError](err); !isRefused || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %q", err, test.says)
			}
		})
	}
}

func TestTheAccountOfAProbeOfEtcdSaysWhoWasHarmed(t *testing.T) {
	t.Parallel()
	c := etcdCluster{connection{namespace: "etcd"}, "my-cluster"}
	good := etcdload.Result{
		Account: etcdload.Account{Writes: 960, Retries: 2, Reads: 240, Stall: ledger.Gap{Length: 410 * time.Millisecond}}, Keys: 16,
		Connections: []report.Handshakes{{Who: etcdload.Working, Node: "my-cluster-0.my-cluster-peers.etcd.svc:2379", Accepted: 20, Unreachable: 1}},
	}
	harmed := good
	harmed.Failed, harmed.Problems = 1, []string{"key load/3/0 has a history that no register has"}
	harmed.Refusals = []etcdload.Refusal{{Reason: verdict.UnknownAuthority}, {Reason: verdict.UnknownAuthority}}
	for name, test := range map[string]struct {
		result etcdload.Result
		code   int
	}{"etcd-ok": {good, 0}, "etcd-harmed": {harmed, exitHarmed}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := etcdAccount(c, "my-app", test.result, time.Minute)
			golden(t, filepath.Join("probe", name+".txt"), etcdAccountText(account))
			if err := account.judged(); test.code == 0 && err != nil || test.code > 0 && exitCode(err) != test.code {
				t.Errorf("it ends with %v, want code %d", err, test.code)
			}
		})
	}
	for name, only := range map[string]etcdload.Result{
		"a failed write":       {Account: etcdload.Account{Failed: 1}},
		"a wrong history":      {Problems: harmed.Problems},
		"a refused connection": {Refusals: harmed.Refusals},
	} {
		if err := etcdAccount(c, "my-app", only, time.Minute).judged(); !errors.Is(err, errEtcdProbeHarmed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
