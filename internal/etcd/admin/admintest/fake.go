package admintest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keyturn/keyturn/internal/etcd/admin"
)

// Errors of the fake.
var (
	// ErrMemberNotFound is its answer about a member that it does not have.
	ErrMemberNotFound = errors.New("member not found")
	// ErrUnreachable is that of a member that is stopped, and of a cluster without a quorum.
	ErrUnreachable = errors.New("nothing answers")
)

// Fake is an etcd cluster in memory, by which all members are told.
type Fake struct {
	mu      sync.Mutex
	members []server
	leader  uint64
	lastID  uint64
	calls   int
	moves   int
	alarms  []admin.Alarm
	// Before is called before each call that changes members; an error of it is that of the call.
	Before func() error
}

// server is a member and the process that serves it.
type server struct {
	admin.Member

	runs        bool
	size, quota int64
	// elsewhere is the peer URL that etcd has of it; empty when that is its own.
	elsewhere string
}

func (s server) isAt(url string) bool { return s.runs && clientURL(s.PeerURLs[0]) == url }

var _ admin.Client = (*Fake)(nil)

// Dial is an admin.Dial that always connects to this cluster.
func (f *Fake) Dial(context.Context, []string, *tls.Config) (admin.Client, error) { return f, nil }

// Start starts the server of a member and returns its client URL. The first one makes the cluster.
func (f *Fake) Start(_ *testing.T, name, peerURL string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.members) == 0 {
		f.add(peerURL, false)
	}
	if i := f.at(peerURL); i >= 0 {
		f.members[i].Name, f.members[i].runs = name, true
	}
	return clientURL(peerURL)
}

// clientURL is where the fake serves the clients of a member.
func clientURL(peerURL string) string { return strings.TrimSuffix(peerURL, "2380") + "2379" }

// Stop stops the server of a member.
func (f *Fake) Stop(_ *testing.T, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.members, func(s server) bool { return s.Name == name }); i >= 0 {
		f.members[i].runs = false
	}
}

// Member is the member at a peer URL, whether or not anything answers.
func (f *Fake) Member(peerURL string) (admin.Member, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.at(peerURL)
	if i < 0 {
		return admin.Member{}, false
	}
	return f.members[i].Member, true
}

// Runs reports whether the server of a member runs.
func (f *Fake) Runs(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.members, func(s server) bool { return s.Name == name && s.runs })
}

// Names are those of the members by their peer URLs, sorted.
func (f *Fake) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, s := range f.members {
		host, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(s.PeerURLs[0], "https://"), "http://"), ".")
		names = append(names, host)
	}
	slices.Sort(names)
	return names
}

// Client returns the cluster.
func (f *Fake) Client(*testing.T) admin.Client { return f }

// Calls is how often the cluster was asked or changed.
func (f *Fake) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Moves is how often its leader was moved.
func (f *Fake) Moves() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.moves
}

// HasQuorum reports whether more than half of the voters run.
func (f *Fake) HasQuorum() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.elect() == nil
}

func (f *Fake) add(peerURL string, isLearner bool) {
	f.lastID++
	f.members = append(f.members, server{Member: admin.Member{ID: f.lastID, PeerURLs: []string{peerURL}, IsLearner: isLearner}})
}

func (f *Fake) at(peerURL string) int {
	return slices.IndexFunc(f.members, func(s server) bool { return slices.Contains(s.PeerURLs, peerURL) })
}

func (f *Fake) of(id uint64) int {
	return slices.IndexFunc(f.members, func(s server) bool { return s.ID == id })
}

// elect finds a leader, which the voters that run elect if they are a quorum.
func (f *Fake) elect() error {
	voters := slices.DeleteFunc(slices.Clone(f.members), func(s server) bool { return s.IsLearner })
	running := slices.DeleteFunc(slices.Clone(voters), func(s server) bool { return !s.runs })
	if len(running) <= len(voters)/2 {
		return ErrUnreachable
	}
	if !slices.ContainsFunc(running, func(s server) bool { return s.ID == f.leader }) {
		f.leader = running[0].ID
	}
	return nil
}

// Members implements admin.Client.
func (f *Fake) Members(context.Context) ([]admin.Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if err := f.elect(); err != nil {
		return nil, err
	}
	members := make([]admin.Member, 0, len(f.members))
	for _, s := range f.members {
		if s.elsewhere != "" {
			s.PeerURLs = []string{s.elsewhere}
		}
		members = append(members, s.Member)
	}
	return members, nil
}

// Readdress gives the member of a name a peer URL in etcd, as etcdctl member update does; empty gives it its own.
func (f *Fake) Readdress(name, peerURL string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.members {
		if f.members[i].Name == name {
			f.members[i].elsewhere = peerURL
		}
	}
}

// Status implements admin.Client.
func (f *Fake) Status(_ context.Context, url string) (admin.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	i := slices.IndexFunc(f.members, func(s server) bool { return s.isAt(url) })
	if i < 0 || f.elect() != nil {
		return admin.Status{}, ErrUnreachable
	}
	return admin.Status{
		ID: f.members[i].ID, Leader: f.leader, Received: 7, Applied: 7, HasAlarm: len(f.alarms) > 0,
		Size: max(f.members[i].size, 1), InUse: 1, Quota: f.members[i].quota,
	}, nil
}

// Alarms implements admin.Client.
func (f *Fake) Alarms(context.Context) ([]admin.Alarm, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if err := f.elect(); err != nil {
		return nil, err
	}
	return slices.Clone(f.alarms), nil
}

// Raise gives the cluster an alarm, and Disarm takes all from it.
func (f *Fake) Raise(alarm admin.Alarm) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarms = append(f.alarms, alarm)
}

// Disarm see Raise.
func (f *Fake) Disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alarms = nil
}

// Fill sets the size of the database of a member. A quota of 0 is one that it does not tell.
func (f *Fake) Fill(name string, size, quota int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.members, func(s server) bool { return s.Name == name })
	f.members[i].size, f.members[i].quota = size, quota
}

// MoveLeader implements admin.Client.
func (f *Fake) MoveLeader(_ context.Context, url string, id uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(); err != nil {
		return err
	}
	leader := f.of(f.leader)
	switch {
	case leader < 0 || !f.members[leader].isAt(url):
		return fmt.Errorf("%w: another member leads", admin.ErrNotReady)
	case f.of(id) < 0:
		return ErrMemberNotFound
	}
	f.leader = id
	f.moves++
	return nil
}

// Lead makes a member the leader, as an election does.
func (f *Fake) Lead(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = f.members[slices.IndexFunc(f.members, func(s server) bool { return s.Name == name })].ID
}

// Remove implements admin.Client.
func (f *Fake) Remove(_ context.Context, id uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.change(); err != nil {
		return err
	}
	f.members = slices.DeleteFunc(f.members, func(s server) bool { return s.ID == id })
	return nil
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
	case slices.ContainsFunc(f.members, func(s server) bool { return s.IsLearner }):
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
	i := f.of(id)
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
	if f.Before != nil {
		if err := f.Before(); err != nil {
			return err
		}
	}
	return f.elect()
}

// Close implements admin.Client.
func (f *Fake) Close() error { return nil }
