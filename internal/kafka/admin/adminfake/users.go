package adminfake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/principal"
)

// Users is what a Kafka cluster holds for its users, in memory. It passes the suite of admintest that a real Kafka
// passes, and is safe for concurrent use.
type Users struct {
	mu         sync.Mutex
	held       map[string]principal.Held
	passwords  map[string]string
	authorizes bool
	failure    error
	refusal    error
	rounds     int
	acts       []string
}

var _ admin.UsersClient = (*Users)(nil)

// NewUsers is a cluster with an authorizer that holds nothing.
func NewUsers() *Users {
	return &Users{held: map[string]principal.Held{}, passwords: map[string]string{}, authorizes: true}
}

// Hold replaces what is held for a user, as another client does.
func (u *Users) Hold(user string, held principal.Held) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.put(user, held)
}

// Held is what is held for a user.
func (u *Users) Held(user string) principal.Held {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.held[user]
}

// Password is the one that is accepted from a user, empty when none is.
func (u *Users) Password(user string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.passwords[user]
}

// Names are the users that something is held for, sorted.
func (u *Users) Names() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.held))
}

// Authorize says whether there is an authorizer.
func (u *Users) Authorize(authorizes bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.authorizes = authorizes
}

// Fail makes every request fail with the error; nil ends that.
func (u *Users) Fail(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failure = err
}

// FailChanges makes every change fail with the error; nil ends that.
func (u *Users) FailChanges(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refusal = err
}

// Rounds is how often everything was described.
func (u *Users) Rounds() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.rounds
}

// Acts are the changes that were made, one line each, in order. No password is among them.
func (u *Users) Acts() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.acts)
}

func (u *Users) put(user string, held principal.Held) {
	held.ACLs = principal.Sorted(held.ACLs)
	if held.Equal(principal.Held{}) {
		delete(u.held, user)
		return
	}
	u.held[user] = held
}

// DescribeUsers implements admin.UsersClient.
func (u *Users) DescribeUsers(context.Context) (admin.Users, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.rounds++
	if u.failure != nil {
		return admin.Users{}, u.failure
	}
	held := make(map[string]principal.Held, len(u.held))
	for user, of := range u.held {
		of.ACLs, of.Quotas = slices.Clone(of.ACLs), maps.Clone(of.Quotas)
		if !u.authorizes {
			of.ACLs = nil
		}
		held[user] = of
	}
	return admin.Users{Held: held, Authorizes: u.authorizes}, nil
}

// change is one request of a client about one user.
func (u *Users) change(act, user string, refused *kerr.Error, to func(*principal.Held)) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := cmp.Or(u.failure, u.refusal); err != nil {
		return err
	}
	if refused != nil {
		return &admin.RejectedError{Doing: act, Err: refused}
	}
	held := u.held[user]
	to(&held)
	u.put(user, held)
	u.acts = append(u.acts, act+" "+user)
	return nil
}

// CreateACLs implements admin.UsersClient.
func (u *Users) CreateACLs(_ context.Context, user string, acls []principal.ACL) error {
	if len(acls) == 0 {
		return nil
	}
	return u.change("create ACLs", user, u.refuses(acls), func(h *principal.Held) { h.ACLs = append(slices.Clone(h.ACLs), acls...) })
}

// refuses is what a real Kafka says to some ACLs.
func (u *Users) refuses(acls []principal.ACL) *kerr.Error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.authorizes {
		return kerr.SecurityDisabled
	}
	if slices.ContainsFunc(acls, func(acl principal.ACL) bool { return acl.Name == "" }) {
		return kerr.InvalidRequest
	}
	return nil
}

// DeleteACLs implements admin.UsersClient.
func (u *Users) DeleteACLs(_ context.Context, user string, acls []principal.ACL) error {
	if len(acls) == 0 {
		return nil
	}
	return u.change("delete ACLs", user, nil, func(h *principal.Held) {
		h.ACLs = slices.DeleteFunc(slices.Clone(h.ACLs), func(acl principal.ACL) bool { return slices.Contains(acls, acl) })
	})
}

// AlterQuotas implements admin.UsersClient.
func (u *Users) AlterQuotas(_ context.Context, user string, set map[principal.Quota]float64, unset []principal.Quota) error {
	if len(set)+len(unset) == 0 {
		return nil
	}
	var refused *kerr.Error
	for _, value := range set {
		if value <= 0 {
			refused = kerr.InvalidRequest
		}
	}
	return u.change(fmt.Sprintf("alter quotas (%d set, %d unset)", len(set), len(unset)), user, refused, func(h *principal.Held) {
		quotas := maps.Clone(h.Quotas)
		if quotas == nil {
			quotas = map[principal.Quota]float64{}
		}
		maps.Copy(quotas, set)
		for _, key := range unset {
			delete(quotas, key)
		}
		h.Quotas = quotas
	})
}

// UpsertPassword implements admin.UsersClient.
func (u *Users) UpsertPassword(_ context.Context, user, password string) error {
	return u.change("upsert password", user, nil, func(h *principal.Held) {
		h.HasPassword = true
		u.passwords[user] = password
	})
}

// RevokePassword implements admin.UsersClient.
func (u *Users) RevokePassword(_ context.Context, user string) error {
	return u.change("revoke password", user, nil, func(h *principal.Held) {
		h.HasPassword = false
		delete(u.passwords, user)
	})
}
