package apitest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// Of what is tried at every write and in every state one in twelve is played, another one
// each time, unless time does not matter.

var (
	wide = flag.Bool("wide", false, "play everything: every write, every loss, and rotations that take minutes, too")
	seed = flag.Uint64("seed", 0, "which of the crashes and of the losses are played, one in twelve; 0 leaves it to chance")
)

// sampled is of how many one is played.
const sampled = 12

// chosen is the seed of this run.
var chosen = sync.OnceValue(func() uint64 {
	if *seed != 0 {
		return *seed
	}
	return rand.Uint64()
})

// isPlayed reports whether one of many is played.
func isPlayed(one string) bool {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", chosen(), one)
	return *wide || h.Sum64()%sampled == 0
}

// oneOf is one of the scenarios, another one each time, unless time does not matter: then it is all.
func oneOf(scenarios map[string]crashScenario) map[string]crashScenario {
	if *wide {
		return scenarios
	}
	names := slices.Sorted(maps.Keys(scenarios))
	name := names[chosen()%uint64(len(names))]
	return map[string]crashScenario{name: scenarios[name]}
}
