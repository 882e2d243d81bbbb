package enroll_test

import (
	"slices"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/pki"
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
