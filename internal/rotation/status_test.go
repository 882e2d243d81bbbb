package rotation_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// until plays a rotation until it has reached a phase.
func until(t *testing.T, r rotation.Record, phase rotation.Phase) rotation.Record {
	t.Helper()
	reached, there := rotationtest.Until(r, phase)
	if !there {
		t.Fatalf("it never gets to %s", phase)
	}
	return reached
}

func refused(r *rotation.Record) {
	r.Snapshot.Issuing, r.Refused = "", "Secret my-cluster-ca: ca.key: it is encrypted; restore the private key of the CA as unencrypted PKCS#8"
}

func TestARefusedAuthorityIsNotSaidToBeMissing(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(1, refused)
	status, forecast := r.Status(rotationtest.Now()), r.Ahead(rotationtest.Now())
	said := append([]string{status.Message, forecast.Message}, slices.Concat(status.Blockers, forecast.Blocked)...)
	if len(said) != 4 {
		t.Errorf("it is said: %q", said)
	}
	for _, sentence := range said {
		if !strings.Contains(sentence, "it is encrypted") || strings.Contains(sentence, "there is no") {
			t.Errorf("it is said: %s", sentence)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	tests := map[string]rotation.Record{
		"at-rest":                     rotationtest.AtRest(2),
		"raft-remainder":              until(t, rotationtest.AtRest(2, rotationtest.Replaced, rotationtest.Crossed), authorities.RaftRestartsPending),
		"a-node-is-down":              rotationtest.AtRest(2, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-1", rotationtest.Now().Add(-time.Hour))),
		"renewed-under-its-key":       until(t, rotationtest.AtRest(1, rotationtest.Renewed), rotation.WithdrawingOld),
		"in-the-middle-of-everything": crowded(2),
		"clients-ca":                  until(t, rotationtest.AtRest(1, rotationtest.Clients, rotationtest.Replaced), rotation.WaitingForUsers),
		"no-authority":                rotationtest.AtRest(1, func(r *rotation.Record) { r.Snapshot.Issuing = "" }),
		"refused":                     rotationtest.AtRest(1, refused),
	}
	for name, record := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := json.MarshalIndent(record.Status(rotationtest.Now()), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "statuses", name+".json"), string(text)+"\n")
		})
	}
}

func TestProgressCountsWhatIsProven(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		record rotation.Record
		want   rotation.Progress
	}{
		"nothing moves":                   {rotationtest.AtRest(3), rotation.Progress{}},
		"it has just begun":               {rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), rotation.Progress{Members: 3}},
		"one node does not say":           {rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-dual-0", rotationtest.Now())), rotation.Progress{Members: 3}},
		"leaves are switched":             {until(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), rotation.TurningOperator), rotation.Progress{Members: 3, Trust: 3, Present: 3}},
		"only the Raft clients are left":  {until(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), authorities.RaftRestartsPending), rotation.Progress{Members: 3, Trust: 3, Present: 3, Distrust: 3}},
		"the old authority is on its way": {until(t, rotationtest.AtRest(3, rotationtest.Replaced, rotationtest.Crossed), rotation.Retiring), rotation.Progress{Members: 3, Trust: 3, Present: 3, Distrust: 3, Closed: 3}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.record.Status(rotationtest.Now()).Progress); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDistrustIsOfferedOnlyAgainstAnotherKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  rotationtest.Change
		offered bool
	}{
		"the old CA has another key": {rotationtest.Replaced, true},
		"both have the same key":     {rotationtest.Renewed, false},
	} {
		r := until(t, rotationtest.AtRest(3, rotationtest.Clients, rotationtest.OfOthers, c.change), rotation.WaitingForExpiry)
		said := authorities.Words().Message(r.Snapshot, r.Plan(), r.Subject())
		if strings.Contains(said, "distrust") != c.offered || !strings.Contains(said, "clients-ca v0 (aaaaaaaa) stays trusted until it expires") {
			t.Errorf("%s, and it is said: %s", name, said)
		}
	}
}

func TestACompletedReplacementIsNotSaidToBeInProgress(t *testing.T) {
	t.Parallel()
	const stays = "clients-ca v0 (aaaaaaaa) stays trusted until it expires at 2027-09-17T08:00:00Z"
	entered := func(r *rotation.Record) {
		name := r.Anchors[rotationtest.AnchorA]
		name.Entry = "old.crt of Secret my-clients-ca-cert"
		r.Anchors[rotationtest.AnchorA] = name
	}
	keyless := func(r *rotation.Record) { r.Snapshot.Policy.Issuance = trust.Offered }
	for name, c := range map[string]struct {
		changes []rotationtest.Change
		want    string
	}{
		"another key": {
			[]rotationtest.Change{rotationtest.Replaced},
			stays + ", because clients may still present its certificates. To stop trusting clients-ca v0 (aaaaaaaa) earlier, " +
				"annotate Secret my-clients-ca with keyturn.dev/distrust=now. Nodes then reject clients that still present such certificates",
		},
		"another key, which an issuer has": {
			[]rotationtest.Change{rotationtest.Replaced, keyless},
			stays + ", because clients may still present its certificates. To stop trusting clients-ca v0 (aaaaaaaa) earlier, " +
				"annotate Secret my-clients-ca-cert with keyturn.dev/distrust=now. Nodes then reject clients that still present such certificates",
		},
		"the same key": {[]rotationtest.Change{rotationtest.Renewed}, stays + ". The new CA has the same key, so nothing needs to be done"},
		"an entry of the owner": {
			[]rotationtest.Change{rotationtest.Replaced, entered},
			stays + ", because clients may still present its certificates. To stop trusting it earlier, remove old.crt of Secret my-clients-ca-cert",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := append([]rotationtest.Change{rotationtest.Clients, rotationtest.OfOthers}, c.changes...)
			r := until(t, rotationtest.AtRest(3, changes...), rotation.WaitingForExpiry)
			r.Snapshot.Now = r.Snapshot.Now.Add(rotationtest.Day) // applications have had their time
			want := "The rotation from clients-ca v0 (aaaaaaaa) to clients-ca v1 (bbbbbbbb) is complete. " + c.want
			if got := authorities.Words().Message(r.Snapshot, r.Plan(), r.Subject()); got != want {
				t.Errorf("it says %q, want %q", got, want)
			}
		})
	}
}
