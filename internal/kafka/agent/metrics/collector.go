package metrics

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/publication"
)

// Source is what there is to show.
type Source interface {
	TLS() publication.Report
	BrokerState() contract.BrokerState
	// Mounted returns the publication that is mounted; its zero value when there
	// is none.
	Mounted() publication.Publication
	// MountLag is how long the newest publication took from the operator's clock
	// to the mount; zero when unknown.
	MountLag() time.Duration
	// Reloads is what became of reloads since the agent's start.
	Reloads() Reloads
}

// Reloads counts reloads by what became of them.
type Reloads struct {
	Loaded, Failed, Overtaken int
	// Last is how long the last one that was proven took since its publication was
	// mounted; zero when there was none.
	Last time.Duration
}

// Handler serves the metrics of one node.
func Handler(source Source, config func() contract.Config) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(source, config))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

type collector struct {
	source Source
	config func() contract.Config

	expiry, revision, stale, lag, state, reloads, last *prometheus.Desc
}

func newCollector(source Source, config func() contract.Config) *collector {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("keyturn_agent_"+name, help, labels, nil)
	}
	return &collector{
		source: source,
		config: config,
		expiry: describe("certificate_expiry_timestamp_seconds",
			"Unix time at which the first certificate that the listener presents expires.", "listener"),
		revision: describe("publication_revision",
			"Revision of the publication whose stores the server has loaded, and of the mounted one.", "stage"),
		stale: describe("listener_stale",
			"1 if the mounted publication names other certificates than the listener has loaded.", "listener"),
		lag: describe("mount_lag_seconds",
			"Time from the writing of the newest publication until it was mounted."),
		reloads: describe("reloads_total",
			"Attempts to let the running server load other stores, by what became of them.", "outcome"),
		last: describe("last_reload_seconds",
			"Time from the mounting of a publication until the last reload was proven by handshakes."),
		state: describe("broker_state", "State of the server in the numbers of Kafka's BrokerState."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	report, mounted := c.source.TLS(), c.source.Mounted()
	gauge(c.revision, float64(report.Revision), "loaded")
	gauge(c.revision, float64(mounted.Revision), "mounted")
	gauge(c.lag, c.source.MountLag().Seconds())
	gauge(c.state, float64(c.source.BrokerState().State))
	reloads := c.source.Reloads()
	gauge(c.last, reloads.Last.Seconds())
	for outcome, count := range map[string]int{"loaded": reloads.Loaded, "failed": reloads.Failed, "overtaken": reloads.Overtaken} {
		out <- prometheus.MustNewConstMetric(c.reloads, prometheus.CounterValue, float64(count), outcome)
	}
	stale := Stale(report, mounted, c.config().Stores)
	for _, listener := range slices.Sorted(maps.Keys(report.Roles)) {
		gauge(c.expiry, float64(report.Roles[listener].NotAfter.Unix()), string(listener))
		value := 0.0
		if slices.Contains(stale, listener) {
			value = 1
		}
		gauge(c.stale, value, string(listener))
	}
}

// Stale returns the listeners that have other certificates loaded than the
// mounted publication names for them, sorted. The Raft client is among them: it
// keeps what it was started with.
func Stale(report publication.Report, mounted publication.Publication, configured []publication.Store) []publication.Role {
	var stale []publication.Role
	for _, store := range configured {
		check := []publication.Role{store.Role}
		if store.Role == contract.ControlPlaneListener {
			check = append(check, contract.RaftRole)
		}
		for _, name := range check {
			if role, loaded := report.Roles[name]; loaded && !isFresh(role, name, store, mounted) {
				stale = append(stale, name)
			}
		}
	}
	slices.Sort(stale)
	return stale
}

// isFresh reports whether the role has loaded what the publication names.
func isFresh(role publication.RoleReport, name publication.Role, store publication.Store, mounted publication.Publication) bool {
	named, ok := mounted.Trust[name]
	if !ok {
		named = mounted.Trust[store.Role]
	}
	trusts := slices.Compact(slices.Sorted(slices.Values(named)))
	// A publication that names no chain says nothing about it.
	chain := store.Identity != publication.NodeIdentity || len(mounted.Chain) == 0 || slices.Equal(role.Chain, mounted.Chain)
	return chain && role.Presents == mounted.Identities[store.Identity] && slices.Equal(role.Trusts, trusts)
}
