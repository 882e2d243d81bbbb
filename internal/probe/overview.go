package probe

import (
	"fmt"
	"slices"

	"github.com/keyturn/keyturn/internal/probe/observe"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

// Overview is the time line as it fits a screen: of each node the CAs that it trusts clients by and the one that it
// presents, and all clients in one row.
func (r Result) Overview(title string) timeline.Timeline {
	line := r.Timeline(title)
	line.Marks, line.Watches = nil, nil
	for i := range line.Nodes {
		line.Nodes[i].Bands = slices.DeleteFunc(line.Nodes[i].Bands, func(band timeline.Band) bool {
			return band.Label != observe.BandTrusts+"clients" && band.Label != bandPresents
		})
	}
	if len(line.Clients) > 0 {
		line.Clients = []timeline.Client{together(line.Clients)}
	}
	return line
}

// together adds up clients. The gap is the longest that any of them had.
func together(clients []timeline.Client) timeline.Client {
	all := timeline.Client{Name: observe.Count(len(clients), "client") + " together", Ok: true}
	for _, client := range clients {
		all.Width = max(all.Width, client.Width)
		all.Ok = all.Ok && client.Ok
		all.Failures = append(all.Failures, client.Failures...)
		if client.GapTo.Sub(client.GapFrom) > all.GapTo.Sub(all.GapFrom) {
			all.GapFrom, all.GapTo, all.GapText = client.GapFrom, client.GapTo, client.GapText
		}
		all.Counts = append(all.Counts, make([]uint32, max(0, len(client.Counts)-len(all.Counts)))...)
		for i, acknowledged := range client.Counts {
			all.Counts[i] += acknowledged
		}
	}
	all.Note = "longest gap " + all.GapText
	if refused := len(all.Failures); refused > 0 {
		all.Note = fmt.Sprintf("%d refused", refused)
	}
	return all
}
