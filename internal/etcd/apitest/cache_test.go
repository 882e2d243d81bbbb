package apitest

import (
	"maps"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/controller"
)

func TestTheCacheKeepsNoAnnotationsWithoutEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.backUp(0)
	large := strings.Repeat("x", 200<<10)
	for _, object := range []client.Object{&etcdv1beta2.EtcdBackup{ObjectMeta: w.meta(nightly)}, &etcdv1beta2.EtcdCluster{ObjectMeta: w.meta(cluster)}} {
		if err := w.person.Patch(t.Context(), object, annotating("example.com/large", large)); err != nil {
			t.Fatal(err)
		}
	}
	w.consent("other")
	options := controller.CacheOptions(w.private, []string{w.namespace})
	options.Scheme = w.person.Scheme()
	c, err := cache.New(apiServer, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{&etcdv1beta2.EtcdBackup{}, &etcdv1beta2.EtcdCluster{}} {
		if _, err := c.GetInformer(t.Context(), object, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
	}
	go func() { _ = c.Start(t.Context()) }()
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not get in sync")
	}
	backup, stored := &etcdv1beta2.EtcdBackup{}, &etcdv1beta2.EtcdCluster{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: nightly}, backup); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: cluster}, stored); err != nil {
		t.Fatal(err)
	}
	if len(backup.Annotations) > 0 || len(backup.ManagedFields) > 0 || backup.Spec.EtcdCluster.Name != cluster {
		t.Errorf("the cache has %d annotations of an EtcdBackup", len(backup.Annotations))
	}
	if want := map[string]string{"keyturn.dev/access-from": "other"}; !maps.Equal(stored.Annotations, want) {
		t.Errorf("the cache has %d annotations of the EtcdCluster, want %v", len(stored.Annotations), want)
	}
}
