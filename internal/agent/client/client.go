package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/publication"
)

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 16 << 10

// Node is the agent to be asked.
type Node struct {
	// Address is host:port of the agent's secure port; the host may be the pod's
	// IP address.
	Address string
	// Name is the DNS name the node's leaf is issued for.
	Name string
	// Leaves are the SHA-256 fingerprints of the leaves issued to the node that
	// it may still present: the published one, and its predecessor. Such a leaf
	// is accepted expired or not.
	Leaves []string
	// Roles is how many roles the node has at most, see publication.MaxReport.
	Roles int
}

// Options say how agents are reached.
type Options struct {
	// Dial opens the transport.
	Dial mtls.DialFunc
	// Credentials are read before every question.
	Credentials mtls.Source
	// Now is the clock that certificates are judged by.
	Now func() time.Time
	// Timeout bounds every question, its connection included.
	Timeout time.Duration
}

// Client asks agents. It is safe for concurrent use.
type Client struct {
	options Options
}

// The errors of a question. What is none of them is an answer that cannot be
// read, or what the credentials' source returned.
type (
	// UnreachableError says that no answer came in time: nothing is known.
	UnreachableError = mtls.UnreachableError
	// UntrustedError says that the answering side is not the node.
	UntrustedError = mtls.UntrustedError
	// RefusedError says that the agent does not accept the operator.
	RefusedError = mtls.RefusedError
)

// StatusError says that an agent answered with an HTTP status that the question
// has no meaning for.
type StatusError struct {
	Path   string
	Status int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the agent answers %s with status %d", e.Path, e.Status)
}

// TooLongError says that an agent answers with more than is read or kept.
type TooLongError struct {
	Path string
	// Limit is how much is read or kept, and Of what that is: bytes, or parts of a
	// report.
	Limit int
	Of    string
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the agent answers %s with more than %d %s: see who answers in its place, or delete the pod", e.Path, e.Limit, e.Of)
}

// New makes a client.
func New(options Options) *Client { return &Client{options: options} }

// TLS asks what the node's running server has loaded.
func (c *Client) TLS(ctx context.Context, node Node) (publication.Report, error) {
	var report publication.Report
	err := c.read(ctx, node, question{agent.TLSPath, publication.MaxReport(node.Roles)}, &report)
	if err != nil {
		return publication.Report{}, err
	}
	if what, limit, many := report.TooMany(); many {
		return publication.Report{}, &TooLongError{Path: agent.TLSPath, Limit: limit, Of: what}
	}
	return report.Excerpt(), nil
}

// State asks for the state of the node's server, which agents of each kind serve at a path
// of their own, and reads it into a value that is encoded as JSON.
func (c *Client) State(ctx context.Context, node Node, path string, into any) error {
	return c.read(ctx, node, question{path, publication.MaxAnswer}, into)
}

// Ready asks whether the node serves, and if not what it is waiting for.
func (c *Client) Ready(ctx context.Context, node Node) (agent.Readiness, error) {
	status, body, err := c.get(ctx, node, question{agent.ReadyPath, publication.MaxAnswer})
	if err != nil {
		return agent.Readiness{}, err
	}
	switch status {
	case http.StatusNoContent:
		return agent.Readiness{Ready: true}, nil
	case http.StatusServiceUnavailable:
		var readiness agent.Readiness
		err := decode(node, agent.ReadyPath, body, &readiness)
		return readiness.Excerpt(), err
	default:
		return agent.Readiness{}, &StatusError{Path: agent.ReadyPath, Status: status}
	}
}

// question is what is asked, and how many bytes of an answer are read.
type question struct {
	path  string
	limit int
}

func (c *Client) read(ctx context.Context, node Node, q question, into any) error {
	status, body, err := c.get(ctx, node, q)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return &StatusError{Path: q.path, Status: status}
	}
	return decode(node, q.path, body, into)
}

func decode(node Node, path string, body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading the answer of %s to %s: %w", node.Address, path, err)
	}
	return nil
}

var errForbidden = errors.New("only the cluster operator may ask")

// get asks one question over a connection made for it.
func (c *Client) get(ctx context.Context, node Node, q question) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	transport := c.transport(node)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+node.Address+q.path, http.NoBody)
	if err != nil {
		return 0, nil, fmt.Errorf("asking the agent at %q: %w", node.Address, err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, mtls.Classify(node.Address, err)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, int64(q.limit)+1))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, mtls.Classify(node.Address, err)
	}
	if resp.StatusCode == http.StatusForbidden {
		return 0, nil, &RefusedError{Address: node.Address, Err: errForbidden}
	}
	if len(body) > q.limit {
		return 0, nil, &TooLongError{Path: q.path, Limit: q.limit, Of: "bytes"}
	}
	return resp.StatusCode, body, nil
}

func (c *Client) transport(node Node) *http.Transport {
	dialer := mtls.Dialer{
		Dial: c.options.Dial, Source: c.options.Credentials, Now: c.options.Now, Timeout: c.options.Timeout,
	}
	peer := mtls.Peer{Name: node.Name, Leaves: node.Leaves}
	return &http.Transport{
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dialer.Connect(ctx, address, peer)
		},
		DisableKeepAlives:      true,
		DisableCompression:     true, // what is read is what is kept
		MaxResponseHeaderBytes: maxHeader,
	}
}
