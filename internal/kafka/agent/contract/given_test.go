package contract_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
)

func TestAPublicationGivesAnchorsByDomain(t *testing.T) {
	t.Parallel()
	stores := []contract.Store{
		{Listener: "tls-9093", Trust: contract.ClientsDomain},
		{Listener: contract.ReplicationListener, Trust: contract.ClusterDomain},
	}
	got := contract.GivenBy(contract.Publication{Trust: map[contract.Listener][]string{
		"tls-9093": {"u"}, contract.ReplicationListener: {"a", "b"}, contract.AgentRole: {"b"},
	}}, stores)
	want := contract.Given{contract.ClientsDomain: {"u"}, contract.ClusterDomain: {"a", "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
}

func TestWhatWasGivenIsRememberedInItsOrder(t *testing.T) {
	t.Parallel()
	given := contract.Given{contract.ClusterDomain: {"b"}}.With(contract.Given{contract.ClusterDomain: {"a", "b"}})
	text, err := given.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(contract.Given{contract.ClusterDomain: {"b", "a"}}, contract.ParseGiven(text)); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	if !given.Covers(contract.Given{contract.ClusterDomain: {"a"}}) || given.Covers(contract.Given{contract.ClientsDomain: {"a"}}) {
		t.Error("what was given in one domain counts in the other, or not in its own")
	}
}

func TestWhatWasGivenFirstIsForgottenFirst(t *testing.T) {
	t.Parallel()
	given := contract.Given{}
	for i := range 40 {
		given = given.With(contract.Given{contract.ClusterDomain: {strconv.Itoa(i)}}).Newest()
	}
	if got := given[contract.ClusterDomain]; len(got) != 32 || got[0] != "8" || got[31] != "39" {
		t.Errorf("remembered: %v", got)
	}
}

func TestANoteThatCannotBeReadTellsNothing(t *testing.T) {
	t.Parallel()
	if got := contract.ParseGiven("{"); len(got) != 0 {
		t.Errorf("told %v", got)
	}
}
