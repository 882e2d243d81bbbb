package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/report"
)

func TestADemoOnABusyMachineSaysThatItWasSlowAndFailsOnlyForWhatClientsLost(t *testing.T) {
	t.Parallel()
	gap := report.AtMost("longest gap within bounds", 4.9, 3, "s", "")
	cases := map[string]struct {
		figures  []report.Figure
		ok, slow bool
	}{
		"all is well":         {nil, true, false},
		"a gap":               {[]report.Figure{gap}, true, true},
		"a restart":           {[]report.Figure{report.AtMost("restarts", 1, 0, "restarts", "")}, false, false},
		"a gap and a refusal": {[]report.Figure{gap, report.AtMost("refusals", 1, 0, "connections", "")}, false, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			summary := act{name: "any", result: probe.Result{Complete: true}, figures: c.figures}.summary()
			slow := slices.ContainsFunc(summary.Notes, func(note string) bool {
				return strings.HasPrefix(note, "it was slow (") && strings.HasSuffix(note, "longest gap within bounds: 4.9 s, to be <= 3")
			})
			if summary.Ok != c.ok || slow != c.slow {
				t.Errorf("ok %t, said to be slow %t, want %t and %t: %v", summary.Ok, slow, c.ok, c.slow, summary.Notes)
			}
		})
	}
}
