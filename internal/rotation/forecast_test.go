package rotation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// changed is the record as it would be after a change of the authority.
func changed(t *testing.T, r rotation.Record, change rotation.Change) rotation.Record {
	t.Helper()
	after, err := r.WithChange(change, r.Snapshot.Now)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func cannotVouch(r *rotation.Record) {
	name := r.Anchors[rotationtest.AnchorA]
	name.CrossSignBlocked = "certificate a1a1a1a1 has path length 0 and is valid until 2027-09-17"
	r.Anchors[rotationtest.AnchorA] = name
}

func TestForecast(t *testing.T) {
	t.Parallel()
	tests := map[string]rotation.Record{
		"at-rest":                rotationtest.AtRest(3),
		"replace":                changed(t, rotationtest.AtRest(3), rotation.Replace),
		"replace-classic":        changed(t, rotationtest.AtRest(3, cannotVouch), rotation.Replace),
		"replace-without-reload": changed(t, rotationtest.AtRest(3, rotationtest.RestartsOnly), rotation.Replace),
		"replace-compromised":    changed(t, rotationtest.AtRest(3), rotation.ReplaceCompromised),
		"renew":                  changed(t, rotationtest.AtRest(3), rotation.Renew),
		"replace-clients-ca":     changed(t, rotationtest.AtRest(3, rotationtest.Clients), rotation.Replace),
		"compromised":            rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Distrusted),
		"a-node-is-down":         rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-1", rotationtest.Now())),
		"users-own-ca":           rotationtest.AtRest(2, rotationtest.Replaced, usersOwn(rotation.CaCrtReaders)),
		"users-own-ca-renamed":   rotationtest.AtRest(2, rotationtest.Replaced, rotationtest.Crossed, usersOwn(rotation.CaCrtReaders)),
		"users-own-ca-alone":     rotationtest.AtRest(2, rotationtest.Replaced, usersOwn(rotation.EveryReader)),
		"users-own-ca-below":     rotationtest.AtRest(2, rotationtest.Replaced, usersOwn(rotation.FirstReaders), below),
		"users-own-clients-ca":   rotationtest.AtRest(2, rotationtest.Clients, rotationtest.Replaced, usersOwn(rotation.EveryReader), takenOut),
		"paused":                 rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Paused),
		"not-measured-yet":       rotationtest.AtRest(1, rotationtest.Replaced, func(r *rotation.Record) { r.RestartSeconds, r.ReloadSeconds = 0, 0 }),
	}
	for name, record := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.MarshalIndent(record.Ahead(rotationtest.Now()), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "forecasts", name+".json"), string(text)+"\n")
		})
	}
}

func TestReplacementOfAClusterRestartsNothingAndNobodyNotices(t *testing.T) {
	t.Parallel()
	f := changed(t, rotationtest.AtRest(3), rotation.Replace).Ahead(rotationtest.Now())
	for _, node := range f.Nodes {
		if node.Restarts != 0 || node.Later != 1 {
			t.Errorf("%s is restarted %d times and once more %d times later; want 0 and 1", node.Node, node.Restarts, node.Later)
		}
	}
	if len(f.Nodes) != 3 || len(f.Blocked) != 0 {
		t.Errorf("work for %d nodes, blocked by %v", len(f.Nodes), f.Blocked)
	}
	if slices.ContainsFunc(f.Clients, func(o rotation.Outlook) bool { return o.Notices }) {
		t.Errorf("clients notice: %+v", f.Clients)
	}
}

func TestAuthorityThatCannotVouchLosesPinnedClients(t *testing.T) {
	t.Parallel()
	f := changed(t, rotationtest.AtRest(3, cannotVouch), rotation.Replace).Ahead(rotationtest.Now())
	if f.Strategy != trust.Classic {
		t.Errorf("strategy %s, want Classic", f.Strategy)
	}
	pinned := f.Clients[len(f.Clients)-1]
	// Three restarts, the reloads of the same stage, and the lead of two minutes.
	earliest, latest := rotationtest.Now().Add(2*time.Minute), rotationtest.Now().Add(10*time.Minute)
	if !pinned.Notices || pinned.Until.Before(earliest) || pinned.Until.After(latest) {
		t.Errorf("pinned clients: %+v; want that they notice between %s and %s", pinned, earliest, latest)
	}
}

