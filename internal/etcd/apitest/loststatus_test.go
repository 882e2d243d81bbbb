package apitest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"testing"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/admin"
)

// A backup of the cluster's resources brings EtcdClusters back without their status. The data are in the pods.
func TestALostStatusCostsNoEphemeralPod(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]func(size int32) etcdv1beta2.EtcdClusterSpec{"dynamic": of, "insecure": insecure, "static": static} {
		for _, size := range []int32{1, 3} {
			t.Run(fmt.Sprintf("%s, %d members", name, size), func(t *testing.T) {
				t.Parallel()
				wanted := spec(size)
				wanted.Pod = &etcdv1beta2.PodPolicy{Ephemeral: true}
				w := newWorld(t, wanted)
				if name == "static" {
					for secret, data := range newOwnPKI(w).secrets() {
						w.put(secret, data)
					}
				}
				w.bring()
				before := w.podUIDs()
				w.forgetStatus()
				w.restart()
				w.dial = func(context.Context, []string, *tls.Config) (admin.Client, error) {
					return nil, errors.New("no member answers")
				}
				for range 6 {
					_, _ = w.try()
					w.play()
				}
				if after := w.podUIDs(); !maps.Equal(after, before) {
					t.Fatalf("while etcd does not answer, pods %v become %v; Ready %+v", before, after, w.condition("Ready"))
				}

				w.dial = nil
				for range 10 {
					_, _ = w.try()
					w.play()
				}
				if after := w.podUIDs(); !maps.Equal(after, before) {
					t.Errorf("pods were %v and are %v", before, after)
				}
				if ready := w.condition("Ready"); ready.Reason != "MembersReady" {
					t.Errorf("Ready is %+v", ready)
				}
			})
		}
	}
}
