package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// world is a namespace with one Kafka and what the operator has written about it.
type world struct {
	kafka   *kafkav1.Kafka
	records []rotation.Record
	secrets map[string]map[string]string // annotations by name
	others  []client.Object
	calls   interceptor.Funcs
}

func calm(records ...rotation.Record) *world {
	if len(records) == 0 {
		records = []rotation.Record{rotationtest.AtRest(3), rotationtest.AtRest(3, rotationtest.Clients)}
	}
	return &world{
		kafka: &kafkav1.Kafka{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my"},
			Status: kafkav1.KafkaStatus{Conditions: []condition.Condition{
				{Type: condition.Ready, Status: condition.True},
				{Type: "ClusterCATrust", Status: condition.True, Reason: "Trusted", Message: "is said above"},
				{Type: condition.Warning, Status: condition.True, Reason: "AgentSilent", Message: "the agents of pods my-dual-1 do not answer"},
			}},
		},
		records: records,
		secrets: map[string]map[string]string{"my-cluster-ca": nil, "my-cluster-ca-cert": nil, "my-clients-ca": nil, "my-clients-ca-cert": nil},
	}
}

// warned adds a warning to those that the Kafka has.
func (w *world) warned(reason, message string) *world {
	w.kafka.Status.Conditions = append(w.kafka.Status.Conditions, condition.Condition{
		Type: condition.Warning, Status: condition.True, Reason: reason, Message: message,
	})
	return w
}

func (w *world) build(t *testing.T) client.Client {
	t.Helper()
	objects := append([]client.Object{w.kafka}, w.others...)
	for _, name := range slices.Sorted(maps.Keys(w.secrets)) {
		objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "kafka", Name: name, ResourceVersion: "41", Annotations: w.secrets[name], Labels: map[string]string{"strimzi.io/cluster": "my"},
		}})
	}
	if len(w.records) > 0 {
		objects = append(objects, configMap(t, w.records...))
	}
	return fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(objects...).WithInterceptorFuncs(w.calls).Build()
}

func configMap(t *testing.T, records ...rotation.Record) *corev1.ConfigMap {
	t.Helper()
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-trust"}, BinaryData: map[string][]byte{}}
	for _, record := range records {
		encoded, err := record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		stored.BinaryData[rotation.Key(record.Domain)] = encoded
	}
	return stored
}

// at is when commands are given: some time after everything began.
func at() time.Time { return rotationtest.Now().Add(12 * time.Second) }

// call runs one command against a world.
func call(t *testing.T, w *world, command func(connector) *cobra.Command, args ...string) (string, error) {
	t.Helper()
	return callOn(t.Context(), w.build(t), command, args...)
}

func callOn(ctx context.Context, api client.Client, command func(connector) *cobra.Command, args ...string) (string, error) {
	return callAt(ctx, api, clocktesting.NewFakeClock(at()), command, args...)
}

