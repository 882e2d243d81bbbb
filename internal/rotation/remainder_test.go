package rotation_test

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// TestNobodyWaitsForRaftClientsWithAnEarlierCertificate is the end of a renewal
// under the same key: all that is left of it are restarts when there is time.
func TestNobodyWaitsForRaftClientsWithAnEarlierCertificate(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(3)
	for i := range r.Snapshot.Members {
		peers := r.Snapshot.Members[i].Roles
		for j := range peers {
			if peers[j].Plane == roles.Raft() {
				peers[j].Evidence.Loaded.Trust = []trust.AnchorID{"gone"}
			}
		}
	}
	plan := trust.Decide(r.Snapshot)
	if phase := authorities.Words().PhaseOf(r.Snapshot, plan); phase != authorities.RaftRestartsPending || !authorities.Words().Settled(phase) {
		t.Errorf("phase %s, want %s", phase, authorities.RaftRestartsPending)
	}
	if message := authorities.Words().Message(r.Snapshot, plan, r.Subject()); !strings.Contains(message, "until my-dual-0, my-dual-1, my-dual-2 have been restarted once") {
		t.Errorf("it is said: %s", message)
	}
}

// TestARotationIsNotSettledWhileAListenerDoesNotTrustTheNewAuthority: that the old
// anchor stays until its end does not mean that nothing is left to be done.
func TestARotationIsNotSettledWhileAListenerDoesNotTrustTheNewAuthority(t *testing.T) {
	t.Parallel()
	r := until(t, rotationtest.AtRest(3, rotationtest.Clients, rotationtest.OfOthers, rotationtest.Replaced), rotation.WaitingForExpiry)
	late := &r.Snapshot.Members[0]
	for i := range late.Roles {
		late.Roles[i].Evidence.Loaded.Trust = []trust.AnchorID{r.Snapshot.Anchors[0].ID}
	}
	if phase := authorities.Words().PhaseOf(r.Snapshot, trust.Decide(r.Snapshot)); authorities.Words().Settled(phase) {
		t.Errorf("phase %s while %s has still to load the new anchor", phase, late.ID)
	}
}
