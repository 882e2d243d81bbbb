package ledger

import (
	"maps"
	"time"
)

// Phase is what happened while the probe was in one named phase. A gap belongs
// to the phase in which it ended.
type Phase struct {
	Sent                uint64 `json:"sent"`
	Acknowledged        uint64 `json:"acknowledged"`
	Failed              uint64 `json:"failed"`
	LongestGap          Gap    `json:"longestGap"`
	LongestPartitionGap Gap    `json:"longestPartitionGap"`
}

// Account is the state of a ledger at one moment.
type Account struct {
	// Sent = Acknowledged + Failed + what is under way.
	Sent         uint64 `json:"sent"`
	Acknowledged uint64 `json:"acknowledged"`
	// Failed were given up by the client, for good.
	Failed uint64 `json:"failed"`
	// Because counts the failed ones by the client's own words.
	Because  map[string]uint64 `json:"because,omitempty"`
	Consumed uint64            `json:"consumed"`
	// Unread were acknowledged and not read back. At the end of a log that was
	// read to its end, these are the lost ones.
	Unread uint64 `json:"unread"`
	// FirstUnread names some of them by sequence number, in order.
	FirstUnread []uint64 `json:"firstUnread,omitempty"`
	Duplicated  uint64   `json:"duplicated"`
	OutOfOrder  uint64   `json:"outOfOrder"`
	// LongestGap is the longest time between two acknowledgements of the client,
	// LongestPartitionGap that of its worst partition. A client that writes to
	// many partitions hides in the first what the second shows.
	LongestGap          Gap `json:"longestGap"`
	LongestPartitionGap Gap `json:"longestPartitionGap"`
	// SlowestAck is the longest wait for one record's acknowledgement.
	SlowestAck time.Duration    `json:"slowestAck"`
	Phases     map[string]Phase `json:"phases"`
	// Acks is the time line of acknowledgements.
	Acks Rate `json:"acks"`
}

// Account returns a copy of the account without its time line, which is large.
func (l *Ledger) Account() Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	unread, count := l.acked.without(&l.consumed, maxNamed)
	account := Account{
		Sent:         l.next,
		Acknowledged: l.acked.count,
		Failed:       uint64(len(l.failed)),
		Because:      maps.Clone(l.because),
		Consumed:     l.consumed.count,
		Unread:       count,
		FirstUnread:  unread,
		Duplicated:   l.duplicated,
		OutOfOrder:   l.outOfOrder,
		LongestGap:   l.all.longest,
		SlowestAck:   l.slowest,
		Phases:       maps.Clone(l.phases),
	}
	for _, gauge := range l.partitions {
		account.LongestPartitionGap = account.LongestPartitionGap.Longer(gauge.longest)
	}
	return account
}

// Acks returns a copy of the time line of acknowledgements.
func (l *Ledger) Acks() Rate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rate.clone()
}