func callAt(
	ctx context.Context, api client.Client, clock clock.WithTicker, command func(connector) *cobra.Command, args ...string,
) (string, error) {
	var out bytes.Buffer
	to := connection{client: api, namespace: "kafka", clock: clock, program: "kubectl keyturn"}
	cmd := command(func() (connection, error) { return to, nil })
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// until is a record of a rotation that stands in a phase.
func until(t *testing.T, r rotation.Record, phase rotation.Phase) rotation.Record {
	t.Helper()
	reached, there := rotationtest.Until(r, phase)
	if !there {
		t.Fatalf("it never gets to %s", phase)
	}
	return reached
}

func cannotVouch(r *rotation.Record) {
	name := r.Anchors[rotationtest.AnchorA]
	name.CrossSignBlocked = "its path length is 0"
	r.Anchors[rotationtest.AnchorA] = name
}

// keptBeside is a CA of the user's, who has put the old one beside the new ca.crt.
func keptBeside(r *rotation.Record) {
	name := r.Anchors[rotationtest.AnchorA]
	name.LostTo = rotation.CaCrtReaders
	r.Anchors[rotationtest.AnchorA] = name
}

func neverMeasured(r *rotation.Record) { r.RestartSeconds, r.ReloadSeconds = 0, 0 }

func TestPlanTellsWhatWillHappen(t *testing.T) {
	t.Parallel()
	clients := rotationtest.AtRest(3, rotationtest.Clients)
	tests := map[string]struct {
		world *world
		args  []string
	}{
		"nothing-is-under-way": {calm(), nil},
		"new-cluster": {
			calm(rotationtest.AtRest(3, rotationtest.BrandNew), rotationtest.AtRest(3, rotationtest.Clients, rotationtest.BrandNew)), nil,
		},
		"replace":                     {calm(), []string{"--replace", "cluster-ca"}},
		"users-own-ca":                {calm(rotationtest.AtRest(3, rotationtest.Replaced, keptBeside), clients), nil},
		"not-measured-yet":            {calm(rotationtest.AtRest(3, neverMeasured), clients), []string{"--replace", "cluster-ca"}},
		"replace-distrust":            {calm(), []string{"--replace", "cluster-ca", "--distrust"}},
		"replace-distrust-classic":    {calm(rotationtest.AtRest(3, cannotVouch), clients), []string{"--replace", "cluster-ca", "--distrust"}},
		"replace-distrust-clients-ca": {calm(), []string{"--replace", "clients-ca", "--distrust"}},
		"replace-classic":             {calm(rotationtest.AtRest(3, cannotVouch), clients), []string{"--replace", "cluster-ca"}},
		"replace-clients-ca":          {calm(), []string{"--replace", "clients-ca"}},
		"renew":                       {calm(), []string{"--renew", "cluster-ca"}},
		"under-way-and-a-node-is-down": {
			calm(rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-1", rotationtest.Now())), clients), nil,
		},
		"under-way-and-an-issuer-does-not-answer": {
			calm(rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), clients).warned("CertificateIssuer",
				"Secret my-dual-0: Certificate my-dual-0 was to be issued again by another CA. It is requested again at 2026-03-01T13:00:00Z."), nil,
		},
		"paused":     {calm(rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Paused), clients), nil},
		"distrusted": {calm(rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Distrusted), clients), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := call(t, test.world, planCommand, append([]string{"kafka/my"}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("plan", name+".txt"), out)
		})
	}
}

func TestPlanAsJSON(t *testing.T) {
	t.Parallel()
	out, err := call(t, calm(), planCommand, "kafka/my", "--renew", "cluster-ca", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("plan", "renew.json"), out)
}

func TestPlanSaysWhatHasChangedSince(t *testing.T) {
	t.Parallel()
	forbidden := errors.New("forbidden")
	tests := map[string]struct {
		versions map[string]string
		calls    interceptor.Funcs
		want     string
	}{
		"nothing has":          {map[string]string{"Secret my-cluster-ca": "41"}, interceptor.Funcs{}, ""},
		"a Secret was written": {map[string]string{"Secret my-cluster-ca": "40"}, interceptor.Funcs{}, "CHANGED SINCE: Secret my-cluster-ca (resourceVersion 40, now 41)."},
		"a Secret is gone":     {map[string]string{"Secret my-gone": "7"}, interceptor.Funcs{}, "CHANGED SINCE: Secret my-gone (deleted)."},
		"nobody lets the person see": {map[string]string{"Secret my-cluster-ca": "41"}, interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return forbidden
			},
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, secret := obj.(*metav1.PartialObjectMetadata); secret {
					return forbidden
				}
				return api.Get(ctx, key, obj, opts...)
			},
		}, "You may not read Secret my-cluster-ca, so plan cannot tell whether it has changed since."},
		"the person may read, but not list": {map[string]string{"Secret my-cluster-ca": "40"}, interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return forbidden
			},
		}, "Secret my-cluster-ca (resourceVersion 40, now 41)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := calm(rotationtest.AtRest(1, func(r *rotation.Record) { r.Versions = test.versions }))
			w.calls = test.calls
			out, err := call(t, w, planCommand, "kafka/my", "--replace", "cluster-ca")
			if err != nil {
				t.Fatal(err)
			}
			told := strings.Contains(out, "CHANGED") || strings.Contains(out, "may not read")
			if !strings.Contains(out, test.want) || test.want == "" && told {
				t.Errorf("it does not say %q:\n%s", test.want, out)
			}
		})
	}
}

