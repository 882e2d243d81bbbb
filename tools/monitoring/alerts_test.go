package monitoring

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
	"sigs.k8s.io/yaml"
)

// rules are the alerts of the chart, by their names.
func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse([]byte(read(t, "charts", "keyturn", "files", "alerts.yaml")), false, model.UTF8Validation, newParser())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	named := map[string]rulefmt.Rule{}
	for _, group := range groups.Groups {
		for i := range group.Rules {
			if name := group.Rules[i].Alert; named[name].Alert == "" {
				named[name] = group.Rules[i]
			} else {
				t.Errorf("two alerts are named %s", name)
			}
		}
	}
	return named
}

// firing is what Prometheus sends to Alertmanager.
type firing struct {
	// after is the time since the first sample of the series.
	after time.Duration
	// labels and annotations are those of the alert, with placeholders filled in.
	labels, annotations map[string]string
}

// history is the time before the first evaluation: in the series of courses, what is wrong begins afterwards.
const history = time.Hour

// firstFiring returns when an alert begins to fire, or nil. It does when its expression has had the same result since for.
func (d database) firstFiring(t *testing.T, rule *rulefmt.Rule) *firing {
	t.Helper()
	var first *firing
	for _, series := range d.query(t, rule.Expr, at(history), at(6*time.Hour)) {
		points, ok := lasting(series.Floats, time.Duration(rule.For))
		if since := time.Duration(points.T) * time.Millisecond; ok && (first == nil || since < first.after) {
			first = &firing{after: since, labels: series.Metric.Map(), annotations: map[string]string{}}
			delete(first.labels, model.MetricNameLabel)
			for name, text := range rule.Annotations {
				first.annotations[name] = expanded(t, text, first.labels, points)
			}
		}
	}
	return first
}

// lasting returns the first point that has been there for a time without a gap.
func lasting(points []promql.FPoint, duration time.Duration) (promql.FPoint, bool) {
	var since int64
	for i, point := range points {
		if i == 0 || point.T-points[i-1].T > scrape.Milliseconds() {
			since = point.T
		}
		if point.T-since >= duration.Milliseconds() {
			return point, true
		}
	}
	return promql.FPoint{}, false
}

// expanded fills in the placeholders of an annotation. A label that the alert does not have is an error.
func expanded(t *testing.T, text string, of map[string]string, point promql.FPoint) string {
	t.Helper()
	const variables = "{{$labels := .Labels}}{{$value := .Value}}"
	data := template.AlertTemplateData(of, nil, "", promql.Sample{F: point.F})
	result, err := template.NewTemplateExpander(t.Context(), variables+text, "annotation", data, model.Time(point.T), nil, &url.URL{}, []string{"missingkey=error"}).Expand()
	if err != nil {
		t.Errorf("filling in %s: %v", text, err)
	}
	return result
}

func TestEachAlertFiresWhenItShouldAndOnlyThen(t *testing.T) {
	t.Parallel()
	all := rules(t)
	for name, course := range courses() {
		rule, exists := all[name]
		if !exists {
			t.Errorf("no alert is named %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			series := load(t, course.series...)
			series.checkSeries(t)
			fired := series.firstFiring(t, &rule)
			if fired == nil {
				t.Fatal("it does not fire")
			}
			want := time.Duration(course.minute) * time.Minute
			if fired.after != want {
				t.Errorf("it fires after %s, want %s", fired.after, want)
			}
			for what, notation := range course.also {
				if fired := load(t, notation...).firstFiring(t, &rule); fired == nil || fired.after != want {
					t.Errorf("%s: it does not fire after %s: %v", what, want, fired)
				}
			}
			if diff := cmp.Diff(course.summary, fired.annotations["summary"]); diff != "" {
				t.Errorf("its summary differs (-want +got):\n%s", diff)
			}
			for what, notation := range course.silent {
				silent := load(t, notation...)
				silent.checkSeries(t)
				if fired := silent.firstFiring(t, &rule); fired != nil {
					t.Errorf("%s: it fires after %s: %v", what, fired.after, fired.annotations["summary"])
				}
			}
		})
	}
}

func TestEachAlertHasACourseInWhichItFiresAndOneInWhichItDoesNot(t *testing.T) {
	t.Parallel()
	all := courses()
	for name := range rules(t) {
		if len(all[name].series) == 0 || len(all[name].silent) == 0 {
			t.Errorf("%s has no course in which it fires, or none in which it is silent", name)
		}
	}
}

func TestAlertsUseMetricsAndLabelsThatExist(t *testing.T) {
	t.Parallel()
	for _, rule := range rules(t) {
		checkExpression(t, rule.Expr)
	}
}

// The address that leads from an alert to its explanation has to survive in Alertmanager's messages.
func TestEachAlertLeadsToItsExplanation(t *testing.T) {
	t.Parallel()
	var chart struct {
		Home string `json:"home"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "charts", "keyturn", "Chart.yaml")), &chart); err != nil {
		t.Fatal(err)
	}
	var values struct {
		PrometheusRule struct {
			RunbookURL string `json:"runbookURL"`
		} `json:"prometheusRule"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "charts", "keyturn", "values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	address := chart.Home + "/blob/main/docs/monitoring.md"
	if values.PrometheusRule.RunbookURL != address {
		t.Errorf("the value runbookURL is %s, want %s", values.PrometheusRule.RunbookURL, address)
	}
	all, explained := rules(t), map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^### (Keyturn\w+)$`).FindAllStringSubmatch(read(t, "docs", "monitoring.md"), -1) {
		explained[heading[1]] = true
		if all[heading[1]].Alert == "" {
			t.Errorf("docs/monitoring.md explains %s, which is no alert", heading[1])
		}
	}
	for name, rule := range all {
		if !explained[name] {
			t.Errorf("docs/monitoring.md has no heading %s", name)
		}
		if want := address + "#" + strings.ToLower(name); rule.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %s, want %s", name, rule.Annotations["runbook_url"], want)
		}
	}
}

func TestEachAlertHasASeverityAndTwoTexts(t *testing.T) {
	t.Parallel()
	for name, rule := range rules(t) {
		if !slices.Contains([]string{"critical", "warning"}, rule.Labels["severity"]) {
			t.Errorf("%s has the severity %q", name, rule.Labels["severity"])
		}
		for _, text := range []string{"summary", "description"} {
			if !strings.HasSuffix(rule.Annotations[text], ".") {
				t.Errorf("the %s of %s is %q, which is no sentence", text, name, rule.Annotations[text])
			}
		}
	}
}
