package kstatus_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/api/condition"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	etcdmodel "github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kstatus"
	"github.com/keyturn/keyturn/internal/kstatus/kstatustest"
	"github.com/keyturn/keyturn/internal/unattended"
	usermodel "github.com/keyturn/keyturn/internal/user/model"
)

// generation is that of each resource here.
const generation = 2

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "kafka", Name: "my-cluster", Generation: generation}
}

// read is a resource with a status, as tools read it.
func read(t *testing.T, kind schema.GroupVersionKind, status any) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.Marshal(map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{"name": "my-cluster", "generation": generation}, "status": status,
	})
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, object); err != nil {
		t.Fatal(err)
	}
	return object
}

func kafka(observed int64, said ...condition.Condition) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		for i := range said {
			said[i].Status = condition.True
		}
		return read(t, kafkav1.GroupVersion.WithKind(kafkav1.KindKafka), kafkav1.KafkaStatus{
			ObservedGeneration: observed, Conditions: kstatus.Strimzi(said, nil, noon()),
		})
	}
}

func user(problem *usermodel.Remark) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		return read(t, kafkav1.GroupVersion.WithKind(kafkav1.KindKafkaUser), usermodel.Status(
			usermodel.Observed{User: &kafkav1.KafkaUser{ObjectMeta: meta()}, Now: noon()}, usermodel.Decision{Problem: problem}, "my-user"))
	}
}

func access(form binding.Form, status func(*binding.Access) accessv1alpha1.KafkaAccessStatus) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		return read(t, form.GroupVersion.WithKind("KafkaAccess"), status(&binding.Access{ObjectMeta: meta(), Form: form}))
	}
}

func accessProblem(reason binding.Reason) func(*binding.Access) accessv1alpha1.KafkaAccessStatus {
	return func(a *binding.Access) accessv1alpha1.KafkaAccessStatus {
		return binding.Status(a, binding.Outcome{Problem: &binding.NotReadyError{Reason: reason}}, noon())
	}
}

func etcd(paused bool, ready int, problem *etcdmodel.Problem) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		cluster, _ := etcdmodel.Resolve(&etcdv1beta2.EtcdCluster{
			ObjectMeta: meta(), Spec: etcdv1beta2.EtcdClusterSpec{Size: 3, Paused: paused},
		}, etcdmodel.Settings{})
		var members []etcdv1beta2.MemberStatus
		for i := range ready {
			members = append(members, etcdv1beta2.MemberStatus{Name: cluster.Names.Member(i), Role: etcdv1beta2.RoleVoter, Ready: true})
		}
		return read(t, etcdv1beta2.GroupVersion.WithKind(etcdv1beta2.KindEtcdCluster),
			cluster.Status(etcdmodel.Seen{Members: members, Problem: problem, Now: noon()}))
	}
}

func etcdAccess(problem *etcdmodel.Problem) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		return read(t, keyturnv1alpha1.GroupVersion.WithKind(keyturnv1alpha1.KindEtcdAccess),
			etcdmodel.AccessStatus(&keyturnv1alpha1.EtcdAccess{ObjectMeta: meta()}, nil, problem, noon()))
	}
}

func backup(before etcdv1beta2.EtcdBackupStatus, seen etcdmodel.BackupSeen) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		seen.Now = noon()
		resource := etcdmodel.Backup{EtcdBackup: &etcdv1beta2.EtcdBackup{ObjectMeta: meta(), Status: before, Spec: etcdv1beta2.EtcdBackupSpec{
			StorageType: etcdv1beta2.StorageVolume, EtcdCluster: &etcdv1beta2.ClusterReference{Name: "my-cluster"},
			Volume: &etcdv1beta2.VolumeStorage{ClaimName: "backups"}, BackupPolicy: &etcdv1beta2.BackupPolicy{},
		}}}
		return read(t, etcdv1beta2.GroupVersion.WithKind("EtcdBackup"), resource.Next(seen))
	}
}

func outsidePKI(mode keyturnv1alpha1.PKIMode, problem *etcdmodel.Problem) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		resource := &keyturnv1alpha1.EtcdPKI{ObjectMeta: meta(), Spec: keyturnv1alpha1.EtcdPKISpec{Mode: mode}}
		return read(t, keyturnv1alpha1.GroupVersion.WithKind("EtcdPKI"), etcdmodel.PKIStatus(etcdmodel.PKISeen{PKI: resource, Problem: problem, Now: noon()}))
	}
}

// withoutOperator is a resource of which another operator says that none looks at it.
func withoutOperator(kind unattended.Kind) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		object := meta()
		return read(t, kind.GroupVersionKind, kind.Intent(&metav1.PartialObjectMetadata{ObjectMeta: object}, noon()).Object["status"])
	}
}

