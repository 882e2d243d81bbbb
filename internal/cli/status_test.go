package cli

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kstatus"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
)

// refusedKafka is one that the operator has never acted on.
func refusedKafka(namespace, name string) *kafkav1.Kafka {
	return &kafkav1.Kafka{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Status: kafkav1.KafkaStatus{Conditions: kstatus.Strimzi([]condition.Condition{{
			Type: condition.NotReady, Status: condition.True, Reason: "InvalidResourceException",
			Message: "listener tls: port 9091 is the cluster's own, choose another",
		}}, nil, time.Time{})},
	}
}

func TestStatusOfARefusedKafkaShowsItsConditions(t *testing.T) {
	t.Parallel()
	w := calm()
	w.kafka, w.records = refusedKafka("kafka", "my"), nil
	out, err := call(t, w, statusCommand, "kafka/my")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("status", "refused.txt"), out)
}

func TestStatusNamesUsersThatAreNoKafkaUsers(t *testing.T) {
	t.Parallel()
	w := calm()
	unmanaged := int32(23)
	w.kafka.Status.Users = &kafkav1.UsersStatus{
		Total: 7, Ready: 6, Reissued: 5, Unmanaged: &unmanaged, UnmanagedNames: []string{"CN=alice,O=x", "carol\x1b[2J"},
	}
	out, err := call(t, w, statusCommand, "kafka/my")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("status", "users.txt"), out)
}

func TestStatusHidesNoConditionThatNothingElseTells(t *testing.T) {
	t.Parallel()
	w := calm()
	w.records = nil
	out, err := call(t, w, statusCommand, "kafka/my")
	if err != nil || !strings.Contains(out, "ClusterCATrust") {
		t.Errorf("error %v, output\n%s", err, out)
	}
}

func TestStatusBeforeTheOperatorHasLookedSaysWhatToCheck(t *testing.T) {
	t.Parallel()
	w := calm()
	w.records, w.kafka.Status = nil, kafkav1.KafkaStatus{}
	out, err := call(t, w, statusCommand, "kafka/my")
	if err != nil || !strings.Contains(out, "check that it runs and watches namespace kafka") {
		t.Errorf("error %v, output\n%s", err, out)
	}
}

// several is a Kafka at rest, and one in each of two other namespaces: refused, and
// in the middle of a rotation.
func several(t *testing.T) *world {
	t.Helper()
	w := calm()
	moving := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "my"}, Status: kafkav1.KafkaStatus{
		Conditions: []condition.Condition{{Type: condition.Ready, Status: condition.True}},
	}}
	record := configMap(t, midway(t))
	record.Namespace = "shop"
	w.others = []client.Object{refusedKafka("lab", "orders"), moving, record}
	return w
}

func TestStatusOfAllNamespacesHasALineForEachKafka(t *testing.T) {
	t.Parallel()
	out, err := call(t, several(t), statusCommand, "-A")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("status", "all-namespaces.txt"), out)
}

func TestOneRecordThatMayNotBeReadHidesNoOtherKafka(t *testing.T) {
	t.Parallel()
	w := several(t)
	w.calls = interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if _, record := obj.(*corev1.ConfigMap); record && key.Namespace == "shop" {
			return errors.New("forbidden")
		}
		return api.Get(ctx, key, obj, opts...)
	}}
	out, err := call(t, w, statusCommand, "--all-namespaces")
	if err != nil || !strings.Contains(out, "kafka/my (namespace shop): Its certificates are not shown: ") || !strings.Contains(out, "Trusted") {
		t.Errorf("error %v, output\n%s", err, out)
	}
}

// Who has the plugin need not have its pages.
func TestWhoMayNotLookIsToldWhichRightsItTakes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		calls interceptor.Funcs
		args  []string
		want  string
	}{
		"at all Kafkas": {
			calls: interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return apierrors.NewForbidden(kafkav1.GroupVersion.WithResource("kafkas").GroupResource(), "", errors.New("no"))
			}},
			args: []string{"-A"},
			want: "you need the right to list kafkas.kafka.strimzi.io and get configmaps in all namespaces, by a ClusterRole",
		},
		"at one": {
			calls: interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
				return apierrors.NewForbidden(kafkav1.GroupVersion.WithResource("kafkas").GroupResource(), key.Name, errors.New("no"))
			}},
			args: []string{"kafka/my"},
			want: "you need the right to get kafkas.kafka.strimzi.io my and ConfigMap my-trust in namespace kafka",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := calm()
			w.calls = test.calls
			if _, err := call(t, w, statusCommand, test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to say: %s", err, test.want)
			}
		})
	}
}

func TestStatusOfAllNamespacesWithoutAKafka(t *testing.T) {
	t.Parallel()
	w := calm()
	w.calls = interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil }}
	for output, want := range map[string]string{"table": "There is no Kafka in any namespace.\n", "yaml": "items: []\n"} {
		if out, err := call(t, w, statusCommand, "-A", "-o", output); err != nil || out != want {
			t.Errorf("error %v, output %q, want %q", err, out, want)
		}
	}
}

