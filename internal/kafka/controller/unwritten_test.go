package controller

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestOneFailureStopsOthersOnlyWhereThePassEnds(t *testing.T) {
	for name, c := range map[string]struct {
		failure error
		done    []int
	}{
		"a node's own object": {failure: errors.New("denied"), done: []int{0, 1, 2}},
		"a lost race":         {failure: fmt.Errorf("writing: %w", errOvertaken), done: []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var done []int
			err := each(t.Context(), []int{0, 1, 2}, func(node int) error {
				done = append(done, node)
				if node == 1 {
					return c.failure
				}
				return nil
			})
			if !slices.Equal(done, c.done) || !errors.Is(err, c.failure) {
				t.Errorf("each() did %v and returned %v, want %v and %v", done, err, c.done, c.failure)
			}
		})
	}
}

func TestRestartsAreHeldOnlyForWhatAllNodesNeed(t *testing.T) {
	own, shared := errors.New("the Secret of a node"), &sharedError{errors.New("the Secret of the CA")}
	for name, c := range map[string]struct {
		left  error
		holds bool
	}{
		"nothing":             {left: nil, holds: false},
		"one node's":          {left: together(own), holds: false},
		"what all need":       {left: together(shared), holds: true},
		"what all need, last": {left: together(own, nil, together(own, shared)), holds: true},
		"a lost race":         {left: together(own, errOvertaken), holds: true},
	} {
		t.Run(name, func(t *testing.T) {
			if holds := holdsRestarts(t.Context(), c.left); holds != c.holds {
				t.Errorf("holdsRestarts(%v) = %v, want %v", c.left, holds, c.holds)
			}
		})
	}
}
