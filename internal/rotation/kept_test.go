package rotation_test

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

const (
	anchorC   = trust.AnchorID("cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc")
	oldStays  = "clients-ca v0 (aaaaaaaa) stays trusted until it expires at 2027-09-17T08:00:00Z"
	oldKept   = "clients-ca v0 (aaaaaaaa) is not trusted by any node, and is kept until it expires at 2027-09-17T08:00:00Z"
	otherKept = "clients-ca v0 (cccccccc) is not trusted by any node, and is kept until it expires at 2027-11-20T08:00:00Z"
)

// withoutNodes leaves no listener that verifies users.
func withoutNodes(r *rotation.Record) { r.Snapshot.Members = nil }

// renewedBefore adds a certificate of the old key that no node was given, because the key
// was replaced at the same time.
func renewedBefore(r *rotation.Record) {
	end := rotationtest.Now().Add(364 * rotationtest.Day)
	r.Snapshot.Anchors = append(r.Snapshot.Anchors, trust.Anchor{ID: anchorC, Name: "c3c3c3c3c3c3c3c3", Key: rotationtest.KeyA, NotAfter: end, Stored: trust.PhaseOut})
	r.Anchors[anchorC] = rotation.AnchorName{CommonName: "clients-ca v0", SHA1: "c3c3c3c3c3c3c3c3", NotBefore: rotationtest.Now(), NotAfter: end}
}

// settledSoon plays a rotation until only an expiry changes anything.
func settledSoon(t *testing.T, r rotation.Record) rotation.Record {
	t.Helper()
	end := r.Snapshot.Now.Add(rotationtest.Day)
	for range 60 {
		before := r.Snapshot.Now
		if !rotationtest.Advance(&r.Snapshot, trust.Decide(r.Snapshot)) || r.Snapshot.Now.After(end) {
			r.Snapshot.Now = before
			return r
		}
	}
	t.Fatal("it never comes to rest")
	return r
}

func TestAnOldClientsCAIsKeptUntilItExpiresWhetherANodeTrustsItOrNot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes []rotationtest.Change
		want    []string
	}{
		"nodes trust it": {[]rotationtest.Change{rotationtest.Replaced}, []string{oldStays}},
		"nodes trust one of its two certificates":     {[]rotationtest.Change{rotationtest.Replaced, renewedBefore}, []string{oldStays, otherKept}},
		"no listener uses it":                         {[]rotationtest.Change{rotationtest.Replaced, withoutNodes}, []string{oldKept}},
		"no listener uses it, and it was renewed":     {[]rotationtest.Change{rotationtest.Renewed, withoutNodes}, []string{oldKept}},
		"no listener uses either of its certificates": {[]rotationtest.Change{rotationtest.Replaced, renewedBefore, withoutNodes}, []string{oldKept, otherKept}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := append([]rotationtest.Change{rotationtest.Clients, rotationtest.OfOthers}, c.changes...)
			r := settledSoon(t, rotationtest.AtRest(3, changes...))
			status := r.Status(r.Snapshot.Now)
			if status.Phase != rotation.WaitingForExpiry || !authorities.Words().Settled(status.Phase) {
				t.Errorf("phase %s, want %s", status.Phase, rotation.WaitingForExpiry)
			}
			for _, want := range c.want {
				if !strings.Contains(status.Message, want) {
					t.Errorf("it says %q, want %q", status.Message, want)
				}
			}
		})
	}
}
