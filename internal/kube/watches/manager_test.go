package watches_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/keyturn/keyturn/internal/kube/watches"
)

func TestAKindThatTheAPIServerDoesNotHaveIsNamed(t *testing.T) {
	t.Parallel()
	s, known := newServer(t), meta.NewDefaultRESTMapper(nil)
	mgr, err := watches.NewManager(&rest.Config{Host: "http://server.invalid", Transport: s}, &ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return known, nil },
	}, s.observer)
	if err != nil {
		t.Fatal(err)
	}
	access := schema.GroupVersionKind{Group: "access.strimzi.io", Version: "v1alpha1", Kind: "KafkaAccess"}
	for range 3 {
		if isServed, err := mgr.Serves(access); isServed || err != nil || s.ready() != "" {
			t.Errorf("a kind that is only asked about: served %t, %v, the process is: %s", isServed, err, s.ready())
		}
		s.clock.Step(time.Minute)
	}
	for range 3 {
		for _, group := range []string{access.Group, "cert-manager.io"} {
			if _, err := mgr.GetRESTMapper().RESTMapping(schema.GroupKind{Group: group, Kind: access.Kind}, access.Version); !meta.IsNoMatchError(err) {
				t.Fatalf("the error is %v", err)
			}
		}
		s.clock.Step(time.Minute)
	}
	if got := s.ready(); !strings.Contains(got, "install the CustomResourceDefinition kafkaaccesses.access.strimzi.io") || strings.Contains(got, "cert-manager") {
		t.Errorf("the process is: %s", got)
	}
	known.Add(access, meta.RESTScopeNamespace)
	if _, err := mgr.GetRESTMapper().RESTMapping(access.GroupKind(), access.Version); err != nil || s.ready() != "" {
		t.Errorf("once it is installed: %v, %s", err, s.ready())
	}
	if isServed, err := mgr.Serves(access); !isServed || err != nil {
		t.Errorf("once it is installed: served %t, %v", isServed, err)
	}
}
