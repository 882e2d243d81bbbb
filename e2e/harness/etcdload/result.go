package etcdload

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
)

// Result is what became of a load.
type Result struct {
	Account

	// Keys were written, and Problems are of their histories and of the last look at them.
	Keys     int
	Problems []string
	// Connections are counted by who opened them, to which member, and in which phase.
	Connections []report.Handshakes
	Refusals    []Refusal
}

// checkLimit is how long the check of one key may take.
const checkLimit = 30 * time.Second

// Finish ends the clients, reads every key once more and checks the history of each.
func (l *Load) Finish(ctx context.Context) Result {
	result := l.finish(ctx, store{l.clients[0]})
	if err := l.disconnect(); err != nil {
		result.Problems = append(result.Problems, fmt.Sprintf("closing the clients: %v", err))
	}
	return result
}

func (l *Load) finish(ctx context.Context, from Store) Result {
	close(l.stop)
	l.working.Wait()
	result := Result{Account: l.account.close(time.Now())}
	keys := l.history.Keys()
	result.Keys = len(keys)
	for _, key := range keys {
		if err := l.lookAgain(ctx, from, key); err != nil {
			result.Problems = append(result.Problems, fmt.Sprintf("what key %s has at the end is not known: %v", key, err))
		}
	}
	result.Problems = append(result.Problems, l.history.Check(checkLimit)...)
	result.Connections, result.Refusals = l.connections.record()
	return result
}

// lookAgain reads a key until the deadline of a write.
func (l *Load) lookAgain(ctx context.Context, from Store, key string) error {
	const client = Writers + Readers
	for since := time.Now(); ; pause(ctx, l.options.Pause) {
		err := l.look(ctx, from, client, key)
		if err == nil || ctx.Err() != nil || time.Since(since) > l.options.Deadline {
			return err
		}
	}
}

// Refused counts the refused connections in a phase, and in all phases where it is empty.
func (r Result) Refused(phase string) (refused int) {
	for _, refusal := range r.Refusals {
		if phase == "" || refusal.Phase == phase {
			refused++
		}
	}
	return refused
}

// Reasons counts the refused connections by the reason.
func (r Result) Reasons() map[verdict.Reason]int {
	reasons := map[verdict.Reason]int{}
	for _, refusal := range r.Refusals {
		reasons[refusal.Reason]++
	}
	return reasons
}

// Client is the account in the form of reports.
func (r Result) Client() report.Client {
	return report.Client{
		Kind: fmt.Sprintf("etcd, %d writers", Writers), Listener: "client",
		Sent: r.Writes + r.Failed, Acknowledged: r.Writes, Lost: uint64(len(r.Problems)),
		TLSFailures: uint64(len(r.Refusals)), LongestGapMs: report.Milliseconds(r.Stall.Length),
	}
}

// Figures are the account with its targets: no write fails, and every history is one of a
// register.
func (r Result) Figures() []report.Figure {
	return []report.Figure{
		report.AtMost("failed writes", float64(r.Failed), 0, "writes", "logical writes without an acknowledgement at their deadline"),
		report.AtMost("rejected histories", float64(len(r.Problems)), 0, "keys", "keys whose operations no register has, or that could not be read at the end"),
		report.AtLeast("writes", float64(r.Writes), Writers, "writes", "logical writes that were acknowledged"),
		report.AtLeast("reads", float64(r.Reads), Readers, "reads", "linearizable reads that were answered"),
		report.Observed("retries", float64(r.Retries), "attempts", "attempts after the first of a write"),
		report.Observed("reads without an answer", float64(r.Unread), "reads", "linearizable reads that failed"),
		report.Observed("longest time without a write", r.Stall.Length.Seconds(), "s", "between two acknowledgements of any writer"),
		report.Observed("slowest write", r.Slowest.Seconds(), "s", "from the first attempt to the acknowledgement"),
		report.Observed("refused connections", float64(len(r.Refusals)), "connections", "that one side refused, of clients at work and fresh ones"),
	}
}
