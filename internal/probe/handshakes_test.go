package probe

import (
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

func began() time.Time { return time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC) }

func second(n int) time.Time { return began().Add(time.Duration(n) * time.Second) }

// refusal is an error as a handshake gives it, to a client without trust.
func refusal() error { return &verdict.TrustError{Err: io.EOF} }

func TestABrokenHandshakeIsARefusalOnlyWhenItRepeats(t *testing.T) {
	t.Parallel()
	reset, gone := fmt.Errorf("handshake: %w", io.EOF), syscall.ECONNREFUSED
	cases := map[string]struct {
		errors []error
		want   observe.Tally
	}{
		"a server that stops breaks off one and is gone": {
			errors: []error{nil, reset, gone, gone, nil},
			want:   observe.Tally{Accepted: 2, Interrupted: 1, Unreachable: 2},
		},
		"two servers that stop one after the other": {
			errors: []error{reset, nil, reset, gone, reset, nil},
			want:   observe.Tally{Accepted: 2, Interrupted: 3, Unreachable: 1},
		},
		"a server that breaks off every one refuses from the third on": {
			errors: []error{reset, reset, reset, reset},
			want:   observe.Tally{Interrupted: 2, Refused: 2},
		},
		"a refusal needs no repetition": {
			errors: []error{refusal()},
			want:   observe.Tally{Refused: 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHandshakes()
			for i, err := range c.errors {
				h.fresh("node-0", second(i), observe.Presented{}, err)
			}
			nodes, reasons, failures := h.record()
			if diff := cmp.Diff(c.want, observe.Sum(nodes)); diff != "" {
				t.Errorf("tally (-want +got):\n%s", diff)
			}
			var refused uint64
			for _, count := range reasons {
				refused += count
			}
			if refused != c.want.Refused || uint64(len(failures)) != c.want.Refused {
				t.Errorf("%d refusals by reason and %d listed, want %d", refused, len(failures), c.want.Refused)
			}
		})
	}
}

func TestNodesAreJudgedApart(t *testing.T) {
	t.Parallel()
	h := newHandshakes()
	for i := range 6 {
		h.fresh(fmt.Sprintf("node-%d", i), second(i), observe.Presented{}, io.EOF)
		h.data(fmt.Sprintf("node-%d", i), second(i), io.EOF)
	}
	if _, reasons, _ := h.record(); len(reasons) != 0 {
		t.Errorf("broken connections to different nodes were taken for refusals: %v", reasons)
	}
}

func TestSpansJoinWhatStaysTheSame(t *testing.T) {
	t.Parallel()
	h := newHandshakes()
	old, next := observe.Presented{Leaf: "aa", Issuer: "old"}, observe.Presented{Leaf: "bb", Issuer: "new"}
	h.setPhase("before")
	h.fresh("node-0", second(0), old, nil)
	h.fresh("node-0", second(1), old, nil)
	h.setPhase("after")
	h.fresh("node-0", second(2), next, nil)
	h.fresh("node-0", second(3), next, refusal())
	nodes, _, failures := h.record()
	want := []observe.Watch{{
		Node:   "node-0",
		Phases: map[string]observe.Tally{"before": {Accepted: 2}, "after": {Accepted: 1, Refused: 1}},
		Spans: []observe.Span{
			{From: second(0), To: second(1), Verdict: verdict.Accepted, Presented: old, Count: 2},
			{From: second(2), To: second(2), Verdict: verdict.Accepted, Presented: next, Count: 1},
			{From: second(3), To: second(3), Verdict: verdict.Refused, Reason: verdict.NoTrust, Presented: next, Count: 1},
		},
	}}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Failure{{At: second(3), Node: "node-0", Phase: "after", Reason: verdict.NoTrust}}, failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestRecordsOfAFlappingNodeStayBounded(t *testing.T) {
	t.Parallel()
	h := newHandshakes()
	const flaps = 3 * observe.MaxSpans
	for i := range flaps {
		var err error
		if i%2 == 0 {
			err = refusal()
		}
		h.fresh("node-0", second(i), observe.Presented{}, err)
	}
	nodes, reasons, failures := h.record()
	if len(nodes[0].Spans) != observe.MaxSpans || nodes[0].Dropped != flaps-observe.MaxSpans || len(failures) != maxFailures {
		t.Errorf("%d spans, %d dropped, %d failures listed", len(nodes[0].Spans), nodes[0].Dropped, len(failures))
	}
	if reasons[verdict.NoTrust] != flaps/2 {
		t.Errorf("%d refusals counted, want %d: bounds are for lists, not for counts", reasons[verdict.NoTrust], flaps/2)
	}
}

func TestRefusalsOnAWorkingConnectionAreSeen(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err  error
		want int
	}{
		"an alert that comes with the first answer": {&net.OpError{Op: "remote error", Err: alert(116)}, 1},
		"the end of the connection":                 {io.EOF, 0},
		"a connection that was closed from here":    {net.ErrClosed, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heard := 0
			conn := &dataConn{Conn: broken{err: c.err}, refused: func(error) { heard++ }}
			if _, err := conn.Read(nil); err == nil || heard != c.want {
				t.Errorf("error %v, heard %d refusals, want %d", err, heard, c.want)
			}
		})
	}
}

// alert is a TLS alert as crypto/tls has it: a number with a text.
type alert uint8

func (a alert) Error() string { return fmt.Sprintf("alert %d", a) }

type broken struct {
	net.Conn

	err error
}

func (b broken) Read([]byte) (int, error) { return 0, b.err }
