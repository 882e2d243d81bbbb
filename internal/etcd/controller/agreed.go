package controller

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/keyturn/keyturn/internal/etcd/admin"
)

var errDisagree = errors.New("members do not agree who the members are")

// agreed are the members that all agree on who answer. One member alone could take the others for removed.
func (c *connection) agreed(ctx context.Context) ([]admin.Member, error) {
	var (
		asked   sync.WaitGroup
		mu      sync.Mutex
		answers = map[string][]admin.Member{}
		errs    []error
	)
	for name, client := range c.clients {
		asked.Go(func() {
			members, err := client.Members(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			answers[name] = members
		})
	}
	asked.Wait()
	var agreed []admin.Member
	for name, answer := range answers {
		slices.SortFunc(answer, func(a, b admin.Member) int { return cmp.Compare(a.ID, b.ID) })
		if agreed != nil && !slices.EqualFunc(agreed, answer, isSame) {
			return nil, errDisagree
		}
		agreed, c.changes = answer, name
		c.heard = append(c.heard, name)
	}
	slices.Sort(c.heard)
	if agreed == nil {
		return nil, errors.Join(errs...)
	}
	return agreed, nil
}

// isSame leaves out the names, which members themselves tell etcd at any time.
func isSame(a, b admin.Member) bool {
	return a.ID == b.ID && a.IsLearner == b.IsLearner && slices.Equal(a.PeerURLs, b.PeerURLs)
}
