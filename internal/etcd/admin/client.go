package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Member is a member as etcd has it.
type Member struct {
	ID uint64
	// Name is empty until the member has started.
	Name      string
	PeerURLs  []string
	IsLearner bool
}

// Status is how a member fares.
type Status struct {
	ID uint64
	// Leader is the id of the leader; 0 when the member knows none.
	Leader uint64
	// Received and Applied are how many entries of the log of the cluster the member has received and applied.
	Received, Applied uint64
	// HasAlarm is true when the cluster has an alarm, of this member or of any other.
	HasAlarm bool
	// Size and InUse are those of its database in bytes. Quota is what Size may become; 0 when the version does not tell.
	Size, InUse, Quota int64
}

// Alarm is one that the cluster has.
type Alarm struct {
	// MemberID is that of the member it is about, which may be removed.
	MemberID uint64
	// Kind as etcdctl has it: NOSPACE or CORRUPT.
	Kind string
}

// Membership is who the members of a cluster are.
type Membership interface {
	// Members are those that the leader knows.
	Members(ctx context.Context) ([]Member, error)
	// AddLearner adds a member that will be at a peer URL. It is no error if there is one.
	AddLearner(ctx context.Context, peerURL string) error
	// Promote makes a learner a voter. The error is ErrNotReady while it has not caught up. Of a voter it is none, or
	// ErrNotReady for a moment.
	Promote(ctx context.Context, id uint64) error
	// Remove removes a member. It is no error if there is none of the id, which is never given again.
	Remove(ctx context.Context, id uint64) error
}

// Client is a connection to a cluster. Every call is bounded in time.
type Client interface {
	Membership

	// Status is that of the member at a client URL.
	Status(ctx context.Context, url string) (Status, error)
	// Alarms are those of the cluster.
	Alarms(ctx context.Context) ([]Alarm, error)
	// MoveLeader makes a member the leader. The client URL is that of the leader; it is ErrNotReady when it does not
	// lead any more.
	MoveLeader(ctx context.Context, url string, id uint64) error
	Close() error
}

// Dial returns a client of the cluster with these client URLs. It does not wait for a connection.
type Dial func(ctx context.Context, urls []string, identity *tls.Config) (Client, error)

// ErrNotReady means that etcd does not change its members yet: a learner has not caught up, or not enough members are
// connected. The same call succeeds later.
var ErrNotReady = errors.New("etcd is not ready for the change")

// Limits of one call, connecting included. A member whose status takes longer counts as one that does not answer.
const (
	callTimeout   = 5 * time.Second
	statusTimeout = 2 * time.Second
)

// New is a Dial of a real cluster. A nil identity connects without TLS.
func New(ctx context.Context, urls []string, identity *tls.Config) (Client, error) {
	return connect(ctx, urls, identity)
}

// maxAnswer bounds an answer of a member in bytes: any program may run in its pod. Lists of members and parts of snapshots are
// far smaller.
const maxAnswer = 4 << 20

func connect(ctx context.Context, urls []string, identity *tls.Config) (*etcd, error) {
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: urls, TLS: identity, MaxCallRecvMsgSize: maxAnswer, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd at %v: %w", urls, err)
	}
	return &etcd{client, identity}, nil
}

type etcd struct {
	client   *clientv3.Client
	identity *tls.Config
}

var _ Client = (*etcd)(nil)

// Members implements Client.
func (e *etcd) Members(ctx context.Context) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := e.client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the members of etcd: %w", err)
	}
	return membersOf(response.Members)
}

// AddLearner implements Client.
func (e *etcd) AddLearner(ctx context.Context, peerURL string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := e.client.MemberAddAsLearner(ctx, []string{peerURL})
	// The id of a member is made of its URL and the second, so that etcd refuses the same URL in two ways.
	if err == nil || errors.Is(err, rpctypes.ErrPeerURLExist) || errors.Is(err, rpctypes.ErrMemberExist) {
		return nil
	}
	return fmt.Errorf("adding a member at %s: %w", peerURL, asNotReady(err))
}

// Promote implements Client.
func (e *etcd) Promote(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := e.client.MemberPromote(ctx, id)
	if err == nil || errors.Is(err, rpctypes.ErrMemberNotLearner) {
		return nil
	}
	return fmt.Errorf("promoting member %x: %w", id, asNotReady(err))
}

// Remove implements Client.
func (e *etcd) Remove(ctx context.Context, id uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := e.client.MemberRemove(ctx, id)
	if err == nil || errors.Is(err, rpctypes.ErrMemberNotFound) {
		return nil
	}
	return fmt.Errorf("removing member %x: %w", id, asNotReady(err))
}

// Status implements Client.
func (e *etcd) Status(ctx context.Context, url string) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	response, err := e.statusAt(ctx, url)
	if err != nil {
		return Status{}, fmt.Errorf("asking the member at %s for its status: %w", url, err)
	}
	return Status{
		ID: response.Header.GetMemberId(), Leader: response.Leader, Received: response.RaftIndex, Applied: response.RaftAppliedIndex,
		HasAlarm: response.Leader != 0 && len(response.Errors) > 0,
		Size:     response.DbSize, InUse: response.DbSizeInUse, Quota: response.DbSizeQuota,
	}, nil
}

// statusAt asks by the connection that there is, when it is to this member alone.
func (e *etcd) statusAt(ctx context.Context, url string) (*clientv3.StatusResponse, error) {
	if !slices.Equal(e.client.Endpoints(), []string{url}) {
		return e.client.Status(ctx, url)
	}
	response, err := pb.NewMaintenanceClient(e.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	return (*clientv3.StatusResponse)(response), err
}

// Alarms implements Client.
func (e *etcd) Alarms(ctx context.Context) ([]Alarm, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := e.client.AlarmList(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the alarms of etcd: %w", err)
	}
	return alarmsOf(response.Alarms)
}

// MoveLeader implements Client.
func (e *etcd) MoveLeader(ctx context.Context, url string, id uint64) error {
	leader, err := connect(ctx, []string{url}, e.identity)
	if err != nil {
		return err
	}
	defer func() { _ = leader.Close() }()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err = leader.client.MoveLeader(ctx, id); err != nil {
		return fmt.Errorf("making member %x the leader: %w", id, asNotReady(err))
	}
	return nil
}

// Close implements Client.
func (e *etcd) Close() error {
	if err := e.client.Close(); err != nil {
		return fmt.Errorf("closing the connection to etcd: %w", err)
	}
	return nil
}

// asNotReady recognises what passes by itself.
func asNotReady(err error) error {
	for _, passing := range []error{
		rpctypes.ErrMemberLearnerNotReady, rpctypes.ErrMemberNotEnoughStarted, rpctypes.ErrTooManyLearners, rpctypes.ErrUnhealthy,
		rpctypes.ErrNotLeader, rpctypes.ErrStopped,
	} {
		if errors.Is(err, passing) {
			return fmt.Errorf("%w: %w", ErrNotReady, err)
		}
	}
	return err
}
