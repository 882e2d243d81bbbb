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

// standOn lets a pass whose resources or authorities cannot be used go on with the
// cluster as it stands: a mistake in a manifest must not let certificates expire. The
// result is false when nothing stands yet: no node is known.
func (p *pass) standOn() bool {
	if len(p.asked.Known.Pools) == 0 {
		return false
	}
	p.cluster = model.Standing(p.asked, p.publishedListeners())
	return true
}

// stands reports whether the cluster of the pass is the one that stands, and not
// the one that the resources ask for.
func (p *pass) stands() bool { return p.occupied != nil || p.unusable != nil || p.invalid != nil }

// whyStands is why the cluster is the one that stands; nil when it is not.
func (p *pass) whyStands() error {
	var why error
	for _, reason := range []error{p.occupied, p.unusable, p.invalid} {
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
func (p *pass) publishedListeners() []model.Listener {
	found := map[publication.Role]model.Listener{}
	for name := range p.secrets {
		published := p.published(name)
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
func (p *pass) keepCustomCertificates() {
	p.custom = map[publication.Role]listenercert.Checked{}
	for _, listener := range p.cluster.Listeners {
		if listener.Certificate == nil {
			continue
		}
		if present, found := p.presentCertificate(listener); found {
			p.custom[listener.Key()] = present
		}
	}
}

// keepUp writes what keeps certificates valid and trusted, and nothing else. Left is what could not be written.
func (r *Reconciler) keepUp(ctx context.Context, p *pass) (left, err error) {
	if err := r.applyAuthorities(ctx, p); err != nil {
		return nil, err
	}
	return r.applyEach(ctx, p, []step{r.applyOperatorIdentity, r.applyNodeSecrets, r.nudge, r.applyCompanions}), nil
}
