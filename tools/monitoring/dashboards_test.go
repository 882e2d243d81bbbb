package monitoring

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// dashboard is what the tests read of a file of Grafana.
type dashboard struct {
	UID        string  `json:"uid"`
	Title      string  `json:"title"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Targets     []struct {
		Datasource struct {
			UID string `json:"uid"`
		} `json:"datasource"`
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
}

type variable struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Query json.RawMessage `json:"query"`
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "charts", "keyturn", "files", "dashboards", "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards are found: %v", err)
	}
	all := map[string]dashboard{}
	for _, path := range paths {
		var one dashboard
		if err := json.Unmarshal([]byte(read(t, strings.TrimPrefix(path, root))), &one); err != nil {
			t.Fatalf("parsing %s: %v", path, err)
		}
		all[filepath.Base(path)] = one
	}
	return all
}

// chosen fills in the variables of a dashboard, as Grafana does before it asks Prometheus.
func chosen(expr string) string {
	return strings.NewReplacer("$namespace", "kafka|etcd|keyturn", "$cluster", "my-cluster", "$job", ".*", "$__rate_interval", "5m").Replace(expr)
}

// samples are series of two hours of everything that operators have.
func samples(t *testing.T) database {
	t.Helper()
	var notation []string
	for line := range strings.Lines(read(t, "tools", "monitoring", "testdata", "samples.txt")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			notation = append(notation, line)
		}
	}
	return load(t, notation...)
}

func TestEachPanelShowsSomething(t *testing.T) {
	t.Parallel()
	series := samples(t)
	series.checkSeries(t)
	placeholder := regexp.MustCompile(`\{\{(\w+)\}\}`)
	for file, board := range dashboards(t) {
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				expr := chosen(target.Expr)
				checkExpression(t, expr)
				result := series.query(t, expr, at(time.Hour), at(time.Hour))
				if len(result) == 0 {
					t.Errorf("%s, %s: there is nothing to show for %s", file, p.Title, expr)
				}
				for _, label := range placeholder.FindAllStringSubmatch(target.LegendFormat, -1) {
					for _, shown := range result {
						if !shown.Metric.Has(label[1]) {
							t.Errorf("%s, %s: the legend names the label %s, which %s lacks", file, p.Title, label[1], shown.Metric)
						}
					}
				}
			}
		}
	}
}

// A panel with a data source of its own would be empty in every other Grafana.
func TestDashboardsCanBeImportedAnywhere(t *testing.T) {
	t.Parallel()
	uids := map[string]bool{}
	for file, board := range dashboards(t) {
		if board.UID == "" || uids[board.UID] || !strings.HasPrefix(board.Title, "Keyturn / ") {
			t.Errorf("%s has the uid %q and the title %q", file, board.UID, board.Title)
		}
		uids[board.UID] = true
		ids := map[int]bool{}
		for _, p := range board.Panels {
			if ids[p.ID] || p.Title == "" {
				t.Errorf("%s: the panel %d %q has no title, or the id of another one", file, p.ID, p.Title)
			}
			ids[p.ID] = true
			if (p.Description == "" || len(p.Targets) == 0) && p.Type != "row" {
				t.Errorf("%s: the panel %s has no description, or no query", file, p.Title)
			}
			for _, target := range p.Targets {
				if target.Datasource.UID != "${datasource}" {
					t.Errorf("%s: the panel %s reads %s", file, p.Title, target.Datasource.UID)
				}
			}
		}
	}
}

func TestVariablesOfDashboardsAreLabelsThatExist(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for file, board := range dashboards(t) {
		names := make([]string, 0, len(board.Templating.List))
		for _, v := range board.Templating.List {
			names = append(names, v.Name)
			if v.Type == "datasource" {
				continue
			}
			var asked struct {
				Query string `json:"query"`
			}
			if err := json.Unmarshal(v.Query, &asked); err != nil {
				t.Fatal(err)
			}
			parts := form.FindStringSubmatch(asked.Query)
			if parts == nil {
				t.Errorf("%s: the variable %s has the query %s", file, v.Name, asked.Query)
				continue
			}
			checkExpression(t, chosen("count by ("+parts[2]+") ("+parts[1]+")"))
		}
		for _, want := range []string{"datasource", "namespace"} {
			if !slices.Contains(names, want) {
				t.Errorf("%s has no variable %s", file, want)
			}
		}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				if left := chosen(target.Expr); strings.Contains(left, "$") {
					t.Errorf("%s: no variable is named as in %s", file, left)
				}
			}
		}
	}
}

// A panel of a metric without a sample could not be tested.
func TestSamplesHaveEveryMetric(t *testing.T) {
	t.Parallel()
	sampled := map[string]bool{}
	for _, series := range samples(t) {
		sampled[series.Metric.Get("__name__")] = true
	}
	for name := range metrics(t) {
		if strings.HasPrefix(name, "keyturn_") && !sampled[name] {
			t.Errorf("testdata/samples.txt has no series of %s", name)
		}
	}
}
