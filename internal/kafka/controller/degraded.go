package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/publication"
)

// useLastKnown continues a reconcile whose resources or CAs cannot be used with the cluster as it was
// last: a mistake in a manifest must not let certificates expire. The result is false when no node is
// known yet.
func (c *desired) useLastKnown() bool {
	if len(c.asked.Known.Pools) == 0 {
		return false
	}
	c.cluster = model.LastKnown(c.asked, c.publishedListeners())
	c.keepCustomCertificates()
	return true
}

// isDegraded reports whether the cluster of the reconcile is the last one known, and not the one that
// the resources ask for.
func (c *desired) isDegraded() bool {
	return c.occupied != nil || c.unusable != nil || c.unfit != nil || c.invalid != nil
}

// degradedReason is why the cluster is the last one known; nil when it is not.
func (c *desired) degradedReason() error {
	var why error
	for _, reason := range []error{c.occupied, c.unusable, c.unfit, c.invalid} {
		switch {
		case why == nil:
			why = reason
		case reason != nil:
			why = fmt.Errorf("%w. %w", why, reason)
		}
	}
	return why
}

// publishedListeners are the listeners with TLS that nodes are told of.
func (c *desired) publishedListeners() []model.Listener {
	found := map[publication.Role]model.Listener{}
	for name := range c.secrets {
		published := c.published(name)
		for key := range published.Trust {
			listener, ofClients := clientListener(key)
			if !ofClients {
				continue
			}
			if _, custom := published.Identities[string(key)]; custom {
				listener.Certificate = &model.CertificateSource{}
			}
			found[key] = listener
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b model.Listener) int { return cmp.Compare(a.Port, b.Port) })
}

// clientListener reads a listener of a publication; false for the operator's own.
func clientListener(key publication.Role) (model.Listener, bool) {
	at := strings.LastIndex(string(key), "-")
	if slices.Contains(contract.OwnRoles(), key) || at < 0 {
		return model.Listener{}, false
	}
	port, err := strconv.ParseInt(string(key)[at+1:], 10, 32)
	if err != nil {
		return model.Listener{}, false
	}
	return model.Listener{Name: string(key)[:at], Port: int32(port), TLS: true}, true
}

// keepCustomCertificates takes the listener certificates that nodes have.
func (c *desired) keepCustomCertificates() {
	c.custom = map[publication.Role]listenercert.Checked{}
	for _, listener := range c.cluster.Listeners {
		if listener.Certificate == nil {
			continue
		}
		if present, found := c.presentCertificate(listener); found {
			c.custom[listener.Key()] = present
		}
	}
}

// applyCertificates writes what keeps certificates valid and trusted, and nothing else. Left is what could not be written.
func (r *Reconciler) applyCertificates(ctx context.Context, c *applied) (left, err error) {
	if err := r.applyAuthorities(ctx, c); err != nil {
		return nil, err
	}
	return r.applyEach(ctx, c, []step{r.applyOperatorIdentity, r.applyNodeSecrets, r.triggerKubeletSync, r.applyCompanions}), nil
}
