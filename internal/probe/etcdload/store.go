package etcdload

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Versioned is a value and the revision at which it was written, 0 where there is no key.
type Versioned struct {
	Value    string
	Revision int64
}

// Store is what writers and readers ask.
type Store interface {
	// Get reads a key linearizably.
	Get(ctx context.Context, key string) (Versioned, error)
	// Swap writes a value if the key is still at the revision, and returns what the key has
	// then. After an error, the value may be written or not, now or later.
	Swap(ctx context.Context, key, value string, revision int64) (Versioned, error)
}

type store struct{ client *clientv3.Client }

// Get implements Store.
func (s store) Get(ctx context.Context, key string) (Versioned, error) {
	response, err := s.client.Get(ctx, key)
	if err != nil {
		return Versioned{}, fmt.Errorf("reading key %s: %w", key, err)
	}
	return versioned(response), nil
}

// Swap implements Store.
func (s store) Swap(ctx context.Context, key, value string, revision int64) (Versioned, error) {
	response, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, value)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return Versioned{}, fmt.Errorf("writing key %s: %w", key, err)
	}
	if response.Succeeded {
		return Versioned{value, response.Header.Revision}, nil
	}
	return versioned((*clientv3.GetResponse)(response.Responses[0].GetResponseRange())), nil
}

func versioned(response *clientv3.GetResponse) Versioned {
	if len(response.Kvs) == 0 {
		return Versioned{}
	}
	return Versioned{string(response.Kvs[0].Value), response.Kvs[0].ModRevision}
}
