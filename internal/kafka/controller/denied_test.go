package controller

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/kube/watches"
)

// denying answers each request with 403.
type denying struct{}

func (denying) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody}, nil
}

// denied has seen watches of these paths denied for more than a minute.
func denied(t *testing.T, paths ...string) *watches.Observer {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	observer := watches.NewObserver(clock)
	for range 2 {
		for _, path := range paths {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server"+path+"?watch=true", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := observer.Transport(denying{}).RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
		}
		clock.Step(time.Minute)
	}
	return observer
}

func TestAKafkaWarnsOnlyOfWatchesThatItDependsOn(t *testing.T) {
	t.Parallel()
	r := &Reconciler{options: Options{Watches: denied(t,
		"/api/v1/namespaces/kafka/pods", "/api/v1/namespaces/other/secrets", "/apis/kafka.strimzi.io/v1/kafkausers",
		"/apis/kafka.strimzi.io/v1/kafkanodepools", "/apis/cert-manager.io/v1/certificates")}}
	own, issued := &observation{}, &observation{}
	issued.kafka.Spec.ClientsCa = &kafkav1.CertificateAuthority{Type: kafkav1.CertManagerAuthority}
	for name, test := range map[string]struct {
		observed *observation
		want     string
	}{
		"with CAs of its own": {own, "kafkanodepools.kafka.strimzi.io pods"},
		"with an issuer":      {issued, "certificates.cert-manager.io kafkanodepools.kafka.strimzi.io pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.observed.kafka.Namespace = "kafka"
			r.observeDenied(test.observed)
			var resources []string
			for _, denial := range test.observed.denied {
				resources = append(resources, denial.Resource.String())
			}
			slices.Sort(resources)
			if got := strings.Join(resources, " "); got != test.want {
				t.Errorf("it depends on %s", got)
			}
		})
	}
}

func TestEachKindThatIsWatchedForKafkasIsOneThatTheyDependOn(t *testing.T) {
	t.Parallel()
	r := &Reconciler{options: Options{Companions: func(model.Cluster) []companion.Companion { return nil }}}
	scheme := kubetest.Scheme(t)
	for _, object := range append(r.labelled(), metadataObject(kafkaKind())) {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil || !slices.Contains(r.watchedKinds(), kind) {
			t.Errorf("%s is watched and not depended on: %v", kind, err)
		}
	}
}
