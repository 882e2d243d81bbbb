package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
)

// scene is what a watch finds at one look: what the operator has written down, and
// whether the request still stands.
type scene struct {
	record rotation.Record
	asked  bool
}

// patience is more looks than any watch here takes.
const patience = 100

var errEndless = errors.New("it looks for ever")

// play lets time pass at each look, and shows the scenes one after the other; the
// last stays.
func play(t *testing.T, scenes []scene) (client.Client, *clocktesting.FakeClock) {
	t.Helper()
	look := -1
	clock := clocktesting.NewFakeClock(at())
	w := calm()
	w.calls = interceptor.Funcs{Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		if err := api.Get(ctx, key, obj, opts...); err != nil {
			return err
		}
		switch seen := obj.(type) {
		case *corev1.ConfigMap:
			if look++; look > patience {
				return errEndless
			}
			clock.Step(5 * time.Second)
			seen.BinaryData = configMap(t, scenes[min(look, len(scenes)-1)].record).BinaryData
		case *metav1.PartialObjectMetadata:
			if !scenes[min(max(look, 0), len(scenes)-1)].asked {
				seen.Annotations = nil
			}
		}
		return nil
	}}
	return w.build(t), clock
}

func watched(ctx context.Context, api client.Client, clock *clocktesting.FakeClock, args ...string) (string, error) {
	return callAt(ctx, api, clock, rotateCommand, append([]string{"kafka/my", "--watch"}, args...)...)
}

func crossSigned() rotation.Record {
	return rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed)
}

func TestWatchFollowsAReplacementToItsEnd(t *testing.T) {
	t.Parallel()
	api, clock := play(t, []scene{
		{rotationtest.AtRest(3), false},
		{rotationtest.AtRest(3), true},  // nothing has happened yet
		{rotationtest.AtRest(3), false}, // what is written down lags
		{until(t, crossSigned(), rotation.WaitingForLeaves), false},
		{until(t, crossSigned(), rotation.WaitingForLeaves), false},
		{until(t, crossSigned(), authorities.RaftRestartsPending), false},
	})
	out, err := watched(t.Context(), api, clock, "--cluster-ca")
	if err != nil {
		t.Fatal(err)
	}
	var phases []string
	for line := range strings.Lines(out) {
		phases = append(phases, strings.TrimSpace(strings.SplitN(line, ": ", 2)[0]))
	}
	want := "Asked the operator of kafka/my to replace the key of the cluster CA.|5s  Trusted|15s  WaitingForLeaves|25s  RaftRestartsPending|Done after 25s."
	if got := strings.Join(phases, "|"); got != want {
		t.Errorf("it tells\n%s\nwant\n%s", got, want)
	}
}

func TestWatchForProgramsPrintsOneDocumentAtTheEnd(t *testing.T) {
	t.Parallel()
	replaced := []scene{{rotationtest.AtRest(3), false}, {rotationtest.AtRest(3), true}, {until(t, crossSigned(), authorities.RaftRestartsPending), false}}
	for name, test := range map[string]struct {
		scenes []scene
		done   bool
		fails  error
	}{
		"of a replacement":         {replaced, true, nil},
		"of a request taken off":   {replaced[:1], false, errUnserved},
		"of a record that is lost": {append(replaced[:1:1], scene{}), false, noRecordError{"kafka/my", "kubectl keyturn status kafka/my -n kafka"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, clock := play(t, test.scenes)
			out, err := watched(t.Context(), api, clock, "--cluster-ca", "-o", "json")
			var got outcome
			if parsed := json.Unmarshal([]byte(out), &got); parsed != nil || !errors.Is(err, test.fails) {
				t.Fatalf("error %v, output\n%s", err, out)
			}
			if got.Completed != test.done || got.Cluster != "my" || got.Annotations["strimzi.io/force-replace"] != "true" || got.Seconds == 0 {
				t.Errorf("it prints %+v", got)
			}
		})
	}
}

