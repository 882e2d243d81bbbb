package model

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNodeIDRanges(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		text string
		want []NodeID
	}{
		"one id":               {"[7]", []NodeID{7}},
		"a range and an id":    {"[0-3,50]", []NodeID{0, 1, 2, 3, 50}},
		"a range downwards":    {"[9-5]", []NodeID{9, 8, 7, 6, 5}},
		"blanks":               {" [ 1 - 2 , 3 ] ", []NodeID{1, 2, 3}},
		"an id named twice":    {"[1,1,0-2]", []NodeID{1, 0, 2}},
		"the highest id":       {"[2147483647]", []NodeID{2147483647}},
		"the highest id range": {"[2147483646-2147483647]", []NodeID{2147483646, 2147483647}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseNodeIDRange(test.text)
			must(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

func TestBrokenNodeIDRanges(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no brackets":        "1-3",
		"one bracket":        "[1-3",
		"empty":              "[]",
		"an empty part":      "[1,,2]",
		"no end":             "[1-]",
		"a negative id":      "[-1]",
		"an id too high":     "[2147483648]",
		"words":              "[all]",
		"a range too long":   "[0-2147483647]",
		"many ranges":        "[0-9000,10000-19000]",
		"a range of a range": "[1-2-3]",
		"a range repeated":   "[" + strings.Repeat("0-4999,", 30_000) + "1]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if ids, err := ParseNodeIDRange(text); !errors.Is(err, ErrNodeIDRange) {
				t.Errorf("%s gives %v, %v", text, ids, err)
			}
		})
	}
}

func FuzzParseNodeIDRange(f *testing.F) {
	for _, seed := range []string{"[0-9,50]", "[9-5]", "[", "[0-2147483647]", "[ 1 ]", "[1-2-3]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids, err := ParseNodeIDRange(text)
		if err != nil {
			if !errors.Is(err, ErrNodeIDRange) {
				t.Errorf("an error of another kind: %s", err)
			}
			return
		}
		if len(ids) == 0 || len(ids) > maxRangeIDs {
			t.Errorf("%q gives %d ids", text, len(ids))
		}
		sorted := sortedIDs(ids)
		if len(slices.Compact(sorted)) != len(ids) || sorted[0] < 0 {
			t.Errorf("%q gives %v", text, ids)
		}
	})
}

// Whatever is asked for, ids are unique over all pools, nobody loses an id they
// can keep, and each pool gets the number it asks for.
func FuzzAssignIDs(f *testing.F) {
	f.Add([]byte{3, 5, 1}, []byte{2, 9, 0}, uint8(0))
	f.Add([]byte{}, []byte{7}, uint8(12))
	f.Fuzz(func(t *testing.T, current, wanted []byte, prefer uint8) {
		used := map[NodeID]bool{}
		requests := []idRequest{}
		next := NodeID(0)
		for i, replicas := range wanted {
			request := idRequest{pool: string(rune('a' + i%26)), replicas: int(replicas % 20)}
			if i >= 26 {
				return
			}
			if i < len(current) {
				for range current[i] % 20 {
					request.current = append(request.current, next)
					used[next] = true
					next += NodeID(1 + current[i]%3)
				}
			}
			request.next = expandRange(NodeID(prefer), NodeID(prefer/2))
			request.remove = request.next
			requests = append(requests, request)
		}
		seen := map[NodeID]bool{}
		answers := assignIDs(requests, nil)
		for _, request := range requests {
			checkAssignment(t, request, answers[request.pool], seen)
		}
	})
}

func checkAssignment(t *testing.T, request idRequest, answer idAssignment, seen map[NodeID]bool) {
	t.Helper()
	if len(answer.desired) != request.replicas || !slices.IsSorted(answer.desired) {
		t.Errorf("%+v gives %+v", request, answer)
	}
	for _, id := range append(slices.Clone(answer.desired), answer.leaving...) {
		if seen[id] {
			t.Errorf("id %d is given twice", id)
		}
		seen[id] = true
	}
	kept := 0
	for _, id := range request.current {
		if slices.Contains(answer.desired, id) {
			kept++
		}
	}
	if kept != min(len(request.current), request.replicas) || kept+len(answer.leaving) != len(request.current) {
		t.Errorf("%+v keeps %d: %+v", request, kept, answer)
	}
}