// outputsForPrograms are calls that print something of every shape.
func outputsForPrograms(t *testing.T) map[string]func(output string) (string, error) {
	t.Helper()
	silent := rotationtest.AtRest(2, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-1", rotationtest.Now().Add(-time.Hour)),
		func(r *rotation.Record) {
			r.Members["my-dual-1"] = rotation.MemberFacts{Published: 4, Trouble: "its agent does not answer"}
			r.Versions = map[string]string{"Secret my-gone": "7"}
		})
	moving := func() *world {
		return calm(silent, until(t, rotationtest.AtRest(2, rotationtest.Clients, rotationtest.Replaced), rotation.WaitingForUsers))
	}
	run := func(w *world, command func(connector) *cobra.Command, args ...string) func(string) (string, error) {
		return func(output string) (string, error) { return call(t, w, command, append(args, "-o", output)...) }
	}
	return map[string]func(string) (string, error){
		"status":                   run(moving(), statusCommand, "kafka/my"),
		"status of all namespaces": run(several(t), statusCommand, "-A"),
		"plan":                     run(moving(), planCommand, "kafka/my"),
		"check": func(output string) (string, error) {
			return foundOnly(call(t, troubled(t), checkCommand, "-A", "-o", output))
		},
		"rotate": func(output string) (string, error) {
			return call(t, calm(), rotateCommand, "kafka/my", "--clients-ca", "-o", output)
		},
		"plan of a renewal": run(calm(), planCommand, "kafka/my", "--renew", "cluster-ca"),
	}
}

// foundOnly is the output of a check, whose findings are no failure here.
func foundOnly(out string, err error) (string, error) {
	if _, is := errors.AsType[findingsError](err); is {
		err = nil
	}
	return out, err
}

func TestYAMLHasTheContentOfJSON(t *testing.T) {
	t.Parallel()
	for name, run := range outputsForPrograms(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inJSON, err := run("json")
			if err != nil {
				t.Fatal(err)
			}
			inYAML, err := run("yaml")
			if err != nil {
				t.Fatal(err)
			}
			var fromJSON, fromYAML any
			if err := json.Unmarshal([]byte(inJSON), &fromJSON); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(inYAML), &fromYAML); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fromJSON, fromYAML); diff != "" || strings.HasPrefix(inYAML, "{") {
				t.Errorf("-json +yaml:\n%s\n%s", diff, inYAML)
			}
		})
	}
}

func TestEveryFieldForProgramsIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubectl.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range outputsForPrograms(t) {
		out, err := run("json")
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal([]byte(out), &value); err != nil {
			t.Fatal(err)
		}
		for key := range keys(value) {
			if !strings.Contains(string(page), "`"+key+"`") {
				t.Errorf("docs/kubectl.md does not tell of %s in the output of %s", key, name)
			}
		}
	}
}

// keys are the names of all fields of a value.
func keys(value any) map[string]bool {
	found := map[string]bool{}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			found[key] = true
			maps.Copy(found, keys(inner))
		}
	case []any:
		for _, inner := range v {
			maps.Copy(found, keys(inner))
		}
	}
	return found
}

func TestWatchInYAMLSeparatesDocuments(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	api, clock := play(t, []scene{{rotationtest.AtRest(1), false}, {rotationtest.AtRest(1, rotationtest.Replaced, rotationtest.Crossed), false}})
	looks := 0
	counting := interceptor.NewClient(asWatching(t, api), interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, record := obj.(*corev1.ConfigMap); record {
				if looks++; looks > 3 {
					leave()
				}
			}
			return api.Get(ctx, key, obj, opts...)
		},
	})
	out, err := callAt(ctx, counting, clock, statusCommand, "kafka/my", "--watch", "-o", "yaml")
	if err != nil || strings.Count(out, "\n---\n") != 1 || strings.HasPrefix(out, "---") {
		t.Errorf("error %v, output\n%s", err, out)
	}
}

// What a node that was broken into says is shown to whoever asks for a status.
func TestStatusShowsWhatANodeSaysAsOneLineOfText(t *testing.T) {
	t.Parallel()
	words := "x\x1b[2J\x1b[H\nCLUSTER CA  Trusted\n  everything is fine\x1b]0;title\x07"
	conditions := []condition.Condition{{Type: condition.NotReady, Status: condition.True, Reason: "Other", Message: words}}
	report := statusReport{Conditions: conditions, Message: words, Domains: []rotation.Status{{
		Domain: "cluster-ca", Message: words, Blockers: []string{words + words},
		Members: []rotation.MemberStatus{{Name: "my-0", Facts: rotation.MemberFacts{Trouble: words}}},
	}}}
	for name, text := range map[string]string{
		"one":  statusText(report),
		"many": overviewText(statusList{Items: []statusReport{{Conditions: conditions}, {Message: words}}}),
	} {
		if strings.ContainsAny(text, "\x1b\x07") || strings.Contains(text, "\nCLUSTER CA  Trusted\n") {
			t.Errorf("the status of %s holds what the node said, as it said it:\n%q", name, text)
		}
	}
}
