package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const alertsOn = "--set=prometheusRule.enabled=true"

// alertsOf are the rules of a file of Prometheus, or of the spec of a PrometheusRule, by the names of their alerts.
func alertsOf(t *testing.T, spec any) map[string]object {
	t.Helper()
	text, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var groups struct {
		Groups []struct {
			Rules []object `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal(text, &groups); err != nil {
		t.Fatal(err)
	}
	all := map[string]object{}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			all[fmt.Sprint(rule.at("alert"))] = rule
		}
	}
	return all
}

// renderedAlerts are those of the PrometheusRule.
func renderedAlerts(t *testing.T, arguments ...string) map[string]object {
	t.Helper()
	all, err := renderAll(t, append([]string{alertsOn}, arguments...)...)
	if err != nil {
		t.Fatal(err)
	}
	return alertsOf(t, ofKind(t, all, "PrometheusRule")[0].at("spec"))
}

// fileOfAlerts are those that Prometheus reads without the Prometheus operator.
func fileOfAlerts(t *testing.T) map[string]object {
	t.Helper()
	var file any
	if err := yaml.Unmarshal(chartFile(t, filepath.Join("files", "alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	return alertsOf(t, file)
}

func TestNoKindOfTheMonitoringIsRenderedByDefault(t *testing.T) {
	t.Parallel()
	all, err := renderAll(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.kind() == "PrometheusRule" || one.kind() == "ConfigMap" {
			t.Errorf("%s %s is rendered", one.kind(), one.name())
		}
	}
}

func TestAllAlertsOfTheFileAreRenderedAsTheyAre(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(fileOfAlerts(t), renderedAlerts(t)); diff != "" {
		t.Errorf("the alerts differ (-file +PrometheusRule):\n%s", diff)
	}
}

// An alert for an operator that is not installed would fire for ever.
func TestOperatorsThatAreNotInstalledAreNotMissed(t *testing.T) {
	t.Parallel()
	got := renderedAlerts(t, "--set=etcd.enabled=false,accessOperator.enabled=false")
	for name := range fileOfAlerts(t) {
		_, exists := got[name]
		if want := !strings.HasPrefix(name, "KeyturnEtcd") && !strings.HasPrefix(name, "KeyturnAccess"); exists != want {
			t.Errorf("%s is rendered: %t, want %t", name, exists, want)
		}
	}
}

func TestAlertsNameTheLeasesOfTheRelease(t *testing.T) {
	t.Parallel()
	lease := regexp.MustCompile(`name="([^"]+)"`)
	for _, arguments := range [][]string{{}, {"--set=fullnameOverride=shop"}} {
		all, err := renderAll(t, append([]string{alertsOn}, arguments...)...)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, deployment := range ofKind(t, all, "Deployment") {
			args, _ := containerOf(t, deployment).at("args").([]any)
			for _, arg := range args {
				if id, is := strings.CutPrefix(fmt.Sprint(arg), "--leader-election-id="); is {
					want = append(want, id)
				}
			}
		}
		for _, rule := range alertsOf(t, ofKind(t, all, "PrometheusRule")[0].at("spec")) {
			for _, name := range lease.FindAllStringSubmatch(fmt.Sprint(rule.at("expr")), -1) {
				got = append(got, name[1])
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || len(want) != 3 {
			t.Errorf("%v: the Leases differ (-operators +alerts):\n%s", arguments, diff)
		}
	}
}

func TestValuesReachAlerts(t *testing.T) {
	t.Parallel()
	got := renderedAlerts(t, `--set-json=prometheusRule={"enabled":true,"ruleLabels":{"team":"data","severity":"page"},"disabled":["KeyturnAgentsSilent"],"runbookURL":"https://runbooks.example.com/keyturn"}`)
	if _, exists := got["KeyturnAgentsSilent"]; exists || len(got) != len(fileOfAlerts(t))-1 {
		t.Errorf("%d alerts are rendered, KeyturnAgentsSilent among them: %t", len(got), exists)
	}
	one := got["KeyturnKafkaIsNotReady"]
	if diff := cmp.Diff(any(map[string]any{"severity": "critical", "team": "data"}), one.at("labels")); diff != "" {
		t.Errorf("the labels differ (-want +got):\n%s", diff)
	}
	if want, is := "https://runbooks.example.com/keyturn#keyturnkafkaisnotready", one.at("annotations", "runbook_url"); is != want {
		t.Errorf("runbook_url is %v, want %s", is, want)
	}
	for name, rule := range renderedAlerts(t, "--set=prometheusRule.runbookURL=") {
		annotations, _ := rule.at("annotations").(map[string]any)
		if keys := slices.Sorted(maps.Keys(annotations)); !slices.Equal(keys, []string{"description", "summary"}) {
			t.Errorf("without runbookURL %s has the annotations %v", name, keys)
		}
	}
	t.Run("a misspelled alert", func(t *testing.T) {
		t.Parallel()
		refused(t, "prometheusRule.enabled=true,prometheusRule.disabled={KeyturnAgentSilent}", "prometheusRule.disabled contains KeyturnAgentSilent")
	})
	t.Run("a label of the chart", func(t *testing.T) {
		t.Parallel()
		refused(t, "prometheusRule.labels.app\\.kubernetes\\.io/name=a", "prometheusRule.labels must not contain app.kubernetes.io/name")
	})
}

func TestEachOperatorHasAServiceForItsMetrics(t *testing.T) {
	t.Parallel()
	all, err := renderAll(t)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, service := range ofKind(t, all, "Service") {
		names = append(names, service.name())
		selector, _ := service.at("spec", "selector").(map[string]any)
		pods := func(deployment object) bool {
			labels, _ := deployment.at("spec", "template", "metadata", "labels").(map[string]any)
			for key, value := range selector {
				if labels[key] != value {
					return false
				}
			}
			return true
		}
		if !slices.ContainsFunc(ofKind(t, all, "Deployment"), pods) {
			t.Errorf("%s selects the pods of no operator: %v", service.name(), selector)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"keyturn-access-metrics", "keyturn-etcd-metrics", "keyturn-metrics", "keyturn-user-metrics"}, names); diff != "" {
		t.Errorf("the Services differ (-want +got):\n%s", diff)
	}
}
