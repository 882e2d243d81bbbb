package enroll_test

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestAKeyIsNotSignedAfterItsPrivateKeyWasSeen(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	in64 := base64.StdEncoding.EncodeToString(key.PEM())
	for name, annotations := range map[string]map[string]string{
		"in the place of a request":          {peer.RequestAnnotation(): in64},
		"beside a request":                   {clients.RequestAnnotation(): with(t, requestOf(t, newKey(t)), key.PEM())},
		"without base64":                     {peer.RequestAnnotation(): string(key.PEM())},
		"in the annotation without a plane":  bare(in64),
		"in one that does not count":         {contract.RequestAnnotation: in64, peer.RequestAnnotation(): requestOf(t, newKey(t))},
		"in the place of a certificate":      {peer.CertificateAnnotation(): in64},
		"in the place of both certificates":  {contract.CertificateAnnotation: in64},
		"in the place of a client's request": {clients.RequestAnnotation(): in64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := asked(t, key)
			first := signed(t, in)
			in.Ledger = enroll.Ledger{}
			in.Ledger.Record(first.Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "a", Plane: peer}, noon())
			if !in.Ledger.Expose(enroll.ExposedIn(annotations), enroll.Owner{UID: "a"}, noon()) {
				t.Fatal("it is not seen")
			}
			if in.Ledger.Expose(enroll.ExposedIn(annotations), enroll.Owner{UID: "a"}, noon()) {
				t.Error("it is news a second time")
			}
			data, err := in.Ledger.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if in.Ledger, err = enroll.ParseLedger(data); err != nil {
				t.Fatal(err)
			}
			in.Ledger.Record(signed(t, asked(t, newKey(t))).Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "b", Plane: peer}, noon().AddDate(20, 0, 0))
			for pod, answer := range map[string]string{"a": "", "b": "", "the same, with a certificate": first.Answer} {
				in.Pod.UID, in.Pod.Recorded, in.Answer = pod, pod, answer
				denied, is := enroll.Decide(in).(enroll.Denied)
				if !is || denied.Cause != enroll.KeyExposed {
					t.Errorf("pod %s gets %#v", pod, enroll.Decide(in))
				}
			}
			in.Request = requestOf(t, newKey(t))
			in.Pod.UID, in.Pod.Recorded, in.Answer = "a", "a", ""
			signed(t, in)
		})
	}
}

func TestWhatHasNoKeyPairIsNotRemembered(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString(newKey(t).PEM())
	for name, value := range map[string]string{
		"a request": requestOf(t, newKey(t)), "a key that is cut": key[:80], "a key behind 64 KiB": strings.Repeat("A", 64<<10) + key, "nothing": "",
	} {
		if keys := enroll.Exposed(value); len(keys) > 0 {
			t.Errorf("%s: %v", name, keys)
		}
	}
}

func keyID(number int) pki.KeyID { return pki.KeyID{1, byte(number >> 8), byte(number)} }

// many are so many keys.
func many(first, number int) (keys []pki.KeyID) {
	for i := range number {
		keys = append(keys, keyID(first+i))
	}
	return keys
}

// A process that shows many keys has its own forgotten.
func TestExposedKeysOfOneAreNotForgottenForThoseOfAnother(t *testing.T) {
	t.Parallel()
	for name, flood := range map[string]func(ledger enroll.Ledger){
		"by one pod": func(ledger enroll.Ledger) {
			ledger.Expose(many(1, 2*enroll.MaxExposed), enroll.Owner{UID: "b"}, noon())
		},
		"by many applications of one namespace": func(ledger enroll.Ledger) {
			for i, key := range many(1, 2*enroll.MaxExposed) {
				ledger.Expose([]pki.KeyID{key}, enroll.Owner{UID: strconv.Itoa(i), Namespace: "shop"}, noon().Add(time.Duration(i)*time.Second))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := enroll.Ledger{}
			own := []pki.KeyID{keyID(20_001), keyID(20_002), keyID(20_003)}
			ledger.Expose(own, enroll.Owner{UID: "a"}, noon().Add(-time.Hour))
			flood(ledger)
			if len(ledger) != enroll.MaxExposed {
				t.Errorf("the ledger has %d keys", len(ledger))
			}
			for _, key := range own {
				if !ledger.IsExposed(key) {
					t.Error("a key of another pod is forgotten")
				}
			}
			if last := many(1, 2*enroll.MaxExposed)[2*enroll.MaxExposed-1]; name != "by one pod" && !ledger.IsExposed(last) {
				t.Error("the last one is forgotten first")
			}
		})
	}
}
