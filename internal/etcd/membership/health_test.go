package membership_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/etcd/membership"
)

func TestADatabaseNearsItsQuotaAtFourFifths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size membership.Size
		want []string
	}{
		"below":                   {membership.Size{Total: 79, Quota: 100}, nil},
		"at it":                   {membership.Size{Total: 80, Quota: 100}, []string{first}},
		"beyond the quota":        {membership.Size{Total: 120, Quota: 100}, []string{first}},
		"what is in use is small": {membership.Size{Total: 90, InUse: 1, Quota: 100}, []string{first}},
		"a quota that is unknown": {membership.Size{Total: 90}, nil},
		"of the largest":          {membership.Size{Total: 1<<63 - 1, Quota: 1<<63 - 1}, []string{first}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := membership.Judge(nil, map[string]membership.Size{first: c.size}, nil).Filling; !slices.Equal(got, c.want) {
				t.Errorf("filling are %v, want %v", got, c.want)
			}
		})
	}
}

func TestTheOrderOfAnswersChangesNothing(t *testing.T) {
	t.Parallel()
	alarms := []membership.Alarm{{Kind: membership.NoSpaceAlarm, ID: "1", Name: first}, {Kind: membership.CorruptAlarm, ID: "2"}, {Kind: membership.NoSpaceAlarm, ID: "0"}}
	known := []membership.Listed{{ID: "1"}, {ID: "2", IsLearner: true}}
	sizes := map[string]membership.Size{first: {Total: 9, Quota: 9}, second: {Total: 9, Quota: 9}}
	one := membership.Judge(alarms, sizes, known)
	slices.Reverse(alarms)
	slices.Reverse(known)
	if diff := cmp.Diff(one, membership.Judge(alarms, sizes, known)); diff != "" {
		t.Error(diff)
	}
	if got, want := one.Owners(membership.NoSpaceAlarm), []string{"0, which is removed from etcd", first}; !slices.Equal(got, want) {
		t.Errorf("owners are %v, want %v", got, want)
	}
}

func TestASettledClusterIsAskedWhenEtcdWasSeenWithOtherMembers(t *testing.T) {
	t.Parallel()
	ids := []membership.Listed{{ID: "id of " + first}, {ID: "id of " + second}, {ID: "id of " + third}}
	for name, c := range map[string]struct {
		known []membership.Listed
		asks  bool
	}{
		"not seen yet":         {nil, false},
		"the same":             {ids, false},
		"one more":             {append(slices.Clone(ids), membership.Listed{ID: "4", IsLearner: true}), true},
		"one less":             {ids[:2], true},
		"another one":          {append(slices.Clone(ids[:2]), membership.Listed{ID: "4"}), true},
		"a voter is a learner": {append(slices.Clone(ids[:2]), membership.Listed{ID: "id of " + third, IsLearner: true}), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := three()
			o.Known = c.known
			if _, asks := membership.Decide(o).Act.(membership.Ask); asks != c.asks {
				t.Errorf("asks %t, want %t", asks, c.asks)
			}
		})
	}
}
