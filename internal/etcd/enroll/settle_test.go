package enroll_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
)

// living are members by their UIDs.
func living(members ...string) map[string]string {
	uids := map[string]string{}
	for _, member := range members {
		uids[member] = ""
	}
	return uids
}

func TestOfAHolderThatIsGoneOnlyTheKeyIsLeft(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	in := asked(t, key)
	in.Ledger = enroll.Ledger{}
	leaf := signed(t, in).Leaf
	in.Ledger.Record(leaf, in.CA.Certificate(), enroll.Holder{PodUID: "a", Plane: peer}, noon())
	in.Ledger.Settle(living("b"))
	data, err := in.Ledger.Encode()
	if err != nil {
		t.Fatal(err)
	}
	text := data[leaf.SerialNumber.Text(16)]
	if !strings.Contains(text, key.ID().String()) || strings.Contains(text, `"ca"`) || strings.Contains(text, `"issuedAt"`) {
		t.Errorf("what is left is %s", text)
	}
	if in.Ledger, err = enroll.ParseLedger(data); err != nil {
		t.Fatal(err)
	}
	signed(t, in) // the cache had not shown the pod yet
	in.Pod.UID, in.Pod.Recorded = "b", "b"
	if denied, is := enroll.Decide(in).(enroll.Denied); !is || denied.Cause != enroll.KeyOfOtherPod {
		t.Errorf("another pod gets %#v for the key", enroll.Decide(in))
	}
	in.Ledger.Record(signed(t, asked(t, newKey(t))).Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "b", Plane: peer}, leaf.NotAfter.Add(time.Second))
	if _, stays := in.Ledger[leaf.SerialNumber.Text(16)]; stays {
		t.Error("the key stays longer than its certificate")
	}
}

func TestAHolderHasItsShareOfTheLedger(t *testing.T) {
	t.Parallel()
	ledger := enroll.Ledger{}
	for i := range 2000 {
		issued := entry(i, "a", "", noon().Add(720*time.Hour))
		issued.IssuedAt = noon().Add(-time.Duration(i) * time.Minute)
		ledger[strconv.Itoa(i)] = issued
	}
	former := entry(5000, "c", "", noon().Add(time.Hour))
	ledger["of another"] = former
	ledger.Settle(living("a", "b"))
	certificates := 0
	for _, issued := range ledger {
		if issued.CA != "" {
			certificates++
		}
	}
	if certificates != enroll.MaxPerHolder || len(ledger) != enroll.MaxPerHolder+enroll.MaxFormer {
		t.Errorf("it has %d certificates among %d entries", certificates, len(ledger))
	}
	if ledger["0"].CA == "" || ledger[strconv.Itoa(enroll.MaxPerHolder)].CA != "" {
		t.Error("not the last ones are kept")
	}
	if ledger["of another"].SPKI != former.SPKI {
		t.Error("the key of another pod is dropped for those of one with many")
	}
}

func TestNoMemberWaitsForRoomInTheLedger(t *testing.T) {
	t.Parallel()
	in := asked(t, newKey(t))
	in.Ledger = filled(2*enroll.MaxClients, noon().Add(time.Hour))
	signed(t, in)
}

func TestApplicationsShareTheLedger(t *testing.T) {
	t.Parallel()
	last := enroll.MaxClients - enroll.ForFew
	for name, test := range map[string]struct {
		own, others int
		notAfter    time.Duration
		held        bool
	}{
		"room for all": {last - 1, 0, time.Hour, false},
		"one namespace has all but what is for few":   {last, 0, time.Hour, true},
		"others have all but what is for few":         {enroll.Few - 1, last, time.Hour, false},
		"a namespace that has not few":                {enroll.Few, last, time.Hour, true},
		"the last one":                                {0, enroll.MaxClients - 1, time.Hour, false},
		"it is full":                                  {0, enroll.MaxClients, time.Hour, true},
		"it was full of what has expired":             {0, enroll.MaxClients, -time.Second, false},
		"it is full, and the key has got one already": {1, enroll.MaxClients, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := newKey(t)
			in := asked(t, key)
			in.Namespace, in.Ledger = "shop", enroll.Ledger{}
			for i := range test.own + test.others {
				namespace := "other"
				if i < test.own {
					namespace = "shop"
				}
				in.Ledger[strconv.Itoa(i)] = entry(i, strconv.Itoa(i), namespace, noon().Add(test.notAfter))
			}
			if strings.HasSuffix(name, "already") {
				own := in.Ledger["0"]
				own.SPKI, own.PodUID = key.ID().String(), "a"
				in.Ledger["0"] = own
			}
			held, isHeld := enroll.Decide(in).(enroll.Held)
			if isHeld != test.held || isHeld && (held.Cause != enroll.LedgerFull || held.Until.IsZero()) {
				t.Fatalf("got %#v, want that it is held: %t", enroll.Decide(in), test.held)
			}
			if !test.held {
				before := len(in.Ledger)
				in.Ledger.RecordAccess(signed(t, in).Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "a", Plane: peer}, "shop", noon())
				if strings.HasSuffix(name, "already") && len(in.Ledger) != before {
					t.Errorf("a renewal adds %d entries to a full ledger", len(in.Ledger)-before)
				}
			}
		})
	}
}

// A ConfigMap holds 1 MiB of values, and etcd takes requests of 1.5 MiB.
func TestAFullLedgerFitsIntoItsConfigMap(t *testing.T) {
	t.Parallel()
	const members, longest = 8, 63
	ledger, alive, namespace := enroll.Ledger{}, map[string]string{}, strings.Repeat("n", longest)
	add := func(holder, namespace string, plane contract.Plane) {
		number := len(ledger)
		issued := entry(number, fmt.Sprintf("%036s", holder), namespace, noon().Add(time.Hour))
		issued.CA, issued.Plane = strings.Repeat("a", 64), plane
		ledger[fmt.Sprintf("%040d", number)] = issued
	}
	for i := range enroll.MaxClients {
		holder := "client " + strconv.Itoa(i)
		alive[fmt.Sprintf("%036s", holder)] = namespace
		add(holder, namespace, contract.ClientPlane)
	}
	for i := range members {
		holder := "member " + strconv.Itoa(i)
		alive[fmt.Sprintf("%036s", holder)] = ""
		for range 2 * enroll.MaxPerHolder {
			add(holder, "", contract.PeerPlane)
			add(holder, "", contract.ClientPlane)
		}
	}
	for i := range 2 * enroll.MaxFormer {
		add("gone "+strconv.Itoa(i), namespace, contract.ClientPlane)
	}
	ledger.Expose(many(0, 2*enroll.MaxExposed), enroll.Owner{UID: strings.Repeat("0", 36), Namespace: namespace}, noon())
	ledger.Settle(alive)
	if want := enroll.MaxClients + 2*members*enroll.MaxPerHolder + enroll.MaxFormer + enroll.MaxExposed; len(ledger) != want {
		t.Errorf("it has %d entries, want %d", len(ledger), want)
	}
	data, err := ledger.Encode()
	if err != nil {
		t.Fatal(err)
	}
	values, names := 0, 0
	for name, value := range data {
		values, names = values+len(value), names+len(name)
	}
	if values > 1<<20 || values+3*names > 3<<19 {
		t.Errorf("it has %d bytes in values and %d in names, which the API server stores three times", values, names)
	}
}
