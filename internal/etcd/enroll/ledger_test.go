package enroll_test

import (
	"maps"
	"strconv"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/pki"
)

// filled has so many certificates for other keys, each of another pod.
func filled(entries int, notAfter time.Time) enroll.Ledger {
	ledger := enroll.Ledger{}
	for i := range entries {
		ledger[strconv.Itoa(i)] = entry(i, "pod "+strconv.Itoa(i), "", notAfter)
	}
	return ledger
}

// entry is a certificate for a key of its own.
func entry(number int, holder, namespace string, notAfter time.Time) enroll.Issued {
	return enroll.Issued{
		SPKI: keyID(number).String(), Plane: contract.PeerPlane, CA: "ca", PodUID: holder, Namespace: namespace,
		IssuedAt: noon().Add(-2 * time.Hour), NotAfter: notAfter,
	}
}

func TestALedgerIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	in := asked(t, newKey(t))
	ledger := filled(3, noon().Add(time.Hour))
	ledger.Record(signed(t, in).Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "a", Plane: contract.PeerPlane}, noon())
	data, err := ledger.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := enroll.ParseLedger(data)
	if err != nil || !maps.Equal(read, ledger) {
		t.Errorf("it is read as %v: %v", read, err)
	}
	if _, err := enroll.ParseLedger(map[string]string{"1": "?"}); err == nil {
		t.Error("a damaged entry is read")
	}
}

func TestARecordHasWhatARotationNeeds(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	in := asked(t, key)
	leaf := signed(t, in).Leaf
	ledger := enroll.Ledger{"expired": {NotAfter: noon().Add(-time.Second)}}
	ledger.Record(leaf, in.CA.Certificate(), enroll.Holder{PodUID: "a", Plane: contract.PeerPlane}, noon())
	got, recorded := ledger[leaf.SerialNumber.Text(16)]
	want := enroll.Issued{
		SPKI: key.ID().String(), Plane: contract.PeerPlane, CA: pki.FingerprintOf(in.CA.Certificate()).String(),
		PodUID: "a", IssuedAt: got.IssuedAt, NotAfter: leaf.NotAfter,
	}
	if !recorded || got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(ledger) != 1 {
		t.Error("a certificate that has expired stays in the ledger")
	}
}

func TestAKeyIsNeverSignedForASecondPod(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	in := asked(t, key)
	in.Ledger = enroll.Ledger{}
	in.Ledger.Record(signed(t, in).Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "a", Plane: contract.PeerPlane}, noon())
	signed(t, in) // the same pod has lost its answer
	in.Pod.UID, in.Pod.Recorded = "b", "b"
	if denied, is := enroll.Decide(in).(enroll.Denied); !is || denied.Cause != enroll.KeyOfOtherPod {
		t.Errorf("the pod that replaces it gets %#v", enroll.Decide(in))
	}
}

func TestCertificatesOfAPodAreLimitedByTheHour(t *testing.T) {
	t.Parallel()
	holder := enroll.Holder{PodUID: "a", Plane: contract.PeerPlane}
	for name, test := range map[string]struct {
		issued int
		at     time.Duration
		holder enroll.Holder
		held   bool
	}{
		"the last that it may have":   {enroll.MaxPerHour - 1, -time.Minute, holder, false},
		"one more":                    {enroll.MaxPerHour, -time.Minute, holder, true},
		"the hour is over":            {enroll.MaxPerHour, -time.Hour, holder, false},
		"those of the other plane":    {enroll.MaxPerHour, -time.Minute, enroll.Holder{PodUID: "a", Plane: contract.ClientPlane}, false},
		"those of another pod":        {enroll.MaxPerHour, -time.Minute, enroll.Holder{PodUID: "b", Plane: contract.PeerPlane}, false},
		"a clock that was set back":   {enroll.MaxPerHour, 24 * time.Hour, holder, false},
		"the hour is not over by 1 s": {enroll.MaxPerHour, -time.Hour + time.Second, holder, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := asked(t, newKey(t))
			in.Ledger = enroll.Ledger{}
			for i := range test.issued {
				in.Ledger[strconv.Itoa(i)] = enroll.Issued{
					SPKI: "other", PodUID: test.holder.PodUID, Plane: test.holder.Plane,
					IssuedAt: noon().Add(test.at), NotAfter: noon().Add(48 * time.Hour),
				}
			}
			held, isHeld := enroll.Decide(in).(enroll.Held)
			if isHeld != test.held {
				t.Fatalf("got %#v, want that it is held: %t", enroll.Decide(in), test.held)
			}
			if isHeld && (held.Cause != enroll.RateLimited || !held.Until.Equal(noon().Add(test.at+time.Hour))) {
				t.Errorf("it is held for %s until %s", held.Cause, held.Until)
			}
		})
	}
}
