package timeline

import "time"

// Timeline is all that the picture shows. Rows keep their order.
type Timeline struct {
	Title string
	// Verdict is the one sentence a reader takes away.
	Verdict string
	Ok      bool
	Start   time.Time
	End     time.Time
	Marks   []Mark
	Nodes   []Node
	Clients []Client
	Watches []Watch
	// Counted is what clients count, for example "records", and Failure what a moment in their
	// Failures was, for example "TLS failure".
	Counted, Failure string
}

// Mark is a moment that concerns everything, such as the begin of a phase.
type Mark struct {
	At   time.Time
	Text string
}

// Node is the row of one node.
type Node struct {
	Name string
	// Note stands at the end of the row, for example "1 restart".
	Note string
	// Bands are drawn one below the other, for example what the node trusts above
	// what it presents.
	Bands []Band
	// States say when the node was there, and ready.
	States []State
}

// Band is one aspect of a node over time.
type Band struct {
	// Label of the band, for example "presents".
	Label string
	Spans []Span
}

// Span is a time in which a band held the same values. A value has one colour,
// everywhere in the picture, and is named in the legend; several values share
// the height of the band; none is a gap.
type Span struct {
	From   time.Time
	To     time.Time
	Values []string
}

// State is a time in which a node was in one condition.
type State struct {
	From time.Time
	To   time.Time
	// Condition of the node.
	Condition Condition
}

// Condition of a node.
type Condition string

// The conditions.
const (
	Ready    Condition = "ready"
	NotReady Condition = "not ready"
	Down     Condition = "down"
)

// Client is the row of one kind of client.
type Client struct {
	Name string
	// Note stands at the end of the row, for example "3,000 sent · 0 lost".
	Note string
	Ok   bool
	// Width of a bucket, and the events in each from Start on.
	Width  time.Duration
	Counts []uint32
	// Failures are moments in which something failed, as Timeline.Failure says.
	Failures []time.Time
	// Gap is the longest time without an event; its text is written to it.
	GapFrom time.Time
	GapTo   time.Time
	GapText string
}

// Watch is the row of one watcher: a line per node.
type Watch struct {
	Name string
	// Note stands at the end of the row, for example "180 accepted".
	Note  string
	Ok    bool
	Lines [][]Seen
}

// Seen is a time in which a node answered a watcher in one way.
type Seen struct {
	From   time.Time
	To     time.Time
	Answer Answer
}

// Answer of a node to a watcher.
type Answer string

// The answers.
const (
	Accepted   Answer = "accepted"
	Refused    Answer = "refused"
	Unanswered Answer = "no answer"
)
