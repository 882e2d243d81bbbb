package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/api/fields"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/records"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestMessagesOfConditionsAreCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 40<<10)
	for _, w := range []wanted{holds(condition.Warning, "Storage", long), notReady("Creating", long)} {
		got := conditionsSince([]wanted{w}, nil, noon())[0].Message
		if len(got) > 32768 || !strings.HasSuffix(got, "é…") {
			t.Errorf("%s says %d bytes, want at most 32768", w.kind, len(got))
		}
	}
}

func TestWarningsThatAStatusHasNoRoomForAreCounted(t *testing.T) {
	t.Parallel()
	warnings := func(count, bytes int) []wanted {
		list := make([]wanted, 0, count+1)
		for range count {
			list = append(list, holds(condition.Warning, "Storage", strings.Repeat("x", bytes)))
		}
		return append(list, notReady("Creating", "the cluster is being created"))
	}
	for name, c := range map[string]struct {
		list        []wanted
		shown, left int
	}{
		"a few":          {warnings(3, 100), 3, 0},
		"as many as fit": {warnings(64, 100), 64, 0},
		"one more":       {warnings(65, 100), 64, 1},
		"very many":      {warnings(1004, 100), 64, 940},
		"long ones":      {warnings(20, 64<<10), 8, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := conditionsSince(c.list, nil, noon())
			at := slices.IndexFunc(got, func(c condition.Condition) bool { return c.Type == condition.NotReady })
			if at < 0 {
				t.Fatal("no condition says that the cluster is not ready")
			}
			got = got[:at]
			if c.left > 0 {
				more := got[len(got)-1]
				if more.Reason != reasonMoreWarnings || !strings.HasPrefix(more.Message, fmt.Sprintf("and %d more", c.left)) {
					t.Errorf("%s says %q, want that there are %d more", more.Reason, more.Message, c.left)
				}
				got = got[:len(got)-1]
			}
			if len(got) != c.shown {
				t.Errorf("%d warnings are told, want %d", len(got), c.shown)
			}
		})
	}
}

func TestListsInConditionsAreCutAndCounted(t *testing.T) {
	t.Parallel()
	pods := make([]string, 0, 1000)
	c := clusterOf(&kafkav1.Kafka{}, nil)
	for i := range cap(pods) {
		pods = append(pods, fmt.Sprintf("my-cluster-broker-%d", i))
		c.cluster.Nodes = append(c.cluster.Nodes, model.Node{Pod: pods[i]})
	}
	c.silent = pods
	for name, message := range map[string]string{
		"nodes to be restarted": rollingUpdate(outcome{pending: pods}).message,
		"silent agents":         c.warnings()[0].message,
		"pods that are missing": c.unready(outcome{}).message,
		"unknown fields":        fieldWarnings("Kafka ns/my", fields.Found{Unknown: pods})[0].message,
		"ignored fields":        fieldWarnings("Kafka ns/my", fields.Found{WithoutEffect: pods})[0].message,
		"fields that are unmet": fieldWarnings("Kafka ns/my", fields.Found{Unmet: pods})[0].message,
	} {
		if len(message) > 2*excerpt.Listed || !strings.Contains(message, " more") || !strings.Contains(message, pods[0]) {
			t.Errorf("%s: %d bytes, want the first few and how many more: %.200s", name, len(message), message)
		}
	}
}

func TestCertificatesThatAStatusHasNoRoomForAreNotShown(t *testing.T) {
	t.Parallel()
	c := begin(&observation{}, &memory{})
	certificates := listenerCertificates{}
	for i, size := range []int{100 << 10, 500 << 10, 100 << 10} {
		listener := model.Listener{Name: fmt.Sprintf("tls%d", i), Port: int32(9100 + i), TLS: true}
		c.cluster.Listeners = append(c.cluster.Listeners, listener)
		certificates[listener.Key()] = []string{strings.Repeat("x", size)}
	}
	many := model.Listener{Name: "many", Port: 9200, TLS: true}
	c.cluster.Listeners = append(c.cluster.Listeners, many)
	certificates[many.Key()] = slices.Repeat([]string{"x"}, 100)

	shown, hidden := c.shown(certificates)

	if !slices.Equal(hidden, []string{"tls1"}) || len(shown) != 3 {
		t.Errorf("%d listeners are shown, hidden are %v; want all but tls1", len(shown), hidden)
	}
	if got := len(shown[many.Key()]); got != 64 {
		t.Errorf("%d certificates of a listener are shown, want 64", got)
	}
}

// recorder writes records and remembers none yet.
func recorder(api client.Client) *Reconciler {
	return &Reconciler{options: Options{Live: api}, appliers: kube.NewAppliers(api, "test"), records: records.NewStore()}
}

// refusing refuses what is applied.
type refusing struct {
	client.Client

	failure error
}

func (r refusing) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return r.failure
}

func TestARecordThatCannotBeWrittenIsToldAndTriedAgain(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "my-trust", errors.New("changed"))
	for name, c := range map[string]struct {
		failure error
		again   time.Duration
		told    int
	}{
		"it is written":               {nil, 0, 0},
		"the API server does not":     {errors.New("too large"), recordPause, 1},
		"another client writes first": {conflict, retryDelay, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := recorder(refusing{Client: fake.NewClientBuilder().Build(), failure: c.failure})
			p := clusterOf(&kafkav1.Kafka{}, nil)
			r.record(t.Context(), p)
			if got := p.nextReconcile(outcome{}); got != c.again {
				t.Errorf("it is tried again in %s, want %s", got, c.again)
			}
			if got := p.warnings(); len(got) != c.told {
				t.Errorf("warnings are %+v, want %d", got, c.told)
			}
		})
	}
}

func TestARecordThatIsTooLongIsToldAndLeftOut(t *testing.T) {
	t.Parallel()
	written := &written{Client: fake.NewClientBuilder().Build()}
	r := recorder(written)
	c := clusterOf(&kafkav1.Kafka{}, nil)
	c.clusterCA.kind, c.clientsCA.kind = "cluster-ca", "clients-ca"
	for i := range 40_000 {
		c.clusterCA.Snapshot.Members = append(c.clusterCA.Snapshot.Members, trust.Member{ID: trust.MemberID(fmt.Sprintf("node-%d", i))})
	}
	r.record(t.Context(), c)
	if got := c.warnings(); len(got) != 1 || got[0].reason != reasonNotRecorded || !strings.Contains(got[0].message, "cluster-ca takes") {
		t.Errorf("warnings are %+v, want one about the record", got)
	}
	if got := c.nextReconcile(outcome{}); got != 0 {
		t.Errorf("it is tried again in %s, which does not help", got)
	}
	for _, domain := range []string{"cluster-ca", "clients-ca"} {
		if want := domain == "clients-ca"; strings.Contains(written.text, rotation.Key(domain)) != want {
			t.Errorf("the record of the %s is written = %t, want %t", domain, !want, want)
		}
	}
}

// written keeps what was applied last.
type written struct {
	client.Client

	text string
}

func (w *written) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	text, err := json.Marshal(object)
	w.text = string(text)
	return err
}
