package controller

import (
	"crypto/x509"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/keyturn/keyturn/api/condition"
	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/agent"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/reports"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestAWarningAboutAnAuthorityNamesItsObjectOnce(t *testing.T) {
	t.Parallel()
	const said = "Secret my-clients-ca: ca.key is a placeholder"
	c := begin(&observation{}, &memory{})
	c.clientsCA.Decision = authority.Decision{Warnings: []authority.Remark{{Secret: "my-clients-ca", Part: "data{ca.key}", Text: "ca.key is a placeholder"}}}

	c.noteAuthority(authorities.Clients)

	if list := c.warnings(); len(list) != 1 || list[0].message != said {
		t.Errorf("it is said: %+v, want %q", list, said)
	}
}

// Each is warned of in its own words: one was meant for something else, one is relied on, one does no harm.
func TestFieldsThatNobodyActsOnAreToldApartByTheirWeight(t *testing.T) {
	t.Parallel()
	c := begin(&observation{}, &memory{})
	c.kafka.Namespace, c.kafka.Name = "kafka", "my"
	spec := `{"spec": {"entityOperator": {"topicOperator": {"logging": {}}}, "kafka": {"rack": {"topologyKey": "zone"}, "listeners": [{"name": "a", "authentification": {"type": "tls"}}]}}}`
	if err := json.Unmarshal([]byte(spec), &c.written); err != nil {
		t.Fatal(err)
	}

	told := map[string]string{}
	for _, w := range c.warnings() {
		told[w.reason] = w.message
	}

	for reason, want := range map[string]string{
		reasonUnknownFields:       "Kafka kafka/my: unknown fields, which have no effect: spec.kafka.listeners[0].authentification;",
		reasonDiffersFromSpec:     "Kafka kafka/my: Keyturn does not do what these fields ask for, so what runs differs from them: spec.kafka.rack;",
		reasonFieldsWithoutEffect: "Kafka kafka/my: these fields are kept but have no effect in Keyturn, and nothing is missed: spec.entityOperator.topicOperator.logging;",
	} {
		if !strings.HasPrefix(told[reason], want) {
			t.Errorf("%s says %q, want %q", reason, told[reason], want)
		}
	}
}

func TestWhoAsksForClaimsToBeDeletedIsToldThatNobodyDoesIt(t *testing.T) {
	t.Parallel()
	asks := func(value string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"strimzi.io/delete-pod-and-pvc": value}}}
	}
	c := clusterOf(&kafkav1.Kafka{}, map[string]*corev1.Pod{"b": asks("true"), "a": asks("yes"), "c": {}, "d": asks("False")})

	list := c.warnings()

	if len(list) != 1 || !strings.HasPrefix(list[0].message, "pods a, b: the annotation strimzi.io/delete-pod-and-pvc has no effect: ") {
		t.Errorf("it is said: %+v", list)
	}
}

