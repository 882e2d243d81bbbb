package main

import (
	"context"
	"fmt"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
)

// install has the operator run with the values of a measurement, independently of the previous one.
func (b *bench) install(ctx context.Context, values map[string]any) error {
	if reflect.DeepEqual(b.installed, values) {
		return nil
	}
	if err := b.kube.InstallWith(ctx, b.journal, values); err != nil {
		return err
	}
	b.installed = values
	return nil
}

// clear removes what measurements have left, those of a bench that was interrupted included.
func (b *bench) clear(ctx context.Context) error {
	if err := b.clearEtcd(ctx); err != nil {
		return err
	}
	for _, name := range []string{namespace, issuedNamespace, etcdNamespace} {
		if err := b.kube.DeleteNamespace(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// clearEtcd deletes the etcd cluster by the operator that serves it: its finalizer would keep the namespace for ever.
func (b *bench) clearEtcd(ctx context.Context) error {
	var left etcdv1beta2.EtcdClusterList
	if err := b.kube.List(ctx, &left, client.InNamespace(etcdNamespace)); err != nil {
		return fmt.Errorf("looking for etcd clusters of an earlier bench: %w", err)
	}
	if len(left.Items) == 0 {
		return nil
	}
	if err := b.install(ctx, withEtcd()); err != nil {
		return err
	}
	return b.etcd().Delete(ctx)
}
