package controller

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// rank says how much there is to hope for from those of a cluster who are slow.
type rank int

const (
	// recent: somebody has been slow for less than the longest pause, or nobody is.
	recent rank = iota
	// partial: they have been slow for long, but they answer in the end, or others do.
	partial
	// cutOff: nobody of the cluster has answered for long.
	cutOff
)

// rankOf is that of a cluster whose processes stand like that.
func rankOf(standings map[string]standing, now time.Time) rank {
	lately := func(since time.Time) bool { return now.Sub(since) < longestPause }
	allPrompt, cut := true, true
	for _, s := range standings {
		if s.slow() && lately(s.slowSince) {
			return recent
		}
		allPrompt = allPrompt && !s.slow()
		cut = cut && s.failure != nil && !lately(s.silentSince)
	}
	switch {
	case allPrompt:
		return recent
	case cut:
		return cutOff
	default:
		return partial
	}
}

// places are for passes that wait for somebody who is slow. No pass waits for a place: one
// that finds none comes again, and a place is kept for it when its turn has come.
type places struct {
	// room is how many there are, taken how many are taken now, and given how many have
	// been taken so far.
	room, taken, given int
	waiting            map[types.UID]ticket
}

// ticket is that of a cluster that has found no place.
type ticket struct {
	rank rank
	// since is when it wanted one first, and back when it comes again.
	since, back time.Time
}

func newPlaces(room int) *places { return &places{room: room, waiting: map[types.UID]ticket{}} }

// expected reports whether the cluster is about to come, or late for a reason that may
// pass. Nothing is kept for one that does not come.
func (t ticket) expected(now time.Time) bool {
	return !now.Before(t.back.Add(-shortestPause)) && !now.After(t.back.Add(askingTime))
}

// lapsed reports whether the cluster has given up, or its ticket was made by a clock that
// has been set back.
func (t ticket) lapsed(now time.Time) bool {
	return now.After(t.back.Add(longestPause)) || t.since.After(now)
}

// older reports whether a has waited longer than b.
func older(a, b ticket) bool { return a.since.Before(b.since) }

// likelier reports whether there is more to hope for from a, or it has waited longer.
func likelier(a, b ticket) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return older(a, b)
}

// next is how it is told who is served first. Every other place goes to whoever has waited
// longest, so that nobody waits for ever.
func (p *places) next() func(a, b ticket) bool {
	if p.given%2 == 0 {
		return likelier
	}
	return older
}

// ahead are the other clusters that come before the ticket.
func (p *places) ahead(kafka types.UID, of ticket, first func(a, b ticket) bool) []ticket {
	var ahead []ticket
	for other, t := range p.waiting {
		if other != kafka && first(t, of) {
			ahead = append(ahead, t)
		}
	}
	return ahead
}

// take takes a place unless all are taken, or kept for clusters whose turn comes first.
func (p *places) take(kafka types.UID, of rank, now time.Time) bool {
	maps.DeleteFunc(p.waiting, func(_ types.UID, t ticket) bool { return t.lapsed(now) })
	own, again := p.waiting[kafka]
	if !again {
		own.since = now
	}
	own.rank = of
	kept := 0
	for _, t := range p.ahead(kafka, own, p.next()) {
		if t.expected(now) {
			kept++
		}
	}
	if p.taken+kept < p.room {
		delete(p.waiting, kafka)
		p.taken++
		p.given++
		return true
	}
	own.back = now.Add(p.turn(kafka, own))
	p.waiting[kafka] = own
	return false
}

// turn is about how long it takes until a place is free for the cluster: its ticket is
// served by what there is to hope for, or by its age, whichever comes first.
func (p *places) turn(kafka types.UID, of ticket) time.Duration {
	ahead := min(len(p.ahead(kafka, of, likelier)), len(p.ahead(kafka, of, older)))
	return min(max(agentTimeout*time.Duration(ahead)/time.Duration(p.room), shortestPause), longestPause)
}

func (p *places) leave() { p.taken-- }

// giveUp drops the ticket of a cluster that needs no place any more.
func (p *places) giveUp(kafka types.UID) { delete(p.waiting, kafka) }
