package etcdload

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Try writes one key below the prefix, and removes it. The error says why clients could not work.
func Try(ctx context.Context, options Options) error {
	if err := accepted(ctx, options); err != nil {
		return err
	}
	return with(ctx, options, func(ctx context.Context, client *clientv3.Client) error {
		key := options.Prefix + "/try"
		if _, err := client.Put(ctx, key, ""); err != nil {
			return fmt.Errorf("writing key %s: %w", key, err)
		}
		if _, err := client.Delete(ctx, key); err != nil {
			return fmt.Errorf("deleting key %s: %w", key, err)
		}
		return nil
	})
}

// accepted is nil if a member accepts a connection, and otherwise why none does: a client of etcd does not tell.
func accepted(ctx context.Context, options Options) error {
	var refused []error
	for _, endpoint := range options.Endpoints {
		ctx, cancel := context.WithTimeout(ctx, options.Attempt)
		_, err := connect(ctx, options, endpoint)
		cancel()
		if err == nil {
			return nil
		}
		refused = append(refused, err)
	}
	return errors.Join(refused...)
}

// Remove deletes all keys below the prefix.
func Remove(ctx context.Context, options Options) error {
	return with(ctx, options, func(ctx context.Context, client *clientv3.Client) error {
		if _, err := client.Delete(ctx, options.Prefix+"/", clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("deleting the keys below %s: %w", options.Prefix, err)
		}
		return nil
	})
}

// with does something with a client of its own, for as long as a write may take.
func with(ctx context.Context, options Options, do func(context.Context, *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, options.Deadline)
	defer cancel()
	client, err := newLoad(options).connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, client), client.Close())
}
