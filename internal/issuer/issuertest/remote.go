package issuertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/keyturn/keyturn/internal/issuer"
)

// Remote stands in for an issuer whose signer is elsewhere: requests are pending until the test has the signer answer.
type Remote struct {
	signer issuer.Issuer

	mu sync.Mutex
	// open are the requests that the signer has, and when they were made.
	open map[string]time.Time
	// answers are how many requests it is going to sign, unless it denies all because of refusal.
	answers int
	refusal string
}

// NewRemote returns an issuer whose signer signs as another one does.
func NewRemote(signer issuer.Issuer) *Remote {
	return &Remote{signer: signer, open: map[string]time.Time{}}
}

// Issue implements issuer.Issuer.
func (r *Remote) Issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("requesting %q: %w", request.Name, err)
	}
	if err := request.Validate(); err != nil {
		return issuer.Deny(err), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.open[request.Name]; !known {
		r.open[request.Name] = request.Now
	}
	switch {
	case r.refusal != "":
		return issuer.Denied{Why: r.refusal}, nil
	case r.answers == 0:
		return issuer.Pending{Since: r.open[request.Name], Why: "the signer has not answered: approve the request"}, nil
	}
	r.answers--
	delete(r.open, request.Name)
	return r.signer.Issue(ctx, request)
}

// Withdraw implements issuer.Issuer.
func (r *Remote) Withdraw(ctx context.Context, keep []string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("withdrawing requests: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.open, func(name string, _ time.Time) bool { return !slices.Contains(keep, name) })
	return nil
}

// Answer has the signer sign one request more.
func (r *Remote) Answer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers++
}

// Refuse has the signer deny every request.
func (r *Remote) Refuse(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refusal = why
}

// Open names the requests that the signer has, sorted.
func (r *Remote) Open() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.open))
}
