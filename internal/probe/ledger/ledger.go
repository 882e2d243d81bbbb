package ledger

import (
	"sync"
	"time"
)

// maxNamed bounds how many lost records, and reasons of failed ones, are named.
const maxNamed = 20

// Ledger is the account of one client. It is safe for concurrent use; its
// memory grows by two bits a record and by what is under way.
type Ledger struct {
	mu         sync.Mutex
	next       uint64
	underWay   map[uint64]time.Time
	acked      bits
	consumed   bits
	failed     map[uint64]struct{}
	because    map[string]uint64
	duplicated uint64
	outOfOrder uint64
	slowest    time.Duration
	newest     map[int32]uint64
	all        gauge
	partitions map[int32]*gauge
	rate       Rate
	phase      string
	phases     map[string]Phase
}

// New opens an account; start is the beginning of its time line.
func New(start time.Time) *Ledger {
	return &Ledger{
		underWay:   map[uint64]time.Time{},
		failed:     map[uint64]struct{}{},
		because:    map[string]uint64{},
		newest:     map[int32]uint64{},
		partitions: map[int32]*gauge{},
		phases:     map[string]Phase{},
		rate:       NewRate(start),
	}
}

// Sent gives out the next sequence number; they count from 0 without a hole.
func (l *Ledger) Sent(now time.Time) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := l.next
	l.next++
	l.underWay[seq] = now
	l.update(func(p *Phase) { p.Sent++ })
	return seq
}

// Acknowledged records that the broker promised to keep a record.
func (l *Ledger) Acknowledged(seq uint64, partition int32, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.acked.add(seq) {
		return
	}
	if sent, ok := l.underWay[seq]; ok {
		l.slowest = max(l.slowest, now.Sub(sent))
		delete(l.underWay, seq)
	}
	gap := l.all.tick(now)
	worst := l.partition(partition).tick(now)
	l.rate.Add(now)
	l.update(func(p *Phase) {
		p.Acknowledged++
		p.LongestGap = p.LongestGap.Longer(gap)
		p.LongestPartitionGap = p.LongestPartitionGap.Longer(worst)
	})
}

// Failed records that the client gave a record up. It may be in the log all the
// same; that is neither a loss nor a duplicate.
func (l *Ledger) Failed(seq uint64, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.underWay, seq)
	l.failed[seq] = struct{}{}
	if _, known := l.because[reason]; known || len(l.because) < maxNamed {
		l.because[reason]++
	}
	l.update(func(p *Phase) { p.Failed++ })
}

// Consumed records that a record was read back. A record read twice is a
// duplicate; one that comes after a later one of its partition is out of order.
func (l *Ledger) Consumed(seq uint64, partition int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.consumed.add(seq) {
		l.duplicated++
		return
	}
	if newest, ok := l.newest[partition]; ok && seq < newest {
		l.outOfOrder++
		return
	}
	l.newest[partition] = seq
}

// SetPhase names the time from now on; counts of one name add up.
func (l *Ledger) SetPhase(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = name
	l.update(func(*Phase) {})
}

// EndOfSending closes gaps that no acknowledgement will end: those of a client
// that still had records under way, to the last moment it was waiting.
func (l *Ledger) EndOfSending(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.underWay) == 0 && len(l.failed) == 0 {
		return
	}
	gap := l.all.open(now)
	l.all.longest = l.all.longest.Longer(gap)
	l.update(func(p *Phase) { p.LongestGap = p.LongestGap.Longer(gap) })
}

// Pending says how many acknowledged records were not read back yet.
func (l *Ledger) Pending() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, count := l.acked.without(&l.consumed, 0)
	return count
}

// Overtaken counts the acknowledged records that were not read back although a later
// one of their partition was: they are lost, however far the reader is. partitionOf is
// the partition that a sequence number was sent to.
func (l *Ledger) Overtaken(partitionOf func(seq uint64) int32) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var count uint64
	l.acked.visitWithout(&l.consumed, func(seq uint64) {
		if newest, ok := l.newest[partitionOf(seq)]; ok && seq < newest {
			count++
		}
	})
	return count
}

func (l *Ledger) partition(id int32) *gauge {
	g, ok := l.partitions[id]
	if !ok {
		g = &gauge{}
		l.partitions[id] = g
	}
	return g
}

func (l *Ledger) update(change func(*Phase)) {
	phase := l.phases[l.phase]
	change(&phase)
	l.phases[l.phase] = phase
}
