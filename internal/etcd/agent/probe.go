package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Limits of a question to etcd.
const (
	questionLimit = 5 * time.Second
	maxAnswer     = 8 << 20
)

// learnerMetric is 1 in etcd's metrics as long as the member does not vote.
const learnerMetric = "etcd_server_is_learner 1"

// errLearner says that the member does not vote yet: clients must not be sent to it.
var errLearner = errors.New("the member is a learner")

// probe asks etcd on loopback whether it serves. It is not for concurrent use.
type probe struct {
	url    string
	client *http.Client
	// votes is true once the member was seen to vote: it never becomes a learner again.
	votes bool
}

func newProbe(url string) *probe {
	return &probe{url: url, client: &http.Client{Timeout: questionLimit, Transport: &http.Transport{}}}
}

func (p *probe) close() { p.client.CloseIdleConnections() }

// check returns nil if the member serves clients, otherwise why not.
func (p *probe) check(ctx context.Context) error {
	status, err := p.ask(ctx, "/readyz", ignore)
	if status == http.StatusNotFound { // etcd before 3.5.11
		status, err = p.ask(ctx, "/health", ignore)
	}
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("asking etcd whether it is ready: it answers %s", http.StatusText(status))
	case p.votes:
		return nil
	}
	learner := false
	if _, err := p.ask(ctx, "/metrics", func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			learner = learner || strings.HasPrefix(lines.Text(), learnerMetric)
		}
		return lines.Err()
	}); err != nil {
		return err
	}
	if learner {
		return errLearner
	}
	p.votes = true
	return nil
}

func ignore(body io.Reader) error {
	_, err := io.Copy(io.Discard, body)
	return err
}

func (p *probe) ask(ctx context.Context, path string, read func(io.Reader) error) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("asking etcd for %s: %w", path, err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking etcd for %s: %w", path, err)
	}
	if err := errors.Join(read(io.LimitReader(response.Body, maxAnswer)), response.Body.Close()); err != nil {
		return 0, fmt.Errorf("asking etcd for %s: %w", path, err)
	}
	return response.StatusCode, nil
}
