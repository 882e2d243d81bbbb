package enroll_test

import (
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestOnlyRequestsForKeysOfThePodAreKept(t *testing.T) {
	t.Parallel()
	peerKey, clientKey := newKey(t), newKey(t)
	record := func(key pki.PrivateKey, plane contract.Plane, pod string) enroll.Issued {
		return enroll.Issued{SPKI: key.ID().String(), Plane: plane, PodUID: pod, NotAfter: noon().Add(time.Hour)}
	}
	ledger := enroll.Ledger{"1": record(peerKey, peer, "a"), "2": record(clientKey, clients, "a")}
	own := map[string]string{peer.RequestAnnotation(): requestOf(t, peerKey), clients.RequestAnnotation(): requestOf(t, clientKey)}
	both := bare(with(t, requestOf(t, peerKey), text(t, requestOf(t, clientKey))))
	foreign := requestOf(t, newKey(t))
	for name, test := range map[string]struct {
		annotations map[string]string
		pod         string
		want        []string
	}{
		"no request":                    {pod: "a"},
		"both keys are the pod's":       {annotations: own, pod: "a"},
		"another pod":                   {annotations: own, pod: "b", want: []string{"kubeEtcdCSR-peer", "kubeEtcdCSR-client"}},
		"a key that is new":             {annotations: map[string]string{peer.RequestAnnotation(): foreign, clients.RequestAnnotation(): own[clients.RequestAnnotation()]}, pod: "a", want: []string{"kubeEtcdCSR-peer"}},
		"the key of the other plane":    {annotations: map[string]string{peer.RequestAnnotation(): requestOf(t, clientKey)}, pod: "a", want: []string{"kubeEtcdCSR-peer"}},
		"no request at all":             {annotations: map[string]string{peer.RequestAnnotation(): "?"}, pod: "a", want: []string{"kubeEtcdCSR-peer"}},
		"both keys in one annotation":   {annotations: both, pod: "a"},
		"one annotation of another pod": {annotations: both, pod: "b", want: []string{"kubeEtcdCSR"}},
		"one annotation with a new key": {annotations: bare(with(t, requestOf(t, peerKey), text(t, foreign))), pod: "a", want: []string{"kubeEtcdCSR"}},
		"one annotation beside the others": {annotations: map[string]string{
			peer.RequestAnnotation(): own[peer.RequestAnnotation()], contract.RequestAnnotation: both[contract.RequestAnnotation],
		}, pod: "a", want: []string{"kubeEtcdCSR"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := enroll.Unattested(test.annotations, test.pod, ledger); !slices.Equal(got, test.want) {
				t.Errorf("not attested are %v, want %v", got, test.want)
			}
		})
	}
}

// While the policy is weak, another process can change the annotations of a pod and the addresses in its status.
func TestOnlyWhatAPodHasIsRenewedWithoutAttestation(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	moved, err := pki.NewSANs("my-cluster-0.my-cluster-peer.etcd.svc", "10.0.0.8")
	if err != nil {
		t.Fatal(err)
	}
	due := noon().Add(48 * time.Hour)
	for name, test := range map[string]struct {
		change func(in *enroll.Input)
		want   enroll.Cause
	}{
		"its certificate is due":              {func(*enroll.Input) {}, ""},
		"with another address in its status":  {func(in *enroll.Input) { in.SANs = moved }, ""},
		"another address, and nothing is due": {func(in *enroll.Input) { in.SANs, in.Now = moved, noon() }, enroll.NotAttested},
		"a key that is new":                   {func(in *enroll.Input) { in.Request = requestOf(t, newKey(t)) }, enroll.NotAttested},
		"a pod that is new":                   {func(in *enroll.Input) { in.Ledger, in.Answer = enroll.Ledger{}, "" }, enroll.NotAttested},
		"its certificate was removed":         {func(in *enroll.Input) { in.Answer = "" }, enroll.NotAttested},
		"its certificate is broken":           {func(in *enroll.Input) { in.Answer = "?" }, enroll.NotAttested},
		"the certificate of another was put there": {func(in *enroll.Input) {
			in.Answer = signed(t, asked(t, newKey(t))).Answer
		}, enroll.NotAttested},
		"one that is in no ledger":  {func(in *enroll.Input) { in.Ledger = enroll.Ledger{} }, enroll.NotAttested},
		"one of another CA":         {func(in *enroll.Input) { in.CA = pkitest.CA(t, "peer-ca v1", noon()) }, enroll.NotAttested},
		"one of the pod before it":  {func(in *enroll.Input) { recorded(in, func(i *enroll.Issued) { i.PodUID = "b" }) }, enroll.KeyOfOtherPod},
		"one of the other plane":    {func(in *enroll.Input) { recorded(in, func(i *enroll.Issued) { i.Plane = clients }) }, enroll.KeyOfOtherPlane},
		"one found in the pod only": {func(in *enroll.Input) { recorded(in, func(i *enroll.Issued) { i.Unattested = true }) }, enroll.NotAttested},
		"of which the key is left":  {func(in *enroll.Input) { recorded(in, func(i *enroll.Issued) { i.CA = "" }) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := asked(t, key)
			first := signed(t, in)
			in.Answer, in.Ledger = first.Answer, enroll.Ledger{}
			in.Ledger.Record(first.Leaf, in.CA.Certificate(), enroll.Holder{PodUID: "a", Plane: peer}, noon())
			in.IsAttested, in.Now = false, due
			names := in.SANs
			test.change(&in)
			cause, outcome := enroll.Cause(""), enroll.Decide(in)
			switch outcome := outcome.(type) {
			case enroll.Held:
				cause = outcome.Cause
			case enroll.Denied:
				cause = outcome.Cause
			case enroll.Signed:
				if !key.Matches(outcome.Leaf) || !pki.SANsOf(outcome.Leaf).Equal(names) {
					t.Errorf("signed for %v", pki.SANsOf(outcome.Leaf))
				}
			default:
				t.Errorf("got %#v", outcome)
			}
			if cause != test.want {
				t.Errorf("got %#v, want %q", outcome, test.want)
			}
		})
	}
}

// recorded changes the one entry of the ledger.
func recorded(in *enroll.Input, change func(issued *enroll.Issued)) {
	for serial, issued := range in.Ledger {
		change(&issued)
		in.Ledger[serial] = issued
	}
}