func TestPinnedClientsOfACompromisedKeyThatCannotVouchAreCutOffByTheFirstNewLeaf(t *testing.T) {
	t.Parallel()
	compromised := func(r *rotation.Record) { r.Snapshot.Anchors[0].Compromised = true }
	r := rotationtest.AtRest(3, rotationtest.Replaced, compromised)
	f := r.Ahead(rotationtest.Now())
	if pinned := f.Clients[len(f.Clients)-1]; !pinned.Notices || !strings.Contains(pinned.What, "when the first node presents the new CA") {
		t.Errorf("pinned clients: %+v; there is no cross certificate that could be taken off", pinned)
	}
}

func TestPinnedClientsAreCutOffOnceNodesPresentWhatNothingLeadsTo(t *testing.T) {
	t.Parallel()
	r, reached := rotationtest.Until(rotationtest.AtRest(2, rotationtest.Replaced), rotation.WithdrawingOld)
	if !reached {
		t.Fatal("it never gets there")
	}
	f := r.Ahead(r.Snapshot.Now)
	if pinned := f.Clients[len(f.Clients)-1]; !pinned.Notices || pinned.What != "it has been cut off since the first node presented the new CA" {
		t.Errorf("pinned clients: %+v", pinned)
	}
}

func TestReplacementOfACompromisedKeyIsForecastAsItsDistrust(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(
		shape(rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Distrusted)),
		shape(changed(t, rotationtest.AtRest(3), rotation.ReplaceCompromised)),
	); diff != "" {
		t.Errorf("-distrusted in the middle +asked about before:\n%s", diff)
	}
}

// shape is the course of a record without its names: what is done how, to how many.
func shape(r rotation.Record) []string {
	var out []string
	for _, stage := range r.Ahead(rotationtest.Now()).Stages {
		for _, step := range stage.Steps {
			out = append(out, fmt.Sprintf("%s %s %d", step.Kind, step.How, len(step.Members)))
		}
		out = append(out, fmt.Sprintf("%.1f", stage.Duration))
	}
	return out
}

func TestSecondReplacementIsVouchedForByEveryPredecessor(t *testing.T) {
	t.Parallel()
	r := changed(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), rotation.Replace)
	incoming := r.Snapshot.Anchors[2]
	if len(incoming.Cross) != 2 || incoming.NoCross != "" {
		t.Errorf("cross certificates %+v, missing because of %q; want two", incoming.Cross, incoming.NoCross)
	}
	if name := r.Anchors[incoming.ID].CommonName; name != "cluster-ca v2" {
		t.Errorf("it is called %q, want cluster-ca v2", name)
	}
}

func TestPinnedClientsAreToldTheDateAfterTheOldAuthorityIsGone(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(1, func(r *rotation.Record) {
		r.Snapshot.Anchors[0].Cross = []trust.Cross{{Issuer: rotationtest.KeyB, NotAfter: rotationtest.Now().Add(50 * rotationtest.Day)}}
	})
	f := r.Ahead(rotationtest.Now())
	if len(f.Clients) != 1 || !f.Clients[0].Until.Equal(rotationtest.Now().Add(49*rotationtest.Day)) {
		t.Errorf("clients %+v; want the rotationtest.Day before the cross certificate ends", f.Clients)
	}
}

func TestNothingCanBeReplacedWhereNothingIs(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(1, func(r *rotation.Record) { r.Snapshot.Issuing = "" })
	if _, err := r.WithChange(rotation.Replace, rotationtest.Now()); err == nil {
		t.Error("a replacement of nothing was planned")
	}
}

func TestForecastLeavesTheRecordAlone(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(3)
	before := encode(t, r)
	changed(t, r, rotation.Replace).Ahead(rotationtest.Now().Add(time.Hour))
	if after := encode(t, r); !bytes.Equal(after, before) {
		t.Errorf("the record changed:\n%s\n%s", before, after)
	}
}
