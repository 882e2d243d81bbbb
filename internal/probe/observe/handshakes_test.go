package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/probe/verdict"
	"github.com/keyturn/keyturn/internal/report/timeline"
)

func TestTheTimeInWhichANodeWasNotTriedIsDrawnEmpty(t *testing.T) {
	t.Parallel()
	watch := Watch{Node: "node-0", Phases: map[string]Tally{}}
	for _, at := range []int{0, 1, 2, 40, 41} {
		watch.Add("", Span{From: second(at), To: second(at), Verdict: verdict.Accepted, Presented: Presented{Leaf: "aa", Issuer: "ca"}, Count: 1})
	}
	times := [][2]int{{0, 2}, {40, 41}}
	var seen []timeline.Seen
	var presents []timeline.Span
	for _, is := range times {
		seen = append(seen, timeline.Seen{From: second(is[0]), To: second(is[1]), Answer: timeline.Accepted})
		presents = append(presents, timeline.Span{From: second(is[0]), To: second(is[1]), Values: []string{"ca, key "}})
	}
	if diff := cmp.Diff([][]timeline.Seen{seen}, WatchRow("watch", []Watch{watch}).Lines); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(presents, watch.Presents()); diff != "" {
		t.Errorf("presents (-want +got):\n%s", diff)
	}
}
