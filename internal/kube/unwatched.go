package kube

import "time"

// Unwatched is how soon the operator looks again at an object about which it receives no events. Such an
// object has no label by which it is watched, or belongs to another owner and is in the way.
const Unwatched = 30 * time.Second