func TestStatusTellsWhereItStands(t *testing.T) {
	t.Parallel()
	clients := rotationtest.AtRest(2, rotationtest.Clients)
	tests := map[string]*world{
		"at-rest": calm(),
		"raft-remainder": calm(
			until(t, rotationtest.AtRest(2, rotationtest.Replaced, rotationtest.Crossed), authorities.RaftRestartsPending), clients),
		"a-node-is-down": calm(rotationtest.AtRest(2, rotationtest.Replaced, rotationtest.Crossed,
			rotationtest.Silent("my-dual-1", rotationtest.Now().Add(-time.Hour)), func(r *rotation.Record) {
				r.StartedAt = rotationtest.Now().Add(-10 * time.Minute)
				r.Members["my-dual-1"] = rotation.MemberFacts{Published: 4, Trouble: "its agent does not answer"}
			}), clients),
		"clients-ca": calm(rotationtest.AtRest(1), until(t, rotationtest.AtRest(1, rotationtest.Clients, rotationtest.Replaced), rotation.WaitingForUsers)),
	}
	for name, w := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := call(t, w, statusCommand, "kafka/my")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("status", name+".txt"), out)
		})
	}
}

// kafkaAndRecordAlone fails the test when anything else is read.
func kafkaAndRecordAlone(t *testing.T) interceptor.Funcs {
	t.Helper()
	return interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			t.Error("it lists something")
			return nil
		},
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			switch obj.(type) {
			case *kafkav1.Kafka, *corev1.ConfigMap:
			default:
				t.Errorf("it reads %T %s", obj, key.Name)
			}
			return api.Get(ctx, key, obj, opts...)
		},
	}
}

func TestStatusReadsNoSecret(t *testing.T) {
	t.Parallel()
	w := calm()
	w.calls = kafkaAndRecordAlone(t)
	if _, err := call(t, w, statusCommand, "kafka/my", "-o", "json"); err != nil {
		t.Fatal(err)
	}
}

func TestCommandsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	unread := calm()
	unread.records = nil
	tests := map[string]struct {
		world   *world
		command func(connector) *cobra.Command
		args    []string
		want    string
	}{
		"a plan of a Kafka that is not there":    {calm(), planCommand, []string{"kafka/other"}, "kafka/other does not exist in namespace kafka"},
		"a plan before the operator has run":     {unread, planCommand, []string{"kafka/my"}, "recorded nothing about the certificates of kafka/my yet: kubectl keyturn status kafka/my -n kafka shows why"},
		"a rotation before the operator has run": {unread, rotateCommand, []string{"kafka/my", "--cluster-ca"}, "recorded nothing about the certificates of kafka/my yet"},
		"a plan for something else":              {calm(), planCommand, []string{"kafka/my", "--replace", "etcd"}, `"etcd" is not a CA of a Kafka: name cluster-ca or clients-ca`},
		"a plan of distrust for no CA":           {calm(), planCommand, []string{"kafka/my", "--distrust"}, "--distrust needs --replace"},
		"two plans at once":                      {calm(), planCommand, []string{"kafka/my", "--replace", "cluster-ca", "--renew", "cluster-ca"}, "--replace and --renew exclude each other"},
		"an output that there is not":            {calm(), statusCommand, []string{"kafka/my", "-o", "wide"}, `"wide" is not an output format: use table, json, yaml or jsonpath=TEMPLATE`},
		"a status of one and of all":             {calm(), statusCommand, []string{"kafka/my", "-A"}, "specify either one cluster or --all-namespaces"},
		"a rotation of nothing":                  {calm(), rotateCommand, []string{"kafka/my"}, "specify --cluster-ca or --clients-ca"},
		"a rotation of both":                     {calm(), rotateCommand, []string{"kafka/my", "--cluster-ca", "--clients-ca"}, "rotate one after the other"},
		"a renewal and a replacement":            {calm(), rotateCommand, []string{"kafka/my", "--cluster-ca", "--renew", "--replace"}, "ask for one of them"},
		"a renewal and distrust":                 {calm(), rotateCommand, []string{"kafka/my", "--cluster-ca", "--renew", "--distrust"}, "--distrust goes with --replace or alone"},
		"two Kafkas":                             {calm(), planCommand, []string{"kafka/my", "kafka/other"}, `unexpected argument "kafka/other"`},
		"a pod":                                  {calm(), statusCommand, []string{"pod/my"}, `"pod/my" does not name a cluster: specify kafka/NAME or etcd/NAME`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := call(t, test.world, test.command, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// annotationsOf reads what stands on a Secret.
func annotationsOf(t *testing.T, api client.Client, name string) map[string]string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: "kafka", Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret.Annotations
}
