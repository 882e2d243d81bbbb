package kube

import "time"

// Unwatched is how soon something is looked at again of which nobody tells what becomes
// of it: an object that carries no label by which it is watched, or somebody else's that
// is in the way.
const Unwatched = 30 * time.Second
