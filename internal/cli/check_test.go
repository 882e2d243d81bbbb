package cli

import (
	"context"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keyturn/keyturn/api/condition"
	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
)

// ending lets the certificate of each node end after a time.
func ending(left time.Duration) rotationtest.Change {
	return func(r *rotation.Record) {
		for id, facts := range r.Members {
			facts.LeafNotAfter = at().Add(left)
			r.Members[id] = facts
		}
	}
}

// caEnding lets the CA end after a time.
func caEnding(left time.Duration) rotationtest.Change {
	return func(r *rotation.Record) { r.Snapshot.Anchors[0].NotAfter = at().Add(left) }
}

// kafkaWith is a world with a changed Kafka.
func kafkaWith(w *world, change func(*kafkav1.Kafka)) *world {
	change(w.kafka)
	return w
}

// reading answers each Get of a kind of object with an error.
func reading[T client.Object](w *world, err error) *world {
	w.calls.Get = func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, is := object.(T); is {
			return err
		}
		return api.Get(ctx, key, object, options...)
	}
	return w
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
}

// listing answers each List of a kind of object with an error.
func listing[T client.ObjectList](w *world, err error) *world {
	w.calls.List = func(ctx context.Context, api client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, is := list.(T); is {
			return err
		}
		return api.List(ctx, list, options...)
	}
	return w
}

func blocked(t *testing.T) *world {
	t.Helper()
	return calm(until(t, rotationtest.AtRest(2, rotationtest.Replaced, rotationtest.Crossed,
		rotationtest.Silent("my-dual-1", rotationtest.Now().Add(-time.Hour))), rotation.Blocked))
}

// ended is the exit code of a command that returned an error, or none.
func ended(err error) int {
	if err == nil {
		return 0
	}
	return exitCode(err)
}

