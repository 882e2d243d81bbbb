package ledger_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/probe/ledger"
)

func start() time.Time { return time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC) }

func at(ms int) time.Time { return start().Add(time.Duration(ms) * time.Millisecond) }

// acked sends and acknowledges n records in one partition, one each 20 ms.
func acked(l *ledger.Ledger, n int) {
	for i := range n {
		seq := l.Sent(at(20 * i))
		l.Acknowledged(seq, 0, at(20*i+5))
	}
}

// counts are the numbers of an account that the table below compares.
type counts struct {
	Sent, Acknowledged, Failed, Consumed, Unread, Duplicated, OutOfOrder uint64
}

func countsOf(a ledger.Account) counts {
	return counts{a.Sent, a.Acknowledged, a.Failed, a.Consumed, a.Unread, a.Duplicated, a.OutOfOrder}
}

func TestAccountOfRecords(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		happens func(*ledger.Ledger)
		want    counts
	}{
		"everything sent is read back in order": {
			happens: func(l *ledger.Ledger) {
				acked(l, 3)
				for seq := range uint64(3) {
					l.Consumed(seq, 0)
				}
			},
			want: counts{Sent: 3, Acknowledged: 3, Consumed: 3},
		},
		"an acknowledged record that never comes is unread": {
			happens: func(l *ledger.Ledger) {
				acked(l, 3)
				l.Consumed(0, 0)
				l.Consumed(2, 0)
			},
			want: counts{Sent: 3, Acknowledged: 3, Consumed: 2, Unread: 1},
		},
		"a record that is read before its acknowledgement arrives is not unread": {
			happens: func(l *ledger.Ledger) {
				seq := l.Sent(at(0))
				l.Consumed(seq, 0)
				l.Acknowledged(seq, 0, at(5))
			},
			want: counts{Sent: 1, Acknowledged: 1, Consumed: 1},
		},
		"a record read twice is a duplicate, and not out of order": {
			happens: func(l *ledger.Ledger) {
				acked(l, 3)
				for _, seq := range []uint64{0, 1, 2, 1} {
					l.Consumed(seq, 0)
				}
			},
			want: counts{Sent: 3, Acknowledged: 3, Consumed: 3, Duplicated: 1},
		},
		"a record after a later one of its partition is out of order": {
			happens: func(l *ledger.Ledger) {
				acked(l, 3)
				for _, seq := range []uint64{0, 2, 1} {
					l.Consumed(seq, 0)
				}
			},
			want: counts{Sent: 3, Acknowledged: 3, Consumed: 3, OutOfOrder: 1},
		},
		"partitions have no order among each other": {
			happens: func(l *ledger.Ledger) {
				acked(l, 3)
				l.Consumed(2, 2)
				l.Consumed(1, 1)
				l.Consumed(0, 0)
			},
			want: counts{Sent: 3, Acknowledged: 3, Consumed: 3},
		},
		"a record that was given up is failed and not lost": {
			happens: func(l *ledger.Ledger) { l.Failed(l.Sent(at(0)), "timed out") },
			want:    counts{Sent: 1, Failed: 1},
		},
		"a record that was given up and is in the log all the same is no duplicate": {
			happens: func(l *ledger.Ledger) {
				seq := l.Sent(at(0))
				l.Failed(seq, "timed out")
				l.Consumed(seq, 0)
			},
			want: counts{Sent: 1, Failed: 1, Consumed: 1},
		},
		"one acknowledgement counts once, however often it is told": {
			happens: func(l *ledger.Ledger) {
				seq := l.Sent(at(0))
				l.Acknowledged(seq, 0, at(5))
				l.Acknowledged(seq, 0, at(6))
				l.Consumed(seq, 0)
			},
			want: counts{Sent: 1, Acknowledged: 1, Consumed: 1},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(start())
			c.happens(l)
			if diff := cmp.Diff(c.want, countsOf(l.Account())); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnreadRecordsAreNamed(t *testing.T) {
	t.Parallel()
	l := ledger.New(start())
	acked(l, 200)
	for seq := range uint64(200) {
		if seq != 7 && seq != 130 {
			l.Consumed(seq, 0)
		}
	}
	if diff := cmp.Diff([]uint64{7, 130}, l.Account().FirstUnread); diff != "" {
		t.Errorf("unread (-want +got):\n%s", diff)
	}
	if l.Pending() != 2 {
		t.Errorf("pending %d, want 2", l.Pending())
	}
}

func TestLongestGap(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		happens        func(*ledger.Ledger)
		all, partition ledger.Gap
	}{
		"the time before the first acknowledgement is none": {
			happens: func(l *ledger.Ledger) { l.Acknowledged(l.Sent(at(0)), 0, at(5000)) },
			all:     ledger.Gap{}, partition: ledger.Gap{},
		},
		"the longest of several, with its beginning": {
			happens: func(l *ledger.Ledger) {
				for _, ms := range []int{0, 20, 520, 540, 800} {
					l.Acknowledged(l.Sent(at(ms)), 0, at(ms))
				}
			},
			all:       ledger.Gap{From: at(20), Length: 500 * time.Millisecond},
			partition: ledger.Gap{From: at(20), Length: 500 * time.Millisecond},
		},
		"one partition stands still while the others go on": {
			happens: func(l *ledger.Ledger) {
				l.Acknowledged(l.Sent(at(0)), 1, at(0))
				for ms := 0; ms <= 900; ms += 100 {
					l.Acknowledged(l.Sent(at(ms)), 0, at(ms))
				}
				l.Acknowledged(l.Sent(at(1000)), 1, at(1000))
			},
			all:       ledger.Gap{From: at(0), Length: 100 * time.Millisecond},
			partition: ledger.Gap{From: at(0), Length: time.Second},
		},
		"records that are still under way at the end make one more gap": {
			happens: func(l *ledger.Ledger) {
				l.Acknowledged(l.Sent(at(0)), 0, at(0))
				l.Acknowledged(l.Sent(at(20)), 0, at(20))
				l.Sent(at(40))
				l.EndOfSending(at(2020))
			},
			all:       ledger.Gap{From: at(20), Length: 2 * time.Second},
			partition: ledger.Gap{From: at(0), Length: 20 * time.Millisecond},
		},
		"an end with nothing under way makes none": {
			happens: func(l *ledger.Ledger) {
				l.Acknowledged(l.Sent(at(0)), 0, at(0))
				l.EndOfSending(at(2000))
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(start())
			c.happens(l)
			account := l.Account()
			if diff := cmp.Diff([]ledger.Gap{c.all, c.partition}, []ledger.Gap{account.LongestGap, account.LongestPartitionGap}); diff != "" {
				t.Errorf("gaps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlowestAcknowledgement(t *testing.T) {
	t.Parallel()
	l := ledger.New(start())
	slow := l.Sent(at(0))
	l.Acknowledged(l.Sent(at(20)), 1, at(25))
	l.Acknowledged(slow, 0, at(700))
	if got := l.Account().SlowestAck; got != 700*time.Millisecond {
		t.Errorf("slowest acknowledgement took %s, want 700ms", got)
	}
}

func TestCountsAndGapsByPhase(t *testing.T) {
	t.Parallel()
	l := ledger.New(start())
	l.SetPhase("before")
	acked(l, 2)
	l.SetPhase("rotation")
	l.Acknowledged(l.Sent(at(320)), 0, at(325))
	l.Failed(l.Sent(at(340)), "timed out")
	want := map[string]ledger.Phase{
		"before": {
			Sent: 2, Acknowledged: 2,
			LongestGap:          ledger.Gap{From: at(5), Length: 20 * time.Millisecond},
			LongestPartitionGap: ledger.Gap{From: at(5), Length: 20 * time.Millisecond},
		},
		"rotation": {
			Sent: 2, Acknowledged: 1, Failed: 1,
			LongestGap:          ledger.Gap{From: at(25), Length: 300 * time.Millisecond},
			LongestPartitionGap: ledger.Gap{From: at(25), Length: 300 * time.Millisecond},
		},
	}
	if diff := cmp.Diff(want, l.Account().Phases); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestTimeLineCountsPerBucket(t *testing.T) {
	t.Parallel()
	l := ledger.New(start())
	for _, ms := range []int{0, 99, 100, 350} {
		l.Acknowledged(l.Sent(at(ms)), 0, at(ms))
	}
	want := ledger.Rate{Start: start(), Width: ledger.BucketWidth, Counts: []uint32{2, 1, 0, 1}}
	if diff := cmp.Diff(want, l.Acks()); diff != "" {
		t.Errorf("time line (-want +got):\n%s", diff)
	}
}

func TestTimeLineOfADayStaysSmall(t *testing.T) {
	t.Parallel()
	l := ledger.New(start())
	const minutes = 24 * 60
	for minute := range minutes {
		l.Acknowledged(l.Sent(at(minute*60_000)), 0, at(minute*60_000))
	}
	acks := l.Acks()
	if len(acks.Counts) > 72_000 {
		t.Errorf("the time line of a day has %d buckets", len(acks.Counts))
	}
	var sum uint32
	for _, count := range acks.Counts {
		sum += count
	}
	if sum != minutes {
		t.Errorf("%d acknowledgements are left of %d", sum, minutes)
	}
}

func TestReasonsOfFailedRecordsAreCountedAndBounded(t *testing.T) {
	t.Parallel()
	l := ledger.New(start())
	for i := range 100 {
		l.Failed(l.Sent(at(i)), "timed out")
		l.Failed(l.Sent(at(i)), strconv.Itoa(i))
	}
	account := l.Account()
	if account.Because["timed out"] != 100 || len(account.Because) > 20 || account.Failed != 200 {
		t.Errorf("%d failed, because %v", account.Failed, account.Because)
	}
}

func TestARecordThatALaterOneOfItsPartitionOvertookIsLost(t *testing.T) {
	t.Parallel()
	partitionOf := func(seq uint64) int32 { return [2]int32{0, 1}[seq%2] }
	tests := map[string]struct {
		acknowledged, consumed []uint64
		want                   uint64
	}{
		"nothing was read yet":               {acknowledged: []uint64{0, 1, 2}},
		"all was read":                       {acknowledged: []uint64{0, 1, 2, 3}, consumed: []uint64{0, 2, 1, 3}},
		"the last of a partition is unread":  {acknowledged: []uint64{0, 2, 4}, consumed: []uint64{0, 2}},
		"one in the middle is missing":       {acknowledged: []uint64{0, 2, 4}, consumed: []uint64{0, 4}, want: 1},
		"another partition is further":       {acknowledged: []uint64{0, 1, 3}, consumed: []uint64{1, 3}},
		"the missing one was never promised": {acknowledged: []uint64{0, 4}, consumed: []uint64{0, 4}},
		"it comes late":                      {acknowledged: []uint64{0, 2, 4}, consumed: []uint64{0, 4, 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger.New(start())
			for range 6 {
				l.Sent(at(0))
			}
			for _, seq := range test.acknowledged {
				l.Acknowledged(seq, partitionOf(seq), at(1))
			}
			for _, seq := range test.consumed {
				l.Consumed(seq, partitionOf(seq))
			}
			if got := l.Overtaken(partitionOf); got != test.want {
				t.Errorf("%d are lost, want %d", got, test.want)
			}
		})
	}
}
