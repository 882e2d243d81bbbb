package podset

import (
	"slices"

	"github.com/keyturn/keyturn/internal/excerpt"
)

// Refusals gathers why pods are not made, and what can be done about it. Pods that are
// refused for the same are named together, and what can be done is said once: a set may
// have as many pods as it likes, and its status takes 32 KiB.
type Refusals struct {
	remedies []remedied
}

// remedied are the reasons that the same is to be done about.
type remedied struct {
	remedy  string
	reasons []reason
}

// reason is one why pods are refused.
type reason struct {
	why  string
	pods []string
}

// How much is kept of one reason, and of the names of its pods. Other clients may have written either.
const (
	shownReason = excerpt.Foreign
	shownPods   = excerpt.Foreign
)

// Add notes that a pod is not made. Why continues a sentence that begins with the pod,
// like "is none of ours".
func (r *Refusals) Add(pod, why, remedy string) {
	at := slices.IndexFunc(r.remedies, func(m remedied) bool { return m.remedy == remedy })
	if at < 0 {
		at = len(r.remedies)
		r.remedies = append(r.remedies, remedied{remedy: remedy})
	}
	r.remedies[at].add(pod, excerpt.Of(why, shownReason))
}

func (m *remedied) add(pod, why string) {
	at := slices.IndexFunc(m.reasons, func(of reason) bool { return of.why == why })
	if at < 0 {
		at = len(m.reasons)
		m.reasons = append(m.reasons, reason{why: why})
	}
	m.reasons[at].pods = append(m.reasons[at].pods, pod)
}

// Sentences are the refusals for people, one sentence for each remedy.
func (r *Refusals) Sentences() []string {
	sentences := make([]string, 0, len(r.remedies))
	for i := range r.remedies {
		sentences = append(sentences, r.remedies[i].sentence())
	}
	return sentences
}

func (m *remedied) sentence() string {
	reasons := make([]string, 0, len(m.reasons))
	for _, of := range m.reasons {
		reasons = append(reasons, of.sentence())
	}
	sentence := excerpt.List(reasons, "; ", excerpt.Listed)
	if m.remedy == "" {
		return sentence
	}
	return sentence + ": " + m.remedy
}

func (of reason) sentence() string {
	names := excerpt.List(of.pods, ", ", shownPods)
	if len(of.pods) == 1 {
		return "pod " + names + " " + of.why
	}
	return "pods " + names + ": each " + of.why
}
