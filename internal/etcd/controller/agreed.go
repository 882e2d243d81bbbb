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
	answers, errs := make([][]admin.Member, len(c.urls)), make([]error, len(c.urls))
	var asked sync.WaitGroup
	for i, url := range c.urls {
		asked.Go(func() { answers[i], errs[i] = c.membersAt(ctx, url) })
	}
	asked.Wait()
	var agreed []admin.Member
	for i, answer := range answers {
		if errs[i] != nil {
			continue
		}
		slices.SortFunc(answer, func(a, b admin.Member) int { return cmp.Compare(a.ID, b.ID) })
		if agreed != nil && !slices.EqualFunc(agreed, answer, isSame) {
			return nil, errDisagree
		}
		agreed = answer
		c.heard = append(c.heard, c.names[i])
	}
	if agreed == nil {
		return nil, errors.Join(errs...)
	}
	return agreed, nil
}

// isSame leaves out the names, which members themselves tell etcd at any time.
func isSame(a, b admin.Member) bool {
	return a.ID == b.ID && a.IsLearner == b.IsLearner && slices.Equal(a.PeerURLs, b.PeerURLs)
}

func (c *connection) membersAt(ctx context.Context, url string) ([]admin.Member, error) {
	member, err := c.options.Dial(ctx, []string{url}, c.identity())
	if err != nil {
		return nil, err
	}
	members, err := member.Members(ctx)
	c.hangUp(member)
	return members, err
}