func TestARequestToPodsOrTheirSetThatNobodyServesIsNamed(t *testing.T) {
	t.Parallel()
	const misspelled, right = "strimzi.io/manual-rolling-updates", "strimzi.io/manual-rolling-update"
	for name, c := range map[string]struct {
		pods, set map[string]string
		want      []string
	}{
		"a misspelled request on pods": {
			pods: map[string]string{misspelled: "true"},
			want: []string{"pods a, b: the annotation " + misspelled + " has no effect on a pod: correct it if it is misspelled, or remove it; what is read there is " + right},
		},
		"a request on pods that is neither true nor false": {
			pods: map[string]string{right: "yes"},
			want: []string{"pods a, b: the annotation " + right + ` is "yes", which has no effect: set it to "true" or "false", or remove it`},
		},
		"a misspelled request on a set": {
			set:  map[string]string{misspelled: "true"},
			want: []string{"StrimziPodSet kafka/my-dual: the annotation " + misspelled + " has no effect on a StrimziPodSet: correct it if it is misspelled, or remove it; what is read there is " + right},
		},
		"a request on a set that is neither true nor false": {
			set:  map[string]string{right: "yes"},
			want: []string{"StrimziPodSet kafka/my-dual: the annotation " + right + ` is "yes", which has no effect: set it to "true" or "false", or remove it`},
		},
		"requests that are served, and annotations of others": {
			pods: map[string]string{right: "True", "example.com/manual-rolling-update": "yes"},
			set:  map[string]string{right: "false", "example.com/manual-rolling-update": "yes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.pods}}
			p := clusterOf(&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my"}}, map[string]*corev1.Pod{"a": pod, "b": pod})
			p.podSets = map[string]podsetv1.StrimziPodSet{"my-dual": {ObjectMeta: metav1.ObjectMeta{Annotations: c.set}}}

			var reported []string
			for _, w := range p.warnings() {
				reported = append(reported, w.message)
			}

			if !slices.Equal(reported, c.want) {
				t.Errorf("it is said: %q, want %q", reported, c.want)
			}
		})
	}
}

func TestAPoolIsWarnedOfStorageFieldsThatSayNothing(t *testing.T) {
	t.Parallel()
	written := map[string]any{
		"metadata": map[string]any{"namespace": "kafka", "name": "dual"},
		"spec":     map[string]any{"template": map[string]any{"perPodRoute": map[string]any{}}, "storage": map[string]any{"type": "ephemeral", "size": "1Gi"}},
	}
	resource, err := decodePool(&unstructured.Unstructured{Object: written})
	if err != nil {
		t.Fatal(err)
	}

	list := poolWarnings(resource)

	const want = "KafkaNodePool kafka/dual: these fields are kept but have no effect in Keyturn, and nothing is missed: spec.storage.size, spec.template.perPodRoute;"
	if len(list) != 1 || list[0].reason != reasonFieldsWithoutEffect || !strings.HasPrefix(list[0].message, want) {
		t.Errorf("it is said: %+v, want %q", list, want)
	}
}

// What is wrong with the Kafka keeps nobody from being told what is wrong with a pool.
func TestAPoolIsWarnedWhileTheKafkaCannotBeBuilt(t *testing.T) {
	t.Parallel()
	resource := &pool{
		KafkaNodePool: kafkav1.KafkaNodePool{
			TypeMeta:   metav1.TypeMeta{APIVersion: kafkav1.GroupVersion.String(), Kind: kafkav1.KindKafkaNodePool},
			ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "dual", UID: "2"},
			Status:     kafkav1.KafkaNodePoolStatus{NodeIds: []int32{0, 1}},
		},
		written: map[string]any{"spec": map[string]any{"template": map[string]any{"podSet": map[string]any{}}}},
	}
	kafka := &kafkav1.Kafka{
		TypeMeta:   metav1.TypeMeta{APIVersion: kafkav1.GroupVersion.String(), Kind: kafkav1.KindKafka},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my", UID: "1"},
	}
	scheme := kubetest.Scheme(t, kafkav1.AddToScheme)
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(kafka, &resource.KafkaNodePool).WithStatusSubresource(kafka, &resource.KafkaNodePool).Build()
	r := New(Options{Client: server, Live: server, Metrics: metrics.New(), Events: events.NewFakeRecorder(10)})
	c := clusterOf(kafka, nil)
	c.pools = []*pool{resource}

	_, err := r.report(t.Context(), c, outcome{}, &model.InvalidResourceError{})
	if err != nil {
		t.Fatal(err)
	}

	var stored kafkav1.KafkaNodePool
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(&resource.KafkaNodePool), &stored); err != nil {
		t.Fatal(err)
	}
	if list := stored.Status.Conditions; len(list) != 1 || list[0].Reason != reasonDiffersFromSpec {
		t.Errorf("conditions are %+v", list)
	}
	if !slices.Equal(stored.Status.NodeIds, []int32{0, 1}) {
		t.Errorf("node ids are %v", stored.Status.NodeIds)
	}
}

func TestAMemberThatBothAuthoritiesSetApartIsToldOnce(t *testing.T) {
	t.Parallel()
	liar := trust.Exclusion{Member: "my-dual-1", Reason: trust.UnknownClaims, What: "my-dual-1 agent claims"}
	late := trust.Exclusion{Member: "my-dual-1", Reason: trust.NoSigner, What: "my-dual-1 has none"}
	c := begin(&observation{}, &memory{})
	c.clusterCA.Plan = trust.Plan{Excluded: []trust.Exclusion{liar, late}}
	c.clientsCA.Plan = trust.Plan{Excluded: []trust.Exclusion{liar}}

	list := c.exclusionWarnings()

	want := []string{"cluster-ca, clients-ca: my-dual-1 agent claims" + remedyFor(liar), "cluster-ca: my-dual-1 has none"}
	if !slices.EqualFunc(list, want, func(w wanted, message string) bool { return w.message == message }) {
		t.Errorf("it is said: %+v, want %q", list, want)
	}
}

