package operate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/operate"
)

// server keeps the statuses that it is asked to apply.
type server struct {
	client.Client

	applied []*unstructured.Unstructured
}

func newServer(t *testing.T) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := keyturnv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &server{}
	s.Client = fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceApply: func(_ context.Context, _ client.Client, _ string, intent runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(intent)
			s.applied = append(s.applied, &unstructured.Unstructured{Object: object})
			return err
		},
	}).Build()
	return s
}

func access() *keyturnv1alpha1.EtcdAccess {
	return &keyturnv1alpha1.EtcdAccess{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "my-app", UID: "1", ResourceVersion: "7"}}
}

func status(user string) *keyturnv1alpha1.EtcdAccessStatus {
	return &keyturnv1alpha1.EtcdAccessStatus{User: user}
}

func TestAStatusIsWrittenUnlessTheResourceHasIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		written, shown, wanted string
		isWritten              bool
	}{
		"another one is wanted":                       {shown: "old", wanted: "new", isWritten: true},
		"after a start":                               {shown: "old", wanted: "old"},
		"it was written":                              {written: "new", shown: "new", wanted: "new"},
		"the cache shows it from before another one":  {written: "new", shown: "old", wanted: "old", isWritten: true},
		"another client has changed it since":         {written: "new", shown: "old", wanted: "new", isWritten: true},
		"another one is wanted after one was written": {written: "new", shown: "new", wanted: "newer", isWritten: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newServer(t)
			statuses := operate.NewStatuses(server, "test")
			if test.written != "" {
				apply(t, statuses, "", test.written)
				server.applied = nil
			}
			if isWritten := apply(t, statuses, test.shown, test.wanted); isWritten != test.isWritten || len(server.applied) > 0 != test.isWritten {
				t.Errorf("reported %t after %d writes, want %t", isWritten, len(server.applied), test.isWritten)
			}
		})
	}
}

func apply(t *testing.T, statuses *operate.Statuses, before, wanted string) bool {
	t.Helper()
	isWritten, err := statuses.Apply(t.Context(), access(), status(before), status(wanted))
	if err != nil {
		t.Fatal(err)
	}
	return isWritten
}

func TestAStatusNamesTheInstanceAndARecordAlsoItsVersion(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	statuses := operate.NewStatuses(server, "test")
	apply(t, statuses, "", "new")
	if _, err := statuses.Record(t.Context(), access(), status("new"), status("newer")); err != nil {
		t.Fatal(err)
	}
	described := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v2", Kind: "Other"}, ObjectMeta: access().ObjectMeta}
	if _, err := statuses.Apply(t.Context(), described, status(""), status("other")); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"keyturn.dev/v1alpha1 EtcdAccess apps/my-app 1  map[user:new]",
		"keyturn.dev/v1alpha1 EtcdAccess apps/my-app 1 7 map[user:newer]",
		"example.com/v2 Other apps/my-app 1  map[user:other]",
	} {
		o := server.applied[i]
		if got := fmt.Sprintf("%s %s %s/%s %s %s %v", o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName(), o.GetUID(), o.GetResourceVersion(), o.Object["status"]); got != want {
			t.Errorf("wrote %s, want %s", got, want)
		}
	}
}

func TestNothingIsKeptOfAResourceThatIsForgotten(t *testing.T) {
	t.Parallel()
	statuses := operate.NewStatuses(newServer(t), "test")
	apply(t, statuses, "", "new")
	statuses.Forget(keyturnv1alpha1.KindEtcdAccess, types.NamespacedName{Namespace: "apps", Name: "my-app"})
	if left := statuses.Len(); left != 0 {
		t.Errorf("%d are remembered", left)
	}
}

func ready(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message}}
}

func TestAConditionIsNewsWithAnotherStatusOrReason(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2000) + " Correct it."
	for name, test := range map[string]struct {
		before, now []metav1.Condition
		event       string
	}{
		"there is none":                  {before: ready(metav1.ConditionTrue, "Done", "It is.")},
		"it is the first":                {now: ready(metav1.ConditionTrue, "Done", "It is."), event: "Normal Done It is."},
		"it has another message":         {before: ready(metav1.ConditionTrue, "Done", "It is."), now: ready(metav1.ConditionTrue, "Done", "It is still.")},
		"it has another status":          {before: ready(metav1.ConditionTrue, "Done", "It is."), now: ready(metav1.ConditionFalse, "Done", "It is not."), event: "Warning Done It is not."},
		"it has another reason":          {before: ready(metav1.ConditionFalse, "Lost", "It is not."), now: ready(metav1.ConditionFalse, "Bad", "It is bad."), event: "Warning Bad It is bad."},
		"it passes by itself":            {now: ready(metav1.ConditionFalse, "Waiting", "It waits."), event: "Normal Waiting It waits."},
		"its message is longer than may": {now: ready(metav1.ConditionFalse, "Bad", long), event: "Warning Bad xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := events.NewFakeRecorder(1)
			operate.Events{Recorder: recorder, Action: "Test"}.Announce(access(), operate.News(test.before, test.now, "Ready"), "Waiting")
			close(recorder.Events)
			if event := <-recorder.Events; !strings.HasPrefix(event, test.event) || test.event == "" && event != "" || len(event) > 1024 {
				t.Errorf("the event is %q, want %q", event, test.event)
			}
		})
	}
}
