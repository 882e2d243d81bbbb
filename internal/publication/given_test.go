package publication_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/publication"
)

func TestAPublicationGivesAnchorsByDomain(t *testing.T) {
	t.Parallel()
	stores := []publication.Store{
		{Role: "tls-9093", Trust: clientsDomain},
		{Role: replication, Trust: clusterDomain},
	}
	got := publication.GivenBy(publication.Publication{Trust: map[publication.Role][]string{
		"tls-9093": {"u"}, replication: {"a", "b"}, publication.AgentRole: {"b"},
	}}, stores, clusterDomain)
	want := publication.Given{clientsDomain: {"u"}, clusterDomain: {"a", "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
}

func TestWhatWasGivenIsRememberedInItsOrder(t *testing.T) {
	t.Parallel()
	given := publication.Given{clusterDomain: {"b"}}.With(publication.Given{clusterDomain: {"a", "b"}})
	text, err := given.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(publication.Given{clusterDomain: {"b", "a"}}, publication.ParseGiven(text)); diff != "" {
		t.Errorf("given (-want +got):\n%s", diff)
	}
	if !given.Covers(publication.Given{clusterDomain: {"a"}}) || given.Covers(publication.Given{clientsDomain: {"a"}}) {
		t.Error("what was given in one domain counts in the other, or not in its own")
	}
}

func TestWhatWasGivenFirstIsForgottenFirst(t *testing.T) {
	t.Parallel()
	given := publication.Given{}
	for i := range 40 {
		given = given.With(publication.Given{clusterDomain: {strconv.Itoa(i)}}).Newest()
	}
	if got := given[clusterDomain]; len(got) != 32 || got[0] != "8" || got[31] != "39" {
		t.Errorf("remembered: %v", got)
	}
}

func TestANoteThatCannotBeReadTellsNothing(t *testing.T) {
	t.Parallel()
	if got := publication.ParseGiven("{"); len(got) != 0 {
		t.Errorf("told %v", got)
	}
}