func TestACheckEndsWithACodeForEachOutcome(t *testing.T) {
	t.Parallel()
	const day = rotationtest.Day
	missing := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "EtcdCluster"}}
	paused := func(k *kafkav1.Kafka) {
		k.Status.Conditions = []condition.Condition{{Type: condition.ReconciliationPaused, Status: condition.True}}
	}
	own := func(k *kafkav1.Kafka) {
		k.Spec.ClusterCa = &kafkav1.CertificateAuthority{GenerateCertificateAuthority: new(false)}
	}
	outside := func(k *kafkav1.Kafka) {
		k.Spec.ClusterCa = &kafkav1.CertificateAuthority{Type: "cert-manager.io"}
	}
	soon := func(k *kafkav1.Kafka) { k.Spec.ClusterCa = &kafkav1.CertificateAuthority{RenewalDays: new(int32(10))} }
	issued := func(ago time.Duration) func(*kafkav1.Kafka) {
		return func(k *kafkav1.Kafka) {
			k.Status.Users = &kafkav1.UsersStatus{Total: 2, Ready: 2, Oldest: &metav1.Time{Time: at().Add(-ago)}}
		}
	}
	tests := map[string]struct {
		world *world
		args  []string
		code  int
		says  string
	}{
		"a healthy Kafka":                          {calm(), []string{"kafka/my"}, 0, "Checked 1 cluster: ready, and no renewal is overdue."},
		"by its name alone":                        {calm(), []string{"my"}, 0, "Checked 1 cluster"},
		"a healthy Kafka, and a time":              {calm(), []string{"kafka/my", "--fail-within", "30d"}, 0, "no certificate expires within 30d"},
		"all of the namespace":                     {several(t), nil, 0, "Checked 1 cluster"},
		"nothing is renewed in a year":             {calm(), []string{"kafka/my", "--fail-within", "300d"}, 4, "CA certificate cluster-ca v0"},
		"a node's certificate is overdue":          {calm(rotationtest.AtRest(1, ending(20*day))), []string{"kafka/my"}, 4, "certificate of node my-dual-0 expires in 20d and was due for renewal 30d before its end"},
		"overdue by another setting":               {kafkaWith(calm(rotationtest.AtRest(1, ending(8*day))), soon), []string{"kafka/my"}, 4, "was due for renewal 10d before its end"},
		"not due by another setting":               {kafkaWith(calm(rotationtest.AtRest(1, ending(20*day))), soon), []string{"kafka/my"}, 0, "Checked"},
		"a node's certificate has expired":         {calm(rotationtest.AtRest(1, ending(-time.Hour))), []string{"kafka/my"}, 4, "has expired"},
		"hours":                                    {calm(rotationtest.AtRest(1, ending(29*day+12*time.Hour))), []string{"kafka/my", "--fail-within", "709h"}, 4, "It is renewed by itself 30d before its end."},
		"a CA is overdue":                          {calm(rotationtest.AtRest(1, caEnding(20*day))), []string{"kafka/my"}, 4, "RenewalOverdue"},
		"a CA of its owner's":                      {kafkaWith(calm(rotationtest.AtRest(1, caEnding(20*day))), own), []string{"kafka/my"}, 4, "Renew it where it comes from"},
		"an issuer whose certificates are short":   {kafkaWith(calm(rotationtest.AtRest(1, ending(day))), outside), []string{"kafka/my"}, 0, "Checked"},
		"the same within a time":                   {kafkaWith(calm(rotationtest.AtRest(1, ending(day))), outside), []string{"kafka/my", "--fail-within", "2d"}, 4, "It is renewed before its end."},
		"an old certificate of a user":             {kafkaWith(calm(), issued(360*day)), []string{"kafka/my", "--fail-within", "7d"}, 4, "oldest certificate of a KafkaUser"},
		"an old certificate of a user, no time":    {kafkaWith(calm(), issued(360*day)), []string{"kafka/my"}, 0, "Checked"},
		"users that are not ready":                 {kafkaWith(calm(), func(k *kafkav1.Kafka) { k.Status.Users = &kafkav1.UsersStatus{Total: 3, Ready: 1} }), []string{"kafka/my"}, 5, "2 of 3 KafkaUsers are not ready"},
		"a rotation that moves":                    {calm(midway(t)), []string{"kafka/my"}, 0, "Checked"},
		"a rotation that is blocked":               {blocked(t), []string{"kafka/my"}, 5, "cluster CA is Blocked: "},
		"a pause":                                  {kafkaWith(calm(), paused), []string{"kafka/my"}, 5, "Remove the annotation strimzi.io/pause-reconciliation."},
		"no status":                                {kafkaWith(calm(), func(k *kafkav1.Kafka) { k.Status = kafkav1.KafkaStatus{} }), []string{"kafka/my"}, 5, "Check that an operator runs and watches namespace kafka."},
		"a refused Kafka in another namespace":     {several(t), []string{"-A"}, 5, "InvalidResourceException"},
		"a Kafka that does not exist":              {calm(), []string{"kafka/other"}, 1, ""},
		"a Kafka that may not be read":             {reading[*kafkav1.Kafka](calm(), forbidden("kafkas")), []string{"kafka/my"}, 1, ""},
		"a record that may not be read":            {reading[*corev1.ConfigMap](calm(), forbidden("configmaps")), []string{"kafka/my"}, 1, "you need the right to get kafkas.kafka.strimzi.io my and ConfigMap my-trust"},
		"a record that there is not":               {&world{kafka: calm().kafka}, []string{"kafka/my"}, 1, "The operator has recorded nothing about its certificates"},
		"Kafkas that may not be listed":            {listing[*kafkav1.KafkaList](calm(), forbidden("kafkas")), nil, 1, ""},
		"EtcdClusters that may not be listed":      {listing[*etcdv1beta2.EtcdClusterList](calm(), forbidden("etcdclusters")), nil, 0, "EtcdClusters were not checked: ask for the right to list etcdclusters.etcd.database.coreos.com in namespace kafka"},
		"EtcdClusters that are not answered about": {listing[*etcdv1beta2.EtcdClusterList](calm(), errors.New("timeout")), nil, 1, ""},
		"EtcdClusters that are not installed":      {listing[*etcdv1beta2.EtcdClusterList](calm(), missing), nil, 0, "Checked 1 cluster: ready, and no renewal is overdue.\n"},
		"Kafkas that are not installed":            {listing[*kafkav1.KafkaList](calm(), missing), nil, 1, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := call(t, test.world, checkCommand, test.args...)
			if code := ended(err); code != test.code || !strings.Contains(out, test.says) || (test.says == "") != (out == "") {
				t.Errorf("it ends with %d (%v), want %d with %q:\n%s", code, err, test.code, test.says, out)
			}
		})
	}
}

func TestACheckOfNoClusterDoesNotPass(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().WithScheme(newScheme()).Build()
	for want, args := range map[string][]string{
		"there is no cluster to check in namespace kafka":   nil,
		"there is no cluster to check in all namespaces":    {"-A"},
		"reading EtcdCluster kafka/my":                      {"etcd/my"},
		"kafka/my does not exist in namespace kafka: kubec": {"kafka/my"},
	} {
		if out, err := callOn(t.Context(), api, checkCommand, args...); out != "" || ended(err) != 1 || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("check %v prints %q and ends with %v, want %q", args, out, err, want)
		}
	}
}

func TestACheckThatIsMistypedHasACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"a time without a unit":   {[]string{"--fail-within", "30"}, `invalid argument "30" for "--fail-within" flag: "30" is not a time: use days or hours, for example 30d or 12h`},
		"no time at all":          {[]string{"--fail-within", "0d"}, `invalid argument "0d" for "--fail-within" flag: "0d" is not a time that certificates can expire within: use a time longer than zero`},
		"a time in the past":      {[]string{"--fail-within", "-3d"}, `invalid argument "-3d" for "--fail-within" flag: "-3d" is not a time`},
		"an output":               {[]string{"-o", "wide"}, `"wide" is not an output format: use table, json, yaml or jsonpath=TEMPLATE`},
		"a template":              {[]string{"-o", "jsonpath={.x"}, `"{.x" is not a JSONPath template: unclosed action`},
		"an unknown flag":         {[]string{"--within", "3d"}, "unknown flag: --within"},
		"another kind":            {[]string{"pod/my"}, `"pod/my" does not name a cluster: specify kafka/NAME or etcd/NAME`},
		"two clusters":            {[]string{"kafka/a", "etcd/b"}, `unexpected argument "etcd/b": specify one kafka/NAME or etcd/NAME`},
		"one and all":             {[]string{"kafka/a", "-A"}, "specify either one cluster or --all-namespaces, and not both"},
		"an etcd without a name":  {[]string{"etcd/"}, "does not name"},
		"a Kafka without a name":  {[]string{"kafka/"}, `"kafka/" does not name a Kafka cluster`},
		"a time without its text": {[]string{"--fail-within", ""}, `invalid argument "" for "--fail-within" flag`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err, code := typed(append([]string{"kubectl-keyturn", "check"}, test.args...)...)
			if code != 6 || out != "" || !strings.Contains(err, test.want) || !strings.HasSuffix(err, "See 'kubectl keyturn check --help'.\n") {
				t.Errorf("it ends with %d, prints %q and says %q, want %q", code, out, err, test.want)
			}
		})
	}
}

func TestACheckWithoutAKubeconfigCouldNotAsk(t *testing.T) {
	t.Parallel()
	_, err, code := typed("kubectl-keyturn", "check", "--kubeconfig", filepath.Join(t.TempDir(), "none"))
	if code != 1 || !strings.HasPrefix(err, "reading kubeconfig: ") {
		t.Errorf("it ends with %d and says %q", code, err)
	}
}

// troubled has something of every kind.
func troubled(t *testing.T) *world {
	t.Helper()
	w := several(t)
	w.records = []rotation.Record{rotationtest.AtRest(2, ending(20*rotationtest.Day), caEnding(-time.Hour))}
	w.kafka.Status.Users = &kafkav1.UsersStatus{Total: 3, Ready: 1}
	ca := pkitest.CA(t, "public", rotationtest.Now().Add(-60*rotationtest.Day))
	leaf, err := ca.Issue(pkitest.Signer(t, elliptic.P256()).Public(), pki.LeafSpec{
		Subject: pki.Subject{CommonName: "kafka.example.com"}, Usages: pki.BothUsages(), Validity: 6 * rotationtest.Day, Now: rotationtest.Now().Add(-5 * rotationtest.Day),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.kafka.Status.Listeners = []kafkav1.ListenerStatus{
		{Name: "tls", Certificates: []string{string(pki.EncodeBundle(ca.Certificate()))}},
		{Name: "external", Certificates: []string{string(pki.EncodeBundle(leaf, ca.Certificate()))}},
		{Name: "odd", Certificates: []string{"no certificate"}},
	}
	return w
}

func TestFindingsInEveryForm(t *testing.T) {
	t.Parallel()
	for output, file := range map[string]string{"table": "findings.txt", "json": "findings.json"} {
		out, err := call(t, troubled(t), checkCommand, "-A", "-o", output)
		if ended(err) != 5 {
			t.Errorf("-o %s ends with %v", output, err)
		}
		golden(t, filepath.Join("check", file), out)
	}
	out, err := call(t, calm(), checkCommand, "kafka/my", "--fail-within", "30d", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("check", "passed.json"), out)
	out, err = call(t, troubled(t), checkCommand, "kafka/my", "-o", `jsonpath={range .findings[*]}{.finding}{"\n"}{end}`)
	if ended(err) != 5 || strings.Count(out, "RenewalOverdue\n") != 2 {
		t.Errorf("the template ends with %v:\n%s", err, out)
	}
}

func TestATemplateThatFailsDoesNotHideTheVerdict(t *testing.T) {
	t.Parallel()
	_, err := call(t, troubled(t), checkCommand, "kafka/my", "-o", "jsonpath={.findings[99]}")
	if ended(err) != 5 || !strings.Contains(err.Error(), "does not fit the output") {
		t.Errorf("it ends with %v", err)
	}
}

func TestACheckReadsNoSecretOfAKafka(t *testing.T) {
	t.Parallel()
	w := calm()
	w.calls = kafkaAndRecordAlone(t)
	if _, err := call(t, w, checkCommand, "kafka/my"); err != nil {
		t.Fatal(err)
	}
}

// etcdReady is etcdWorld with members that are all ready.
func etcdReady(t *testing.T) []client.Object {
	t.Helper()
	objects := etcdWorld(t)
	etcd, is := objects[0].(*etcdv1beta2.EtcdCluster)
	if !is {
		t.Fatalf("the first object is %T", objects[0])
	}
	etcd.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "MembersReady"}}
	return objects
}

