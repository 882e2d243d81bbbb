package admintest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/admin"
)

// ErrMemberNotFound is the fake's answer about a member that it does not have.
var ErrMemberNotFound = errors.New("member not found")

// Fake is an etcd cluster in memory, by which all members are told.
type Fake struct {
	mu      sync.Mutex
	members []admin.Member
	lastID  uint64
	calls   int
	// Before is called before each call that changes members; an error of it is that of the call.
	Before func() error
}

var _ admin.Client = (*Fake)(nil)

// Dial is an admin.Dial that always connects to this cluster.
func (f *Fake) Dial(context.Context, []string, *tls.Config) (admin.Client, error) { return f, nil }

// Start starts the server of a member. The first one makes the cluster.
func (f *Fake) Start(_ *testing.T, name, peerURL string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.members) == 0 {
		f.add(peerURL, false)
	}
	if i := f.at(peerURL); i >= 0 {
		f.members[i].Name = name
	}
}

// Client returns the cluster.
func (f *Fake) Client(*testing.T) admin.Client { return f }

// Calls is how often the cluster was asked or changed.
func (f *Fake) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *Fake) add(peerURL string, isLearner bool) {
	f.lastID++
	f.members = append(f.members, admin.Member{ID: f.lastID, PeerURLs: []string{peerURL}, IsLearner: isLearner})
}

func (f *Fake) at(peerURL string) int {
	return slices.IndexFunc(f.members, func(m admin.Member) bool { return slices.Contains(m.PeerURLs, peerURL) })
}

// Members implements admin.Client.
func (f *Fake) Members(context.Context) ([]admin.Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	return slices.Clone(f.members), nil
}

// AddLearner implements admin.Client.
func (f *Fake) AddLearner(_ context.Context, peerURL string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(); err != nil {
		return err
	}
	switch {
	case f.at(peerURL) >= 0:
		return nil
	case slices.ContainsFunc(f.members, func(m admin.Member) bool { return m.IsLearner }):
		return fmt.Errorf("%w: there is a learner", admin.ErrNotReady)
	}
	f.add(peerURL, true)
	return nil
}

// Promote implements admin.Client.
func (f *Fake) Promote(_ context.Context, id uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(); err != nil {
		return err
	}
	i := slices.IndexFunc(f.members, func(m admin.Member) bool { return m.ID == id })
	switch {
	case i < 0:
		return ErrMemberNotFound
	case f.members[i].Name == "":
		return fmt.Errorf("%w: the learner has not started", admin.ErrNotReady)
	}
	f.members[i].IsLearner = false
	return nil
}

func (f *Fake) change() error {
	f.calls++
	if f.Before == nil {
		return nil
	}
	return f.Before()
}

// Close implements admin.Client.
func (f *Fake) Close() error { return nil }
