package etcdload

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// History is what clients asked of keys and what they got. Each key is a register that is
// empty at first. It is safe for concurrent use.
type History struct {
	clock atomic.Int64

	mu         sync.Mutex
	operations map[string][]porcupine.Operation
}

// NewHistory has no operations.
func NewHistory() *History {
	return &History{operations: map[string][]porcupine.Operation{}}
}

// Moment orders what clients of a history do. No two are the same.
type Moment int64

// never is the end of an operation with an unknown outcome: it may take effect at any time.
const never Moment = math.MaxInt64

// Now is when an operation begins.
func (h *History) Now() Moment { return Moment(h.clock.Add(1)) }

// request is a read, or a write of a value.
type request struct {
	write bool
	value string
}

// Read records that a client read a value, which is empty where there is no key.
func (h *History) Read(client int, key, value string, begun Moment) {
	h.add(client, key, request{}, value, begun, h.Now())
}

// Wrote records an acknowledged write.
func (h *History) Wrote(client int, key, value string, begun Moment) {
	h.add(client, key, request{write: true, value: value}, "", begun, h.Now())
}

// MayHaveWritten records a write with an unknown outcome.
func (h *History) MayHaveWritten(client int, key, value string, begun Moment) {
	h.add(client, key, request{write: true, value: value}, "", begun, never)
}

func (h *History) add(client int, key string, asked request, got string, begun, ended Moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations[key] = append(h.operations[key], porcupine.Operation{
		ClientId: client, Input: asked, Output: got, Call: int64(begun), Return: int64(ended),
	})
}

// Keys are those of all operations, sorted.
func (h *History) Keys() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.operations))
}

// Check names the keys whose history no register has, and those for which the limit did not
// suffice to tell.
func (h *History) Check(limit time.Duration) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var problems []string
	for _, key := range slices.Sorted(maps.Keys(h.operations)) {
		operations := h.operations[key]
		if result := porcupine.CheckOperationsTimeout(register(), operations, limit); result != porcupine.Ok {
			problems = append(problems, fmt.Sprintf("the history of key %s with %d operations is %s, and must be %s", key, len(operations), result, porcupine.Ok))
		}
	}
	return problems
}

// register is a value that is written and read as a whole.
func register() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			asked, ok := input.(request)
			if !ok {
				return false, state
			}
			if asked.write {
				return true, asked.value
			}
			return output == state, state
		},
	}
}