func TestAnAgentThatAnswersTooMuchIsNotSaidToBeSilent(t *testing.T) {
	t.Parallel()
	long := (&agentclient.TooLongError{Path: agent.TLSPath, Limit: publication.MaxAnswer, Of: "bytes"}).Error()
	c := begin(&observation{}, &memory{})
	c.silent, c.reports = []string{"a", "b"}, map[string]agentReport{"b": {unreadable: long}}

	list := c.warnings()

	if len(list) != 2 || list[0].message != "Pod b: "+long || !strings.Contains(list[1].message, "the agent of pod a does not answer") {
		t.Errorf("it is said: %+v, want that a is silent and what is wrong with b", list)
	}
}

func TestWhyAnAnswerIsNotReadIsKept(t *testing.T) {
	t.Parallel()
	long := &agentclient.TooLongError{Path: agent.TLSPath, Limit: publication.MaxAnswer, Of: "bytes"}
	if got := agentReportOf(reports.Report[publication.Report]{Err: long}); got.known || got.unreadable != long.Error() {
		t.Errorf("heard %+v, want why it is not read", got)
	}
}

func TestWhatIsWrongWithAResourceIsSaidWithoutWhatWasTried(t *testing.T) {
	t.Parallel()
	c := clusterOf(&kafkav1.Kafka{}, nil)
	r, _ := collecting()

	err := r.resolve(t.Context(), c.desired, -1)

	if err == nil || !strings.HasPrefix(err.Error(), "Kafka ") {
		t.Errorf("the condition says %v, want it to begin with the object", err)
	}
}

func TestWhoCanDoSomethingAboutAnExpiredCertificateIsTold(t *testing.T) {
	t.Parallel()
	ended := noon().Add(-time.Hour)
	ca := func(end time.Time) *authority.Decision {
		return &authority.Decision{Certificate: &x509.Certificate{NotAfter: end}}
	}
	listener := func(c *applied, secret string) {
		c.cluster.Listeners = []model.Listener{{Name: "public", Port: 9096, Certificate: &model.CertificateSource{Secret: secret}}}
		c.custom = map[publication.Role]listenercert.Checked{"public-9096": {Chain: []*x509.Certificate{{NotAfter: ended}}}}
	}
	node := func(c *applied) {
		c.nodes = map[string]nodeCertificates{"a": {leaf: &x509.Certificate{NotAfter: ended}}}
	}
	for name, test := range map[string]struct {
		expired func(c *applied)
		want    string
	}{
		"a certificate that a user brought for a listener": {
			func(c *applied) { listener(c, "custom-public-listener") },
			"the certificate of listener public-9096, from Secret custom-public-listener, expired at 2027-03-01T11:00:00Z: replace it in that Secret",
		},
		"that of a node, which may wait for a window": {
			node,
			"the certificate of node a expired at 2027-03-01T11:00:00Z; see conditions ClusterCATrust and Warning for why they are not renewed",
		},
		"that of the clients CA": {
			func(c *applied) { c.clientsCA.Decision = *ca(ended) },
			"the CA certificate of the clients-ca expired at 2027-03-01T11:00:00Z; see conditions ClientsCATrust and Warning for why they are not renewed",
		},
		"all of them": {
			func(c *applied) { listener(c, "mine"); node(c); c.clientsCA.Decision = *ca(ended) },
			"the CA certificate of the clients-ca expired at 2027-03-01T11:00:00Z; the certificate of node a expired at 2027-03-01T11:00:00Z; " +
				"see conditions ClientsCATrust, ClusterCATrust and Warning for why they are not renewed; " +
				"the certificate of listener public-9096, from Secret mine, expired at 2027-03-01T11:00:00Z: replace it in that Secret",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(smallKafka(), nil)
			c.clusterCA.Decision = *ca(noon().Add(time.Hour))
			test.expired(c)
			if got := c.validity(); got.message != test.want || got.status != condition.False {
				t.Errorf("condition is %+v, want the message\n%s", got, test.want)
			}
		})
	}
}

func TestCertificatesAreCalledWhatPeopleCallThem(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]metrics.Certificate{
		"the CA certificate of the cluster-ca":                           {Kind: "ca", Name: "cluster-ca"},
		"the operator's certificate in Secret my-cluster-operator-certs": {Kind: "operator", Name: "my-cluster-operator-certs"},
		"the certificate of node my-dual-0":                              {Kind: "node", Name: "my-dual-0"},
		"the certificate of listener tls-9093":                           {Kind: "listener", Name: "tls-9093"},
	} {
		if got := nameOfCertificate(c); got != want {
			t.Errorf("it is called %q, want %q", got, want)
		}
	}
}
