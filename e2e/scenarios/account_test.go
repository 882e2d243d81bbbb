package scenarios

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/report"
)

const (
	// unnoticed is a gap that nobody takes for one.
	unnoticed = 500 * time.Millisecond
	// noise is how much longer than without a rotation the longest gap may be.
	noise = 1.5
	// restartGap is how long a client may wait while nodes restart.
	restartGap = 3 * time.Second
	// worthACheck is how long a phase lasts in which each watcher must have been
	// at each node: they come once a second.
	worthACheck = 4 * time.Second
)

// compare lets the clients work as long again as the rotation took, with none, and
// ends them.
func (r *turning) compare() {
	r.Helper()
	took := r.ended.Sub(r.began)
	r.load.SetPhase("as long again, without a rotation")
	r.must(harness.Let(r.ctx, max(took, harness.Quiet)))
	r.finish()
	during, without := longestGap(r.result, r.began, r.ended), longestGap(r.result, r.ended, r.result.At)
	r.gapWithin(during, max(unnoticed, time.Duration(noise*float64(without))))
	r.figures = append(r.figures, report.Observed("longest gap of an equally long run without a rotation", report.Milliseconds(without), "ms",
		"the same clients, directly afterwards"))
}

func (r *turning) gapWithin(gap, bound time.Duration) {
	r.Helper()
	r.figure(report.AtMost("longest gap during the rotation", report.Milliseconds(gap), report.Milliseconds(bound), "ms",
		"longest time between two acknowledgements of one client, of all clients of the probe, from the annotation until the rotation was settled"))
}

// finish ends clients and watchers, and holds what they saw against what is
// promised to all of them.
func (r *turning) finish() {
	r.Helper()
	if err := r.unmark(); err != nil {
		r.Error(err)
	}
	if r.jvm != nil {
		r.finishJVM()
	}
	r.witness()
	r.figures = append(r.figures, report.Observed("rotation", r.ended.Sub(r.began).Seconds(), "s",
		"from the annotation until the condition says that nothing is left to be done now"))
	r.watchersWereServed()
}

func (r *turning) finishJVM() {
	r.Helper()
	account, err := r.jvm.Finish(r.ctx)
	if err != nil {
		r.Error(err)
	}
	r.accounts = append(r.accounts, account.Client(r.began))
	for _, complaint := range account.Complaints {
		r.Errorf("the JVM client: %s", complaint)
	}
	if account.Lost() > 0 {
		r.Errorf("the JVM client: %d of %d acknowledged records are not in the log", account.Lost(), account.Acknowledged)
	}
	during, without := account.LongestGap(r.began, r.ended), account.LongestGap(r.ended, time.Now())
	r.figure(report.AtMost("longest gap of the JVM client during the rotation", report.Milliseconds(during.Length),
		report.Milliseconds(max(r.patience(), time.Duration(noise*float64(without.Length)))), "ms",
		"longest time between two acknowledgements, by the clock of kafka-producer-perf-test, which tells of each"))
	r.figures = append(r.figures, report.Observed("slowest acknowledgement of the JVM client during the rotation",
		report.Milliseconds(account.Slowest(r.began, r.ended)), "ms", "in the client's own words; it reconnects about twice a second"))
	for _, warning := range account.Warnings {
		r.notes = append(r.notes, "the JVM client: "+warning)
	}
	r.notes = append(r.notes, fmt.Sprintf("the JVM client's longest gap began %s after the annotation", during.From.Sub(r.began).Round(time.Millisecond)))
}

// patience is how long a client may wait at most.
func (r *turning) patience() time.Duration {
	if r.restarts {
		return maxGap
	}
	return unnoticed
}

// watchersWereServed: in every phase that was long enough each node accepted each
// watcher, and none was ever refused.
func (r *turning) watchersWereServed() {
	r.Helper()
	for _, watch := range r.result.Watches {
		if watch.Fresh().Accepted == 0 {
			r.Errorf("%s proves nothing: it was never accepted", watch.Name)
		}
		for _, node := range watch.Nodes {
			for phase, tally := range node.Phases {
				if tally.Refused > 0 {
					r.Errorf("%s was refused %d times by %s in phase %q", watch.Name, tally.Refused, node.Node, phase)
				}
				if tally.Accepted == 0 && !r.restarts && lasted(r.result, phase) >= worthACheck {
					r.Errorf("%s was never accepted by %s in phase %q", watch.Name, node.Node, phase)
				}
			}
		}
	}
}

// lasted adds up the times of a phase.
func lasted(result *probe.Result, phase string) time.Duration {
	var sum time.Duration
	for i, mark := range result.Phases {
		until := result.At
		if i+1 < len(result.Phases) {
			until = result.Phases[i+1].At
		}
		if mark.Phase == phase {
			sum += until.Sub(mark.At)
		}
	}
	return sum
}

// longestGap of all clients in the phases that began in a time. A gap belongs to the
// phase in which it ended.
func longestGap(result *probe.Result, from, to time.Time) time.Duration {
	var phases []string
	for _, mark := range result.Phases {
		if !mark.At.Before(from) && mark.At.Before(to) {
			phases = append(phases, mark.Phase)
		}
	}
	var longest time.Duration
	for _, client := range result.Clients {
		for phase, account := range client.Records.Phases {
			if slices.Contains(phases, phase) {
				longest = max(longest, account.LongestGap.Length)
			}
		}
	}
	return longest
}

// notRestarted: every node is the process that it was when the scenario began.
func (r *turning) notRestarted() {
	r.Helper()
	now, err := r.kafka.Processes(r.ctx, r.target)
	r.must(err)
	for _, sentence := range r.processes.Restarted(now) {
		r.Error(sentence)
	}
}

// restartedAtMost holds how often clients saw each node restart against a number, and that they restarted one at a time.
func (s *stage) restartedAtMost(times int) {
	s.Helper()
	for i, node := range s.result.Nodes {
		for _, other := range s.result.Nodes[:i] {
			if at := awayTogether(node, other); !at.IsZero() {
				s.Errorf("%s and %s were away at the same time, at %s", other.Node, node.Node, at)
			}
		}
	}
	for _, node := range s.result.Nodes {
		s.figure(report.AtMost("restarts of "+node.Node, float64(node.Restarts), float64(times), "restarts",
			"new pods and new containers, as a watch of the pods shows them"))
	}
}

// within holds how long the rotation took against a bound.
func (r *turning) within(bound time.Duration) {
	r.Helper()
	r.figure(report.AtMost("rotation within bounds", r.ended.Sub(r.began).Seconds(), bound.Seconds(), "s",
		fmt.Sprintf("from the annotation until the condition of the %s says that nothing is left to be done now", r.authority)))
}

// awayTogether is when two nodes were away at the same time, and zero if they never were.
func awayTogether(one, two observe.Log) time.Time {
	for _, a := range timesAway(one) {
		for _, b := range timesAway(two) {
			if a.From.Before(b.To) && b.From.Before(a.To) {
				return a.From
			}
		}
	}
	return time.Time{}
}

// timesAway are the times from when a node that was ready had no pod with an address until it was ready again.
func timesAway(node observe.Log) []observe.State {
	var all []observe.State
	wasReady, isAway := false, false
	for _, state := range node.States {
		wasReady = wasReady || state.Ready
		isAway = wasReady && !state.Ready && (isAway || !state.Up)
		if isAway {
			all = append(all, state)
		}
	}
	return all
}