func TestACheckOfAnEtcdCluster(t *testing.T) {
	t.Parallel()
	secretForbidden := interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, is := object.(*corev1.Secret); is {
			return forbidden("secrets")
		}
		return api.Get(ctx, key, object, options...)
	}}
	static := etcdReady(t)[:1]
	unattended := []client.Object{&etcdv1beta2.EtcdCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-cluster"}}}
	tests := map[string]struct {
		objects []client.Object
		calls   interceptor.Funcs
		args    []string
		code    int
		says    string
	}{
		"healthy":                    {etcdReady(t), interceptor.Funcs{}, nil, 0, "Checked 1 cluster"},
		"healthy, in its namespace":  {etcdReady(t), interceptor.Funcs{}, []string{"--fail-within", "7d"}, 0, "Checked 1 cluster"},
		"its members within a time":  {etcdReady(t), interceptor.Funcs{}, []string{"--fail-within", "30d"}, 4, "peer certificate of member my-cluster-0 expires in 30d"},
		"static":                     {static, interceptor.Funcs{}, nil, 0, "Checked 1 cluster"},
		"not ready":                  {etcdWorld(t), interceptor.Funcs{}, nil, 5, "RequestDenied: The peer request of pod my-cluster-1 is denied"},
		"without a status":           {unattended, interceptor.Funcs{}, nil, 5, "NoStatus"},
		"without the right to a CA":  {etcdReady(t), secretForbidden, nil, 1, "The CAs are not shown: Secret my-cluster-0"},
		"the same, and one expires":  {etcdReady(t), secretForbidden, []string{"--fail-within", "30d"}, 4, "NotRead"},
		"without the right to a pod": {etcdReady(t), reading[*corev1.Pod](&world{}, forbidden("pods")).calls, nil, 1, "its certificates cannot be read"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(test.objects...).WithInterceptorFuncs(test.calls).Build()
			for _, named := range [][]string{{"etcd/my-cluster"}, nil} {
				out, err := callOn(t.Context(), api, checkCommand, append(named, test.args...)...)
				if code := ended(err); code != test.code || !strings.Contains(out, test.says) {
					t.Errorf("check %v ends with %d (%v), want %d with %q:\n%s", named, code, err, test.code, test.says, out)
				}
			}
		})
	}
}

// The report of a compromised node is part of the output.
func TestAFindingIsOneLineOfText(t *testing.T) {
	t.Parallel()
	w := calm()
	w.kafka.Status.Conditions = []condition.Condition{{
		Type: condition.NotReady, Status: condition.True, Reason: "Other", Message: "x\x1b[2J\nkafka  kafka/my  is fine",
	}}
	out, err := call(t, w, checkCommand, "kafka/my")
	if ended(err) != 5 || strings.Contains(out, "\x1b") || strings.Count(out, "\n") != 2 {
		t.Errorf("it ends with %v:\n%q", err, out)
	}
}

func TestAPassedCheckHasNoFindingsInJSON(t *testing.T) {
	t.Parallel()
	out, err := call(t, calm(), checkCommand, "-o", "json")
	var report checkReport
	if err := errors.Join(err, json.Unmarshal([]byte(out), &report)); err != nil || report.Findings == nil || len(report.Checked) != 1 || report.Verdict != "Passed" {
		t.Errorf("error %v:\n%s", err, out)
	}
}
