package rotation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/trust"
)

// work adds up what the stages of a course do to nodes, and how long they take.
type work struct {
	record Record
	start  trust.Snapshot
	counts map[trust.MemberID]*NodeWork
	// duration is the time of all stages so far that the rotation waits for, remainder that of the others.
	duration, remainder Seconds
	// announced is when applications were given the new anchor, counted from the
	// beginning: before it, if that has been.
	announced Seconds
	// later is true once there were restarts that the rotation does not wait for.
	later bool
	// switched is when the first node presents a leaf of the new authority, counted
	// from the beginning; negative while none does.
	switched Seconds
	// turned is when the last node does, counted likewise; negative while some do not.
	turned Seconds
	// restarts and reloads say that there are any.
	restarts, reloads bool
}

func newWork(r Record, s trust.Snapshot) *work {
	w := &work{record: r, start: s, counts: map[trust.MemberID]*NodeWork{}, switched: -1, turned: -1}
	w.announced = Seconds(min(0, s.Application.Since.Sub(s.Now).Seconds()))
	for _, m := range s.Members {
		if m.Kind == trust.Node || m.Kind == trust.Companion {
			w.counts[m.ID] = &NodeWork{Node: m.ID}
		}
	}
	return w
}

func (w *work) nodes() []NodeWork {
	var out []NodeWork
	for _, m := range w.start.Members {
		if count, found := w.counts[m.ID]; found && (count.Reloads > 0 || count.Restarts > 0 || count.Later > 0) {
			out = append(out, *count)
		}
	}
	return out
}

func (w *work) unmeasured() []string {
	var out []string
	if w.reloads && w.record.ReloadSeconds == 0 {
		out = append(out, "reloads")
	}
	if w.restarts && w.record.RestartSeconds == 0 {
		out = append(out, "restarts")
	}
	return out
}

// stage puts one stage into words and adds it up. Reloads of one stage run side by
// side, restarts one after the other.
func (w *work) stage(in trust.Stage) Stage {
	out := Stage{After: Waiting(in.After, w.start.Members), Steps: make([]Step, 0, len(in.Steps)), Duration: w.wait(in)}
	reload, aside := 0.0, true
	for _, step := range in.Steps {
		out.Steps = append(out.Steps, Step{
			Kind: step.Kind, Text: w.words(step), Anchor: step.Anchor, Members: step.Members, How: step.How, Reason: step.Reason,
		})
		aside = aside && step.MayBeDeferred
		w.count(step)
		w.mark(step, out.Duration)
		switch {
		case step.Kind != trust.Loading:
		case step.How == trust.ByRestart:
			w.restarts = true
			out.Duration += Seconds(w.record.RestartSeconds * float64(len(step.Members)))
		default:
			w.reloads = true
			reload = w.record.ReloadSeconds
		}
	}
	out.Duration = tenths(float64(out.Duration) + reload)
	w.later = w.later || aside
	out.Remainder = w.later
	if out.Remainder {
		w.remainder = tenths(float64(w.remainder + out.Duration))
	} else {
		w.duration = tenths(float64(w.duration + out.Duration))
	}
	return out
}

// wait is how long applications still get before a stage.
func (w *work) wait(in trust.Stage) Seconds {
	reading := slices.ContainsFunc(in.After, func(b trust.Blocker) bool {
		return b.Guard == trust.GuardApplications && in.Strategy.Kind == trust.Classic || b.Guard == trust.GuardCrossUnneeded
	})
	if !reading {
		return 0
	}
	return max(0, w.announced+Seconds(w.start.Policy.Lead.Seconds())-w.duration)
}

// mark remembers when the things happen that clients notice.
func (w *work) mark(step trust.Step, soFar Seconds) {
	switch {
	case step.Anchor != w.start.Issuing:
	case step.Kind == trust.Announce || step.Kind == trust.Lead:
		w.announced = w.duration + soFar
	case step.Kind == trust.SwitchLeaves && w.switched < 0:
		w.switched = w.duration + soFar
	case step.Kind == trust.Store && step.State == trust.InUseAll:
		w.turned = w.duration
	}
}

func (w *work) count(step trust.Step) {
	for _, id := range step.Members {
		count, found := w.counts[id]
		switch {
		case !found || step.Kind != trust.Loading:
		case step.MayBeDeferred:
			count.Later++
		case step.How == trust.ByRestart:
			count.Restarts++
		default:
			count.Reloads++
		}
	}
}

// words says what a step does.
func (w *work) words(step trust.Step) string {
	anchor := Label(step.Anchor, w.record.Anchors)
	who := listed(step.Members)
	switch step.Kind {
	case trust.Store, trust.Announce, trust.Lead, trust.Retire:
		return bundleWords(step, anchor)
	case trust.Distribute:
		return fmt.Sprintf("publish trust in %s to %s", anchor, who)
	case trust.SwitchLeaves:
		return fmt.Sprintf("publish leaves of %s to %s", anchor, who)
	case trust.TurnOperator:
		return "the operator presents a certificate of " + anchor
	case trust.TakeOffCross:
		return fmt.Sprintf("%s %s presenting the cross certificate by %s", who, excerpt.Numbered(len(step.Members), "stops", "stop"), anchor)
	case trust.Withdraw:
		return fmt.Sprintf("withdraw %s from the %s of %s", anchor, w.record.Words.Listeners(step.Bundle), who)
	case trust.Loading:
		return w.loading(step, who)
	default:
		return string(step.Kind)
	}
}

// bundleWords says what becomes of an anchor in the trusted-certs Secret and in the
// application bundle.
func bundleWords(step trust.Step, anchor string) string {
	switch {
	case step.Kind == trust.Announce:
		return anchor + " enters ca.crt"
	case step.Kind == trust.Lead:
		return anchor + " becomes the first entry of ca.crt"
	case step.Kind == trust.Retire:
		return anchor + " leaves ca.crt"
	case step.State == trust.Absent:
		return anchor + " leaves the trusted-certs Secret"
	case step.State == trust.Untrusted:
		return fmt.Sprintf("%s enters the trusted-certs Secret as %s", anchor, step.State)
	default:
		return fmt.Sprintf("%s becomes %s", anchor, step.State)
	}
}

func (w *work) loading(step trust.Step, who string) string {
	switch step.How {
	case trust.ByReload:
		return fmt.Sprintf("reload the %s of %s", w.planes(step.Planes), who)
	case trust.ByRestart:
		return "restart one by one " + who
	default:
		return "delete the persisted settings of " + who
	}
}

// planes are what belongs to these planes.
func (w *work) planes(list []trust.Plane) string {
	parts := make([]string, 0, len(list))
	for _, plane := range list {
		parts = append(parts, w.record.Words.parts(func(p trust.Plane) bool { return p == plane }))
	}
	return strings.Join(parts, " and ")
}

// maxListed is how many members a step names; the rest is counted.
const maxListed = 6

func listed(members []trust.MemberID) string {
	names := make([]string, 0, len(members))
	for _, id := range members {
		names = append(names, string(id))
	}
	return shortened(names, maxListed)
}
