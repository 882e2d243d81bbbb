package admin

import (
	"encoding/binary"
	"fmt"
	"net"
)

// What is read of one answer has a limit, because reading makes room for every element that an
// answer announces: a list of partitions that ends after its length takes more than 200 bytes of
// memory for each byte that was sent.
const (
	// pageBytes is enough for a page of partitions, or of settings of topics: see pageSize.
	pageBytes = 128 << 10
	// brokerBytes is more than a broker takes where all of them are listed: a host of up to 255
	// bytes, a rack of up to 63, and less than 20 for all else. What remains is for brokers that
	// are gone and still registered.
	brokerBytes = 512
	// maxAnswer is what twice as many brokers take as a cluster is given, so that no answer
	// is longer.
	maxAnswer = 1 << 20
	// quorumBytes is enough for a quorum of 256 nodes, replicaBytes is twice what one takes.
	quorumBytes  = 16 << 10
	replicaBytes = 64
)

// UsersAnswer is a limit for clients that describe users: all ACLs come in one answer, and one takes
// some 60 bytes, so these are more than 100,000.
const UsersAnswer = 8 << 20

// TopicsAnswer is a limit for clients that describe topics: the properties of pageSize topics come in one answer, and have
// 8 KiB each, four times as much as they take.
const TopicsAnswer = 2 << 20

// brokerLimit is the length of the longest answer of a broker that is read, in bytes: that of a
// page, or in a cluster of more than 256 brokers that of the list of them. All else that they are
// asked takes less than two kilobytes, or less than a page where they answer for the quorum.
func (o Options) brokerLimit() int {
	if o.AnswerLimit > 0 {
		return int(o.AnswerLimit)
	}
	return min(max(pageBytes, len(o.Brokers)*brokerBytes), maxAnswer)
}

// controllerLimit is the length of the longest answer of a controller that is read, in bytes:
// controllers describe the quorum and nothing else.
func (o Options) controllerLimit() int {
	return max(quorumBytes, (len(o.Brokers)+len(o.Controllers))*replicaBytes)
}

// LongAnswerError says that a node announces an answer that is longer than any that was asked for.
type LongAnswerError struct {
	// Address is who answers so.
	Address string
	// Bytes are what is announced, Limit what is read at most.
	Bytes, Limit int
}

func (e *LongAnswerError) Error() string {
	return fmt.Sprintf("%s announces an answer of %d bytes, and %d are read at most: "+
		"that is enough for what a Kafka of this size has to say, so look at what answers there", e.Address, e.Bytes, e.Limit)
}

// bounded is a connection on which each answer is preceded by its length, and that ends before
// one that is too long. It has one reader.
type bounded struct {
	net.Conn

	address string
	limit   int
	// head is what has come of the next length, left what is still to come of an answer.
	head []byte
	left int
	long error
}

func bound(conn net.Conn, address string, limit int) *bounded {
	return &bounded{Conn: conn, address: address, limit: limit, head: make([]byte, 0, 4)}
}

// Read reads what belongs to answers that are short enough, or else is a LongAnswerError.
func (b *bounded) Read(into []byte) (int, error) {
	if b.long != nil {
		return 0, b.long
	}
	n, err := b.Conn.Read(into)
	if b.long = b.follow(into[:n]); b.long != nil {
		return 0, b.long
	}
	return n, err
}

// follow finds the lengths in what was read.
func (b *bounded) follow(data []byte) error {
	for len(data) > 0 {
		if b.left > 0 {
			n := min(b.left, len(data))
			b.left, data = b.left-n, data[n:]
			continue
		}
		n := min(cap(b.head)-len(b.head), len(data))
		b.head, data = append(b.head, data[:n]...), data[n:]
		if len(b.head) < cap(b.head) {
			return nil
		}
		length := binary.BigEndian.Uint32(b.head)
		if int64(length) > int64(b.limit) {
			return &LongAnswerError{Address: b.address, Bytes: int(length), Limit: b.limit}
		}
		b.head, b.left = b.head[:0], int(length)
	}
	return nil
}
