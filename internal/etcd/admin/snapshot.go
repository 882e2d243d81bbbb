package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrDenied means that etcd's authentication does not allow a call to the user.
var ErrDenied = errors.New("etcd denies it to the user")

// Snapshot is a copy of the data of a member while it is read.
type Snapshot struct {
	io.Reader

	// Least is a revision that the cluster had before. That of the copy is not lower, unless the member lags.
	Least int64
	// Version of the member.
	Version string

	client *clientv3.Client
	data   io.ReadCloser
}

// TakeSnapshot asks a member of the cluster for a copy. A cluster without a quorum gives none.
func TakeSnapshot(ctx context.Context, url string, identity *tls.Config) (*Snapshot, error) {
	connection, err := connect(ctx, []string{url}, identity)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{client: connection.client}
	if err := s.take(ctx, url); err != nil {
		return nil, errors.Join(asDenied(err), connection.Close())
	}
	return s, nil
}

func (s *Snapshot) take(ctx context.Context, url string) error {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// Any key does: what counts is the revision that a quorum has agreed on.
	read, err := s.client.Get(limited, "keyturn.dev/backup", clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("asking the cluster at %s for its revision: %w", url, err)
	}
	copied, err := s.client.SnapshotWithVersion(ctx)
	if err != nil {
		// The client leaves this error as it came, unlike those of other calls.
		return fmt.Errorf("asking the cluster at %s for a snapshot: %w", url, rpctypes.Error(err))
	}
	s.Reader, s.data, s.Least, s.Version = copied.Snapshot, copied.Snapshot, read.Header.GetRevision(), copied.Version
	if s.Version == "" { // etcd before 3.6
		status, err := s.client.Status(limited, url)
		if err != nil {
			return errors.Join(fmt.Errorf("asking the member at %s for its version: %w", url, err), s.data.Close())
		}
		s.Version = status.Version
	}
	return nil
}

// Close ends the copy.
func (s *Snapshot) Close() error {
	if err := errors.Join(s.data.Close(), s.client.Close()); err != nil {
		return fmt.Errorf("closing the snapshot: %w", err)
	}
	return nil
}

// asDenied recognises what only another grant changes.
func asDenied(err error) error {
	for _, denied := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken,
	} {
		if errors.Is(err, denied) {
			return fmt.Errorf("%w: %w", ErrDenied, err)
		}
	}
	return err
}
