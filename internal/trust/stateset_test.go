package trust

import "hash/maphash"

// stateSet is a set of states that remembers their order. It is a hash table of its own
// because a map keeps two copies of a value as large as a state, each in a place of its
// own, and worlds have millions of them.
type stateSet struct {
	list []reached
	// heads are the last states with each hash.
	heads map[uint64]int32
	seed  maphash.Seed
}

// reached is a state, the one from which it was reached first, and the one before it
// with the same hash.
type reached struct {
	state      state
	from, next int32
}

// nowhere is no state's place.
const nowhere = -1

func (x *stateSet) len() int { return len(x.list) }

func (x *stateSet) has(s *state) bool {
	return x.heads != nil && x.find(s, x.head(maphash.Comparable(x.seed, *s)))
}

// add adds a state unless it is there already.
func (x *stateSet) add(s state, from int32) {
	if x.heads == nil {
		x.heads, x.seed = map[uint64]int32{}, maphash.MakeSeed()
	}
	hash := maphash.Comparable(x.seed, s)
	head := x.head(hash)
	if x.find(&s, head) {
		return
	}
	x.heads[hash] = int32(len(x.list))
	x.list = append(x.list, reached{state: s, from: from, next: head})
}

func (x *stateSet) head(hash uint64) int32 {
	if at, found := x.heads[hash]; found {
		return at
	}
	return nowhere
}

func (x *stateSet) find(s *state, at int32) bool {
	for ; at != nowhere; at = x.list[at].next {
		if x.list[at].state == *s {
			return true
		}
	}
	return false
}
