package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/metrics"
	"github.com/keyturn/keyturn/internal/publication"
)

type source struct {
	report  publication.Report
	mounted publication.Publication
}

func (s source) TLS() publication.Report           { return s.report }
func (s source) BrokerState() contract.BrokerState { return contract.BrokerState{State: 3} }
func (s source) Mounted() publication.Publication  { return s.mounted }
func (s source) MountLag() time.Duration           { return 1500 * time.Millisecond }

func (s source) Reloads() metrics.Reloads {
	return metrics.Reloads{Loaded: 3, Failed: 2, Overtaken: 1, Last: 1250 * time.Millisecond}
}

func node() (source, contract.Config) {
	end := time.Unix(1800000000, 0)
	loaded := source{
		report: publication.Report{Revision: 3, Roles: map[publication.Role]publication.RoleReport{
			publication.AgentRole:        {Trusts: []string{"aa"}, Presents: "11", NotAfter: end},
			contract.ReplicationListener: {Trusts: []string{"aa"}, Presents: "11", NotAfter: end},
			"tls-9093":                   {Trusts: []string{"bb"}, Presents: "22", NotAfter: end},
		}},
		mounted: publication.Publication{
			Revision:   4,
			Identities: map[string]string{publication.NodeIdentity: "11", "tls-9093": "22"},
			Trust:      map[publication.Role][]string{contract.ReplicationListener: {"aa"}, "tls-9093": {"bb"}},
		},
	}
	return loaded, contract.Config{Stores: []publication.Store{
		{Role: "tls-9093", Identity: "tls-9093", Trust: contract.ClientsDomain},
		{Role: contract.ReplicationListener, Identity: publication.NodeIdentity, Trust: contract.ClusterDomain},
	}}
}

func TestStaleListeners(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*source)
		want   []publication.Role
	}{
		"nothing has changed": {func(*source) {}, nil},
		"the node's leaf": {
			func(s *source) { s.mounted.Identities[publication.NodeIdentity] = "33" },
			[]publication.Role{contract.ReplicationListener},
		},
		"an anchor more for one listener": {
			func(s *source) { s.mounted.Trust["tls-9093"] = []string{"cc", "bb"} },
			[]publication.Role{"tls-9093"},
		},
		"another order of the same anchors": {func(s *source) {
			s.mounted.Trust["tls-9093"] = []string{"cc", "bb"}
			s.report.Roles["tls-9093"] = publication.RoleReport{Trusts: []string{"bb", "cc"}, Presents: "22"}
		}, nil},
		"the server is not started": {func(s *source) { s.report = publication.Report{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, config := node()
			c.change(&s)
			if got := metrics.Stale(s.report, s.mounted, config.Stores); !slices.Equal(got, c.want) {
				t.Errorf("stale %v, want %v", got, c.want)
			}
		})
	}
}

func TestMetricsOfANode(t *testing.T) {
	t.Parallel()
	s, config := node()
	s.mounted.Identities["tls-9093"] = "33"
	recorder := httptest.NewRecorder()
	metrics.Handler(s, func() contract.Config { return config }).
		ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, agent.MetricsPath, http.NoBody))
	const want = `# HELP keyturn_agent_broker_state State of the server in the numbers of Kafka's BrokerState.
# TYPE keyturn_agent_broker_state gauge
keyturn_agent_broker_state 3
# HELP keyturn_agent_certificate_expiry_timestamp_seconds Unix time at which the first certificate that the listener presents expires.
# TYPE keyturn_agent_certificate_expiry_timestamp_seconds gauge
keyturn_agent_certificate_expiry_timestamp_seconds{listener="agent"} 1.8e+09
keyturn_agent_certificate_expiry_timestamp_seconds{listener="replication-9091"} 1.8e+09
keyturn_agent_certificate_expiry_timestamp_seconds{listener="tls-9093"} 1.8e+09
# HELP keyturn_agent_last_reload_seconds Time from the mounting of a publication until the last reload was proven by handshakes.
# TYPE keyturn_agent_last_reload_seconds gauge
keyturn_agent_last_reload_seconds 1.25
# HELP keyturn_agent_listener_stale 1 if the mounted publication names other certificates than the listener has loaded.
# TYPE keyturn_agent_listener_stale gauge
keyturn_agent_listener_stale{listener="agent"} 0
keyturn_agent_listener_stale{listener="replication-9091"} 0
keyturn_agent_listener_stale{listener="tls-9093"} 1
# HELP keyturn_agent_mount_lag_seconds Time from the writing of the newest publication until it was mounted.
# TYPE keyturn_agent_mount_lag_seconds gauge
keyturn_agent_mount_lag_seconds 1.5
# HELP keyturn_agent_publication_revision Revision of the publication whose stores the server has loaded, and of the mounted one.
# TYPE keyturn_agent_publication_revision gauge
keyturn_agent_publication_revision{stage="loaded"} 3
keyturn_agent_publication_revision{stage="mounted"} 4
# HELP keyturn_agent_reloads_total Attempts to let the running server load other stores, by what became of them.
# TYPE keyturn_agent_reloads_total counter
keyturn_agent_reloads_total{outcome="failed"} 2
keyturn_agent_reloads_total{outcome="loaded"} 3
keyturn_agent_reloads_total{outcome="overtaken"} 1
`
	if diff := cmp.Diff(want, recorder.Body.String()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
