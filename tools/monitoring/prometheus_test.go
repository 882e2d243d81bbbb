// Package monitoring tests the alerts and dashboards of the chart with Prometheus' own parser and query engine, against
// series of the metrics that the operators have.
package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

const root = "../.."

// scrape is the time between two samples of a series, and between two evaluations of an alert.
const scrape = time.Minute

// at is a time after the first sample of all series, which is 1970.
func at(since time.Duration) time.Time { return time.Unix(0, 0).Add(since) }

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// database is a storage in memory.
type database []promql.Series

// load reads series in the notation of Prometheus' tests, such as up{job="a"} 0x10 1x5.
func load(t *testing.T, notation ...string) database {
	t.Helper()
	loaded := make(database, 0, len(notation))
	for _, text := range notation {
		metric, values, err := newParser().ParseSeriesDesc(text)
		if err != nil {
			t.Fatalf("parsing the series %s: %v", text, err)
		}
		series := promql.Series{Metric: metric}
		for i, value := range values {
			if !value.Omitted {
				series.Floats = append(series.Floats, promql.FPoint{T: at(time.Duration(i) * scrape).UnixMilli(), F: value.Value})
			}
		}
		loaded = append(loaded, series)
	}
	return loaded
}

// query evaluates an expression at each minute of a span.
func (d database) query(t *testing.T, expr string, from, to time.Time) promql.Matrix {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableNegativeOffset: true, Parser: newParser(),
	})
	query, err := engine.NewRangeQuery(t.Context(), &storage.MockQueryable{MockQuerier: &storage.MockQuerier{SelectMockFunction: d.find}}, nil, expr, from, to, scrape)
	if err != nil {
		t.Fatalf("preparing %s: %v", expr, err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	matrix, err := result.Matrix()
	if err != nil {
		t.Fatalf("evaluating %s: %v", expr, err)
	}
	return slices.Clone(matrix)
}

func (d database) find(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &seriesSet{next: -1}
	for _, series := range d {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(series.Metric.Get(m.Name)) }) {
			found.series = append(found.series, series)
		}
	}
	slices.SortFunc(found.series, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return found
}

type seriesSet struct {
	series []promql.Series
	next   int
}

func (s *seriesSet) Next() bool                      { s.next++; return s.next < len(s.series) }
func (s *seriesSet) At() storage.Series              { return promql.NewStorageSeries(s.series[s.next]) }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

// metrics are the labels of each metric that an operator has.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{}
	for line := range strings.Lines(read(t, "internal", "cli", "testdata", "metrics.txt")) {
		name, list, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), "}"), "{")
		known[name] = strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
	}
	return known
}

// ofTarget are labels that Prometheus adds to each series.
func ofTarget() []string { return []string{"job", "instance", "namespace", "pod"} }

// mayBeEmpty are labels without a value in some series, where Prometheus removes them.
func mayBeEmpty() []string { return []string{"reason", "watched_namespace"} }

// labelsOf returns the labels that series of a metric have.
func labelsOf(known map[string][]string, metric string) ([]string, bool) {
	own, exists := known[metric]
	if !exists { // of a histogram there are two more
		own, exists = known[strings.TrimSuffix(strings.TrimSuffix(metric, "_sum"), "_count")]
	}
	return slices.Concat(own, ofTarget()), exists
}

// checkSeries holds series to the metrics that there are.
func (d database) checkSeries(t *testing.T) {
	t.Helper()
	known := metrics(t)
	for _, series := range d {
		want, exists := labelsOf(known, series.Metric.Get(model.MetricNameLabel))
		if !exists {
			t.Errorf("no operator has the metric of %s", series.Metric)
		}
		series.Metric.Range(func(label labels.Label) {
			if label.Name != model.MetricNameLabel && !slices.Contains(want, label.Name) {
				t.Errorf("%s: the metric has no label %s", series.Metric, label.Name)
			}
		})
		for _, label := range want[:len(want)-len(ofTarget())] {
			if !series.Metric.Has(label) && !slices.Contains(mayBeEmpty(), label) {
				t.Errorf("%s lacks the label %s", series.Metric, label)
			}
		}
	}
}

// grouped finds the labels by which an expression groups and matches.
var grouped = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)

// checkExpression holds an expression to the metrics that there are, to their labels, and to the reasons that are explained.
func checkExpression(t *testing.T, expr string) {
	t.Helper()
	parsed, err := newParser().ParseExpr(expr)
	if err != nil {
		t.Errorf("parsing %s: %v", expr, err)
		return
	}
	var all []string
	known, explained := metrics(t), read(t, "docs", "conditions.md")
	for _, selectors := range parser.ExtractSelectors(parsed) {
		own := checkSelector(t, known, selectors)
		all = append(all, own...)
		for _, m := range selectors {
			if m.Name != "phase" && m.Name != "reason" {
				continue
			}
			for value := range strings.SplitSeq(m.Value, "|") {
				if !strings.Contains(explained, "`"+value+"`") {
					t.Errorf("%s: docs/conditions.md does not explain %s %s", expr, m.Name, value)
				}
			}
		}
	}
	for _, match := range grouped.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(match[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(all, label) {
				t.Errorf("%s: no metric of it has the label %s", expr, label)
			}
		}
	}
}

// checkSelector returns the labels of the metrics that a selector selects.
func checkSelector(t *testing.T, known map[string][]string, selector []*labels.Matcher) []string {
	t.Helper()
	var own []string
	for _, m := range selector {
		if m.Name != model.MetricNameLabel {
			continue
		}
		for name := range strings.SplitSeq(m.Value, "|") {
			of, exists := labelsOf(known, name)
			if !exists {
				t.Errorf("no operator has the metric %s", name)
			}
			own = append(own, of...)
		}
	}
	for _, m := range selector {
		if m.Name != model.MetricNameLabel && !slices.Contains(own, m.Name) {
			t.Errorf("the metric of %v has no label %s", selector, m.Name)
		}
	}
	return own
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
