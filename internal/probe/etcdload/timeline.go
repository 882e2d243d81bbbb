package etcdload

import (
	"fmt"
	"slices"
	"time"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// bandPresents is what members present to fresh connections, which go to the client port.
const bandPresents = "presents to clients"

// Timeline is the picture of a result, with what was seen of the members meanwhile.
func (r Result) Timeline(title string, members []observe.Log) timeline.Timeline {
	restarts := 0
	picture := timeline.Timeline{
		Title: title, Ok: r.Ok(), Start: r.Acks.Start, End: r.EndedAt, Marks: r.Marks,
		Clients: []timeline.Client{r.clients()}, Watches: []timeline.Watch{observe.WatchRow("fresh connections", r.Fresh)},
		Counted: "writes", Failure: "failed write, refused connection",
	}
	for _, member := range members {
		restarts += member.Restarts
		picture.Nodes = append(picture.Nodes, member.Row(timeline.Band{Label: bandPresents, Spans: r.presented(member.Node)}))
	}
	picture.Verdict = fmt.Sprintf("%d writes, %d failed · %d TLS failures · %s · longest gap %d ms",
		r.Writes, r.Failed, len(r.Refusals), observe.Count(restarts, "restart"), r.Stall.Length.Milliseconds())
	return picture
}

// clients is one row: that all writers do the same ten times a second shows more than each of them.
func (r Result) clients() timeline.Client {
	row := timeline.Client{
		Name: fmt.Sprintf("%d writers, %d readers", Writers, Readers), Note: fmt.Sprintf("%d writes, %d failed", r.Writes, r.Failed),
		Width: r.Acks.Width, Counts: r.Acks.Counts, Failures: slices.Clone(r.Failures),
		GapFrom: r.Stall.From, GapTo: r.Stall.From.Add(r.Stall.Length), GapText: fmt.Sprintf("%d ms", r.Stall.Length.Milliseconds()),
	}
	for _, refusal := range r.Refusals {
		if refusal.Who == Working {
			row.Failures = append(row.Failures, refusal.At)
		}
	}
	slices.SortFunc(row.Failures, time.Time.Compare)
	row.Ok = len(row.Failures)+len(r.Problems) == 0
	return row
}

func (r Result) presented(member string) []timeline.Span {
	for _, watch := range r.Fresh {
		if watch.Node == member {
			return watch.Presents()
		}
	}
	return nil
}
