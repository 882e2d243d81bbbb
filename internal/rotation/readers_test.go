package rotation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// usersOwn is a CA that the user has just replaced in its Secrets, so that some of
// those that read them do not find the old one.
func usersOwn(lostTo rotation.Readers) rotationtest.Change {
	return func(r *rotation.Record) {
		r.UserProvided = true
		r.Snapshot.Application = trust.Application{Anchors: []trust.AnchorID{rotationtest.AnchorB}, Since: rotationtest.Now()}
		old := r.Anchors[rotationtest.AnchorA]
		old.LostTo = lostTo
		if lostTo == rotation.CaCrtReaders {
			old.Entry = "ca-2027-09-17T08-00-00Z.crt of Secret my-cluster-ca-cert"
			r.Snapshot.Application.Anchors = append(r.Snapshot.Application.Anchors, rotationtest.AnchorA)
		}
		r.Anchors[rotationtest.AnchorA] = old
	}
}

// below says that the old CA has signed the new one, and stands behind it in ca.crt.
func below(r *rotation.Record) {
	old := r.Anchors[rotationtest.AnchorA]
	old.Above = true
	r.Anchors[rotationtest.AnchorA] = old
}

// takenOut says that the user keeps the old CA in no entry.
func takenOut(r *rotation.Record) { r.Snapshot.Anchors[0].Removed = true }

// about finds what is said of a kind of client.
func about(t *testing.T, f rotation.Forecast, client string) rotation.Outlook {
	t.Helper()
	at := slices.IndexFunc(f.Clients, func(o rotation.Outlook) bool { return o.Client == client })
	if at < 0 {
		t.Fatalf("nothing is said of a client that %s: %+v", client, f.Clients)
	}
	return f.Clients[at]
}

func TestReadersThatDoNotFindAUsersOldCAAreRefusedUntilAllNodesTurn(t *testing.T) {
	t.Parallel()
	tests := map[rotation.Readers]struct{ refused, served, remedy string }{
		rotation.FirstReaders: {"reads the first entry of ca.crt alone", "reads all of ca.crt or every *.crt, and looks again", "let it read all of ca.crt"},
		rotation.CaCrtReaders: {"reads ca.crt alone", "reads every *.crt, and looks again", "let it read every *.crt of the Secret"},
		rotation.EveryReader:  {"reads ca.crt or every *.crt", "", "keep the old CA beside ca.crt as ca-<its expiry>.crt"},
	}
	for lostTo, test := range tests {
		t.Run(string(lostTo), func(t *testing.T) {
			t.Parallel()
			f := rotationtest.AtRest(2, rotationtest.Replaced, usersOwn(lostTo)).Ahead(rotationtest.Now())
			refused := about(t, f, test.refused)
			// Two restarts, what is left of the two minutes of reading, two restarts.
			end := rotationtest.Now().Add(162*time.Second + 800*time.Millisecond).Format(time.RFC3339)
			for _, want := range []string{"rejects nodes that present cluster-ca v0 (aaaaaaaa)", "until every node presents cluster-ca v1 (bbbbbbbb), at about " + end, test.remedy} {
				if !strings.Contains(refused.What, want) {
					t.Errorf("it does not say %q: %s", want, refused.What)
				}
			}
			if !refused.Notices {
				t.Error("nobody is said to notice")
			}
			if test.served != "" {
				if served := about(t, f, test.served); served.Notices || !strings.HasPrefix(served.What, "nothing, if it looks again within 2m0s") {
					t.Errorf("who finds the old CA: %+v", served)
				}
			}
		})
	}
}

func TestReadersOfAUsersCaCrtAreServedOnceAllNodesPresentTheNewCA(t *testing.T) {
	t.Parallel()
	r, reached := rotationtest.Until(rotationtest.AtRest(2, rotationtest.Replaced, usersOwn(rotation.CaCrtReaders)), rotation.WithdrawingOld)
	if !reached {
		t.Fatal("it never gets there")
	}
	o := about(t, r.Ahead(r.Snapshot.Now), "reads ca.crt alone")
	if o.Notices || o.What != "nothing more, because every node presents the new CA" {
		t.Errorf("it says %+v", o)
	}
	if message := authorities.Words().Message(r.Snapshot, r.Plan(), r.Subject()); strings.Contains(message, "rejects") {
		t.Errorf("the message says that somebody is refused: %s", message)
	}
}

func TestReadersOfAUsersCaCrtAreRefusedWhileANodeIsSilentThatMayPresentTheOldCA(t *testing.T) {
	t.Parallel()
	r := rotationtest.AtRest(2, rotationtest.Replaced, usersOwn(rotation.CaCrtReaders), rotationtest.Paused,
		rotationtest.Silent("my-dual-0", rotationtest.Now()), rotationtest.Silent("my-dual-1", rotationtest.Now()))
	message := authorities.Words().Message(r.Snapshot, r.Plan(), r.Subject())
	if want := "an application that reads ca.crt alone rejects nodes that still present cluster-ca v0 (aaaaaaaa): let it read every *.crt of the Secret"; !strings.Contains(message, want) {
		t.Errorf("it does not say %q: %s", want, message)
	}
}

func TestPinnedClientsAreServedWhereTheOldCAHasSignedAUsersNewOne(t *testing.T) {
	t.Parallel()
	f := rotationtest.AtRest(2, rotationtest.Replaced, usersOwn(rotation.FirstReaders), below).Ahead(rotationtest.Now())
	if o := about(t, f, "reads all of ca.crt or every *.crt, and looks again"); o.What != "nothing" {
		t.Errorf("it says %+v", o)
	}
	if o := about(t, f, "is pinned to the old CA"); o.Notices || !o.Until.Equal(rotationtest.Now().Add(300*rotationtest.Day)) {
		t.Errorf("it says %+v", o)
	}
}

func TestUsersOfAClientsCAThatItsOwnerHasTakenOutAreRefused(t *testing.T) {
	t.Parallel()
	f := rotationtest.AtRest(2, rotationtest.Clients, rotationtest.Replaced, usersOwn(rotation.EveryReader), takenOut).Ahead(rotationtest.Now())
	if o := about(t, f, "presents a certificate of the old clients CA"); !o.Notices || !strings.Contains(o.What, "put it there as ca-<its expiry>.crt") {
		t.Errorf("it says %+v", o)
	}
}

func TestReadersOfACAThatKeyturnMaintainsAreOfOneKind(t *testing.T) {
	t.Parallel()
	f := rotationtest.AtRest(2, rotationtest.Replaced).Ahead(rotationtest.Now())
	if o := about(t, f, "reads ca.crt, its first entry, every *.crt or ca.p12, and looks again"); o.Notices || len(f.Clients) != 2 {
		t.Errorf("it says %+v", f.Clients)
	}
}
