package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	accesses "github.com/keyturn/keyturn/internal/access/controller"
	etcd "github.com/keyturn/keyturn/internal/etcd/controller"
	kafkametrics "github.com/keyturn/keyturn/internal/kafka/metrics"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/kube/watches"
	topic "github.com/keyturn/keyturn/internal/topic/controller"
	user "github.com/keyturn/keyturn/internal/user/controller"
)

// described finds name and labels in what a Desc prints, which has no methods for them.
var described = regexp.MustCompile(`fqName: "([^"]+)", .*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

// Alerts and dashboards of the chart are tested against this list. What the Go runtime has depends on its version.
func TestTheMetricsOfOperatorsAreListed(t *testing.T) {
	t.Parallel()
	runtimes, ok := metrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("%T describes no metrics", metrics.Registry)
	}
	var lines []string
	for _, collector := range []prometheus.Collector{
		runtimes, kafkametrics.New(), user.NewMetrics(types.NamespacedName{}), topic.NewMetrics(types.NamespacedName{}), accesses.NewMetrics(), etcd.NewMetrics(),
		watches.NewObserver(clock.RealClock{}), clockFigure(kube.NewServerClock(clock.RealClock{})),
	} {
		lines = append(lines, descriptions(t, collector)...)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "go_") })
	slices.Sort(lines)
	got, golden := strings.Join(slices.Compact(lines), "\n")+"\n", filepath.Join("testdata", "metrics.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the metrics differ (-listed +described), -update writes the list:\n%s", diff)
	}
}

// descriptions are the name of each metric and its labels in order.
func descriptions(t *testing.T, collector prometheus.Collector) []string {
	t.Helper()
	found := make(chan *prometheus.Desc)
	go func() {
		defer close(found)
		collector.Describe(found)
	}()
	var lines []string
	for desc := range found {
		parts := described.FindStringSubmatch(desc.String())
		if parts == nil {
			t.Errorf("%s has another form", desc)
			continue
		}
		var labels []string
		for label := range strings.SplitSeq(parts[2]+","+parts[3], ",") {
			if name, _, _ := strings.Cut(label, "="); name != "" {
				labels = append(labels, name)
			}
		}
		slices.Sort(labels)
		lines = append(lines, fmt.Sprintf("%s{%s}", parts[1], strings.Join(labels, ",")))
	}
	return lines
}
