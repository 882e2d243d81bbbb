package etcdload

import (
	"context"
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// Result is what became of a load.
type Result struct {
	Account

	// EndedAt is when the clients had stopped. They began at Acks.Start.
	EndedAt time.Time
	// Keys were written, and Problems are of their histories and of the last look at them.
	Keys     int
	Problems []string
	// Connections are counted by who opened them, to which member, and in which phase.
	Connections []report.Handshakes
	Refusals    []Refusal
	// Fresh are the fresh connections over time, by member, and Marks the phases.
	Fresh []observe.Watch
	Marks []timeline.Mark
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
	ended := l.options.Clock.Now()
	result := Result{Account: l.account.close(ended), EndedAt: ended}
	keys := l.history.Keys()
	result.Keys = len(keys)
	for _, key := range keys {
		if err := l.lookAgain(ctx, from, key); err != nil {
			result.Problems = append(result.Problems, fmt.Sprintf("what key %s has at the end is not known: %v", key, err))
		}
	}
	result.Problems = append(result.Problems, l.history.Check(checkLimit)...)
	result.Connections, result.Refusals = l.connections.record()
	result.Fresh, result.Marks = l.connections.overTime()
	return result
}

// lookAgain reads a key until the deadline of a write.
func (l *Load) lookAgain(ctx context.Context, from Store, key string) error {
	const client = Writers + Readers
	for since := l.options.Clock.Now(); ; l.pause(ctx) {
		err := l.look(ctx, from, client, key)
		if err == nil || ctx.Err() != nil || l.options.Clock.Since(since) > l.options.Deadline {
			return err
		}
	}
}

// Ok says that no write failed, that a register has every history, and that no connection was refused.
func (r Result) Ok() bool { return r.Failed == 0 && len(r.Problems) == 0 && len(r.Refusals) == 0 }

// In counts the connections to all members in a phase.
func (r Result) In(phase, who string) report.Handshakes {
	return r.sum(who, func(count report.Handshakes) bool { return count.Phase == phase })
}

// Sum counts the connections to all members.
func (r Result) Sum(who string) report.Handshakes {
	return r.sum(who, func(report.Handshakes) bool { return true })
}

func (r Result) sum(who string, counts func(report.Handshakes) bool) report.Handshakes {
	sum := report.Handshakes{Who: who}
	for _, count := range r.Connections {
		if count.Who == who && counts(count) {
			sum.Accepted += count.Accepted
			sum.Refused += count.Refused
			sum.Interrupted += count.Interrupted
			sum.Unreachable += count.Unreachable
		}
	}
	return sum
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