func TestATemplateThatDoesNotFitARotationSaysThatTheOperatorWasAsked(t *testing.T) {
	t.Parallel()
	api := calm().build(t)
	_, err := callOn(t.Context(), api, rotateCommand, "kafka/my", "--cluster-ca", "-o", "jsonpath={.annotations[3]}")
	if err == nil || !strings.HasPrefix(err.Error(), "the operator has been asked, but ") || len(annotationsOf(t, api, "my-cluster-ca")) != 1 {
		t.Errorf("error %v", err)
	}
}

func TestWatchOfADistrustWaitsUntilNothingIsLeft(t *testing.T) {
	t.Parallel()
	distrusted := rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Distrusted)
	api, clock := play(t, []scene{
		{until(t, crossSigned(), authorities.RaftRestartsPending), false},
		{until(t, crossSigned(), authorities.RaftRestartsPending), true},
		{until(t, distrusted, rotation.WaitingForDistrust), true},
		{rotationtest.AtRest(3, rotationtest.Replaced, func(r *rotation.Record) { *r = until(t, crossSigned(), rotation.Trusted) }), false},
	})
	out, err := watched(t.Context(), api, clock, "--cluster-ca", "--distrust")
	if err != nil || !strings.HasSuffix(out, "Done after 15s.\n") {
		t.Errorf("error %v, output\n%s", err, out)
	}
}

func TestWatchNoticesARequestThatWasTakenOffInVain(t *testing.T) {
	t.Parallel()
	api, clock := play(t, []scene{{rotationtest.AtRest(3), false}})
	if _, err := watched(t.Context(), api, clock, "--cluster-ca", "--renew"); !errors.Is(err, errUnserved) {
		t.Errorf("error %v, want %v", err, errUnserved)
	}
}

func TestWatchOfAWithdrawalEndsWhenTheRequestIsTakenOff(t *testing.T) {
	t.Parallel()
	o, replacing := rotateOptions{abort: true}, midway(t)
	if w := (watching{request: request{withdraws: true}, before: replacing}); !o.acted(w, replacing) {
		t.Error("it waits for another CA, of which there is none")
	}
	phase := replacing.Words.PhaseOf(replacing.Snapshot, replacing.Plan())
	if w := (watching{request: request{withdraws: true}}); !w.isOver(replacing.Words, phase) {
		t.Errorf("it waits in %s for a replacement that goes on", phase)
	}
	if (watching{}).isOver(replacing.Words, phase) {
		t.Errorf("an abort is over in %s, when the replacement still goes on", phase)
	}
	if o.acted(watching{before: replacing}, replacing) {
		t.Error("it does not wait for the CA that is gone back to")
	}
}

func TestWatchLeftEarlySaysThatItGoesOn(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	api, clock := play(t, []scene{{rotationtest.AtRest(3), false}, {until(t, crossSigned(), rotation.WaitingForLeaves), true}})
	stopping := interceptor.NewClient(asWatching(t, api), interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, record := obj.(*corev1.ConfigMap); record && clock.Since(at()) > time.Minute {
				leave()
			}
			return api.Get(ctx, key, obj, opts...)
		},
	})
	if _, err := watched(ctx, stopping, clock, "--cluster-ca"); !errors.Is(err, errLeft) {
		t.Errorf("error %v, want %v", err, errLeft)
	}
}

func asWatching(t *testing.T, api client.Client) client.WithWatch {
	t.Helper()
	watching, is := api.(client.WithWatch)
	if !is {
		t.Fatalf("%T cannot watch", api)
	}
	return watching
}

func TestStatusWatchShowsWhatChanges(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	api, clock := play(t, []scene{
		{rotationtest.AtRest(1), false},
		{rotationtest.AtRest(1), false},
		{rotationtest.AtRest(1, rotationtest.Replaced, rotationtest.Crossed), false},
	})
	looks := 0
	counting := interceptor.NewClient(asWatching(t, api), interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, record := obj.(*corev1.ConfigMap); record {
				if looks++; looks > 5 {
					leave()
				}
			}
			return api.Get(ctx, key, obj, opts...)
		},
	})
	out, err := callAt(ctx, counting, clock, statusCommand, "kafka/my", "--watch")
	if err != nil {
		t.Fatal(err)
	}
	if shown := strings.Count(out, "CLUSTER CA"); shown != 2 {
		t.Errorf("shown %d times, want 2:\n%s", shown, out)
	}
}
