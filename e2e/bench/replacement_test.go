package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/ledger"
)

// A gap belongs to the phase in which it ended: what clients notice while nothing
// happens is not the replacement's.
func TestGapsOfTheReplacementAreToldApartFromThoseOfTheMachine(t *testing.T) {
	t.Parallel()
	client := func(replaced, calm time.Duration) probe.ClientState {
		return probe.ClientState{Records: ledger.Account{Phases: map[string]ledger.Phase{
			replacing: {LongestGap: ledger.Gap{Length: replaced}},
			nothing:   {LongestGap: ledger.Gap{Length: calm}},
			"before":  {LongestGap: ledger.Gap{Length: time.Hour}},
		}}}
	}
	result := probe.Result{Snapshot: probe.Snapshot{Clients: []probe.ClientState{client(2*time.Second, time.Second), client(time.Second, 4*time.Second)}}}
	var got []float64
	for _, figure := range gaps(result) {
		got = append(got, figure.Value)
	}
	if diff := cmp.Diff([]float64{2, 4}, got); diff != "" {
		t.Error(diff)
	}
}