// untouched is a resource without a status, as the API server shows it.
func untouched(kind schema.GroupVersionKind) func(*testing.T) *unstructured.Unstructured {
	return func(t *testing.T) *unstructured.Unstructured {
		t.Helper()
		return read(t, kind, map[string]any{"observedGeneration": -1})
	}
}

func is(kind condition.Type, reason string) condition.Condition {
	return condition.Condition{Type: kind, Reason: reason, Message: "It is so."}
}

// What tools say. Argo CD has a check of its own for Kafka and KafkaUser.
const (
	current    = "Current"
	inProgress = "InProgress"
	failed     = "Failed"

	healthy     = "Healthy"
	progressing = "Progressing"
	degraded    = "Degraded"
)

func TestToolsThatWaitTellWhatContinuesFromWhatNeedsAPerson(t *testing.T) {
	t.Parallel()
	configured := configuredCheck(t)
	ready, paused := is(condition.Ready, ""), is(condition.ReconciliationPaused, "ReconciliationPaused")
	for name, test := range map[string]struct {
		object func(*testing.T) *unstructured.Unstructured
		// builtIn is what Argo CD says by itself.
		kstatus, builtIn string
	}{
		"Kafka without a status":          {untouched(kafkav1.GroupVersion.WithKind(kafkav1.KindKafka)), inProgress, progressing},
		"Kafka of an older generation":    {kafka(generation-1, ready), inProgress, healthy},
		"Kafka is created":                {kafka(generation, is(condition.NotReady, "Creating")), inProgress, progressing},
		"Kafka is ready":                  {kafka(generation, ready), current, healthy},
		"Kafka warns":                     {kafka(generation, is(condition.Warning, "KafkaStorage"), ready), current, healthy},
		"Kafka restarts":                  {kafka(generation, ready, is("RollingUpdate", "Progressing")), inProgress, healthy},
		"Kafka waits with restarts":       {kafka(generation, ready, is("RollingUpdate", "Blocked")), inProgress, healthy},
		"Kafka waits for pods":            {kafka(generation, is(condition.NotReady, "PodsNotReady")), inProgress, degraded},
		"Kafka is tried again":            {kafka(generation, is(condition.NotReady, "ReconciliationFailed")), inProgress, degraded},
		"Kafka is refused":                {kafka(generation, is(condition.NotReady, "InvalidResourceException")), failed, degraded},
		"Kafka presents what has expired": {kafka(generation, is(condition.NotReady, "CertificatesExpired"), is("RollingUpdate", "Progressing")), inProgress, degraded},
		"Kafka has a rotation that waits": {kafka(generation, is(condition.NotReady, "RotationBlocked")), failed, degraded},
		"Kafka meets a foreign object":    {kafka(generation, is(condition.NotReady, "ForeignObject")), inProgress, degraded},
		"Kafka has a reason of later":     {kafka(generation, is(condition.NotReady, "OfALaterRelease")), inProgress, degraded},
		"Kafka of another operator":       {kafka(generation, is(condition.NotReady, "MadeByAnother")), failed, degraded},
		"Kafka is paused":                 {kafka(generation, paused), current, progressing},
		"Kafka is paused before a change": {kafka(generation-1, paused), inProgress, progressing},
		"KafkaNodePool without a status":  {untouched(kafkav1.GroupVersion.WithKind(kafkav1.KindKafkaNodePool)), inProgress, ""},
		"KafkaUser is ready":              {user(nil), current, healthy},
		"KafkaUser precedes its Kafka":    {user(&usermodel.Remark{Reason: usermodel.MissingKafka}), inProgress, degraded},
		"KafkaUser waits for brokers":     {user(&usermodel.Remark{Reason: usermodel.KafkaUnreachable}), inProgress, degraded},
		"KafkaUser has a bad quota":       {user(&usermodel.Remark{Reason: usermodel.RejectedByKafka}), failed, degraded},
		"KafkaUser without an operator":   {withoutOperator(usermodel.Unattended()), inProgress, degraded},
		"KafkaAccess is new":              {access(binding.Public(), func(a *binding.Access) accessv1alpha1.KafkaAccessStatus { return binding.First(a, noon()) }), inProgress, ""},
		"KafkaAccess waits for its Kafka": {access(binding.Public(), accessProblem(binding.WaitingForKafka)), inProgress, ""},
		"KafkaAccess names no listener":   {access(binding.Proposed(), accessProblem(binding.ListenerNotFound)), failed, ""},
		"KafkaAccess is bound": {access(binding.Proposed(), func(a *binding.Access) accessv1alpha1.KafkaAccessStatus {
			return binding.Status(a, binding.Outcome{}, noon())
		}), current, ""},
		"KafkaAccess without an operator":  {withoutOperator(binding.Unattended(binding.Public())), inProgress, ""},
		"EtcdCluster without a status":     {untouched(etcdv1beta2.GroupVersion.WithKind(etcdv1beta2.KindEtcdCluster)), inProgress, ""},
		"EtcdCluster is created":           {etcd(false, 1, nil), inProgress, ""},
		"EtcdCluster is ready":             {etcd(false, 3, nil), current, ""},
		"EtcdCluster is ready and paused":  {etcd(true, 3, nil), current, ""},
		"EtcdCluster is paused too small":  {etcd(true, 1, nil), failed, ""},
		"EtcdCluster has lost its CA":      {etcd(false, 3, &etcdmodel.Problem{Reason: etcdmodel.CALost}), failed, ""},
		"EtcdCluster restarts its members": {etcd(false, 3, &etcdmodel.Problem{Reason: "Restarting"}), inProgress, ""},
		"EtcdAccess precedes its cluster":  {etcdAccess(&etcdmodel.Problem{Reason: etcdmodel.CANotReady}), inProgress, ""},
		"EtcdAccess is denied":             {etcdAccess(&etcdmodel.Problem{Reason: etcdmodel.RequestDenied}), failed, ""},
		"EtcdAccess is ready":              {etcdAccess(nil), current, ""},
		"EtcdAccess without an operator":   {withoutOperator(etcdmodel.UnattendedAccess()), inProgress, ""},
		"EtcdBackup runs":                  {backup(etcdv1beta2.EtcdBackupStatus{}, etcdmodel.BackupSeen{Started: "pod-uid"}), inProgress, ""},
		"EtcdBackup has no space":          {backup(etcdv1beta2.EtcdBackupStatus{}, etcdmodel.BackupSeen{Result: &contract.BackupResult{Failure: contract.VolumeNotWritable}}), failed, ""},
		"EtcdBackup lacks a quorum":        {backup(etcdv1beta2.EtcdBackupStatus{}, etcdmodel.BackupSeen{Problem: etcdmodel.WithoutQuorum(etcdmodel.Names{})}), inProgress, ""},
		"EtcdPKI is the operator's":        {outsidePKI("", nil), current, ""},
		"EtcdPKI waits for its signer":     {outsidePKI(keyturnv1alpha1.Outside, &etcdmodel.Problem{Reason: etcdmodel.WaitingForSigner}), inProgress, ""},
		"EtcdPKI has a bad answer":         {outsidePKI(keyturnv1alpha1.Outside, &etcdmodel.Problem{Reason: etcdmodel.KeyMismatch}), failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := test.object(t)
			if got := kstatustest.Compute(t, object); got != test.kstatus {
				t.Errorf("Flux and Helm read %s, want %s: %v", got, test.kstatus, object.Object["status"])
			}
			if script := kstatustest.BuiltIn(object); (script == "") != (test.builtIn == "") {
				t.Errorf("Argo CD has a check for %s: %t", object.GetKind(), script != "")
			} else if script != "" {
				if got := kstatustest.Health(t, script, object); got != test.builtIn {
					t.Errorf("Argo CD reads %s, want %s", got, test.builtIn)
				}
			}
			want := map[string]string{inProgress: progressing, failed: degraded, current: healthy}[test.kstatus]
			if got := kstatustest.Health(t, configured, object); got != want {
				t.Errorf("the check of the page reads %s, want %s", got, want)
			}
		})
	}
}

// configuredCheck is the check that the page has people configure in Argo CD.
func configuredCheck(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "conditions.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\nkind: ConfigMap\n")
	block, _, _ = strings.Cut(block, "```")
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal([]byte(block), &configMap); err != nil {
		t.Fatal(err)
	}
	var customizations map[string]map[string]string
	if err := yaml.Unmarshal([]byte(configMap.Data["resource.customizations"]), &customizations); err != nil {
		t.Fatal(err)
	}
	script := customizations["keyturn.dev/*"]["health.lua"]
	for _, kinds := range []string{
		"access.strimzi.io/*", "etcd.database.coreos.com/*", "kafka.strimzi.io/Kafka", "kafka.strimzi.io/KafkaAccess",
		"kafka.strimzi.io/KafkaNodePool", "kafka.strimzi.io/KafkaUser",
	} {
		if customizations[kinds]["health.lua"] != script {
			t.Errorf("the page has no check for %s", kinds)
		}
	}
	return script
}
