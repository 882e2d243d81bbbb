package model

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxRangeIDs bounds how many ids one annotation may name, each as often as it does, so that a typing
// error such as [0-2147483647] cannot fill the memory of the operator.
const maxRangeIDs = 10_000

// ErrNodeIDRange is wrapped by every error of ParseNodeIDRange.
var ErrNodeIDRange = errors.New("not a list of node ids such as [0-9,50]")

// ParseNodeIDRange reads the value of the annotations strimzi.io/next-node-ids
// and strimzi.io/remove-node-ids: ids and ranges in brackets, in the order in
// which they are to be used. A range may run downwards, as in [9-5]. An id that
// is named twice counts once.
func ParseNodeIDRange(text string) ([]NodeID, error) {
	trimmed := strings.TrimSpace(text)
	inner, opened := strings.CutPrefix(trimmed, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !opened || !closed {
		return nil, fmt.Errorf("parsing node ids %q: brackets are missing: %w", text, ErrNodeIDRange)
	}
	ids := []NodeID{}
	seen := map[NodeID]bool{}
	named := 0
	for part := range strings.SplitSeq(inner, ",") {
		first, last, err := parseIDPart(part)
		if err != nil {
			return nil, fmt.Errorf("parsing node ids %q: %w", text, err)
		}
		if named += distance(first, last) + 1; named > maxRangeIDs {
			return nil, fmt.Errorf("parsing node ids %q: more than %d ids: %w", text, maxRangeIDs, ErrNodeIDRange)
		}
		for _, id := range expandRange(first, last) {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

func parseIDPart(part string) (first, last NodeID, err error) {
	from, to, isRange := strings.Cut(part, "-")
	first, err = parseID(from)
	if err != nil {
		return 0, 0, err
	}
	if !isRange {
		return first, first, nil
	}
	last, err = parseID(to)
	if err != nil {
		return 0, 0, err
	}
	return first, last, nil
}

func parseID(text string) (NodeID, error) {
	value, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%q is no node id: %w", text, ErrNodeIDRange)
	}
	return NodeID(value), nil
}

func distance(first, last NodeID) int {
	if first > last {
		return int(first) - int(last)
	}
	return int(last) - int(first)
}

func expandRange(first, last NodeID) []NodeID {
	ids := make([]NodeID, 0, distance(first, last)+1)
	step := NodeID(1)
	if first > last {
		step = -1
	}
	for id := first; id != last; id += step {
		ids = append(ids, id)
	}
	return append(ids, last)
}

// idRequest is what one pool asks of the assignment.
type idRequest struct {
	pool     string
	current  []NodeID
	replicas int
	// next and remove are the ids that the user prefers, in this order.
	next, remove []NodeID
}

// idAssignment is the answer: ids to have and ids to leave, both ascending.
type idAssignment struct {
	desired, leaving []NodeID
}

// idHolders say which pools hold an id. A pool may be given what it alone holds.
type idHolders map[NodeID]map[string]bool

func (h idHolders) add(pool string, ids ...NodeID) {
	for _, id := range ids {
		if h[id] == nil {
			h[id] = map[string]bool{}
		}
		h[id][pool] = true
	}
}

// free reports whether no other pool holds the id.
func (h idHolders) free(id NodeID, pool string) bool {
	return len(h[id]) == 0 || len(h[id]) == 1 && h[id][pool]
}

// assignIDs gives every pool its ids as Strimzi's NodeIdAssignor does: an id
// belongs to one pool, new ids are the preferred ones and then the lowest free
// ones, ids leave in the preferred order and then from the highest. An id that
// leaves is not given away in the same pass, and one that others hold never.
func assignIDs(requests []idRequest, others idHolders) map[string]idAssignment {
	used := map[NodeID]bool{}
	for _, request := range requests {
		for _, id := range request.current {
			used[id] = true
		}
	}
	assignments := make(map[string]idAssignment, len(requests))
	for _, request := range requests {
		if len(request.current) > request.replicas {
			assignments[request.pool] = removeIDs(request)
			continue
		}
		assignments[request.pool] = addIDs(request, func(id NodeID) bool { return !used[id] && others.free(id, request.pool) }, used)
	}
	return assignments
}

func addIDs(request idRequest, free func(NodeID) bool, used map[NodeID]bool) idAssignment {
	desired := slices.Clone(request.current)
	take := func(id NodeID) {
		used[id] = true
		desired = append(desired, id)
	}
	for _, id := range request.next {
		if len(desired) < request.replicas && free(id) {
			take(id)
		}
	}
	for id := NodeID(0); len(desired) < request.replicas; id++ {
		if free(id) {
			take(id)
		}
	}
	slices.Sort(desired)
	return idAssignment{desired: desired}
}

func removeIDs(request idRequest) idAssignment {
	desired := slices.Clone(request.current)
	slices.Sort(desired)
	leaving := []NodeID{}
	for _, id := range request.remove {
		if at := slices.Index(desired, id); at >= 0 && len(desired) > request.replicas {
			desired = slices.Delete(desired, at, at+1)
			leaving = append(leaving, id)
		}
	}
	leaving = append(leaving, desired[request.replicas:]...)
	desired = desired[:request.replicas]
	slices.Sort(leaving)
	return idAssignment{desired: desired, leaving: leaving}
}
