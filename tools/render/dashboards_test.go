package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEachDashboardIsAConfigMapThatGrafanaFinds(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "charts", "keyturn", "files", "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := renderAll(t, `--set-json=dashboards={"enabled":true,"annotations":{"grafana_folder":"Keyturn"},"namespace":"monitoring"}`, "--set=fullnameOverride="+strings.Repeat("a", 50))
	if err != nil {
		t.Fatal(err)
	}
	got, want := map[string]any{}, map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want[filepath.Base(file)] = strings.TrimSpace(string(text))
	}
	for _, one := range ofKind(t, all, "ConfigMap") {
		data, _ := one.at("data").(map[string]any)
		for name, text := range data {
			got[name] = strings.TrimSpace(fmt.Sprint(text))
		}
		if one.at("metadata", "labels", "grafana_dashboard") != "1" || one.at("metadata", "annotations", "grafana_folder") != "Keyturn" || one.at("metadata", "namespace") != "monitoring" {
			t.Errorf("%s has the metadata %v", one.name(), one.at("metadata"))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("the dashboards differ (-files +ConfigMaps):\n%s", diff)
	}
}
