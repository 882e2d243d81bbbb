package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/mtls"
	"github.com/keyturn/keyturn/internal/kafka/admin/wire"
)

// attempts is how many connections a question may be put on. The operator looks again by
// itself, so that more would only hide from it what is going on.
const attempts = 3

// headStart is how long one broker is waited for before the next is tried beside it.
const headStart = 250 * time.Millisecond

// kind is what the answer to a request has to be.
type kind[T any] interface {
	*T
	kmsg.Response
}

// ask puts a request on a session and reads an answer of at most so many bytes.
func ask[T any, R kind[T]](ctx context.Context, session *wire.Conn, req kmsg.Request, bytes int) (R, error) {
	answer, err := session.RequestWithin(ctx, req, bytes)
	if err != nil {
		return nil, err
	}
	resp, is := answer.(R)
	if !is {
		return nil, fmt.Errorf("%T: %w", answer, errAnswer)
	}
	return resp, nil
}

// toBroker connects to a broker that answers, and asks it. Whoever cannot be asked, or
// ends the connection, leaves it to another; what else is said is the answer.
func (k *Kafka) toBroker(ctx context.Context, doing string, question func(*wire.Conn) error) error {
	order, failure := k.inTurn(), error(nil)
	for range attempts {
		r := k.reach(ctx, order)
		err := r.err
		if err == nil {
			session := wire.New(r.conn, clientID)
			err = refusal(r.address, question(session))
			_ = session.Close() // what was asked has been answered, or has failed
		}
		if failure == nil || err == nil {
			failure = err
		}
		if !isOfConnection(err) || ctx.Err() != nil || r.conn == nil {
			break
		}
		order = append(order[r.turn+1:len(order):len(order)], order[:r.turn+1]...)
	}
	if failure != nil {
		return fmt.Errorf("%s: %w", doing, failure)
	}
	return nil
}

// refusal gives an error of an exchange with a broker its type.
func refusal(address string, err error) error {
	kafka, says := errors.AsType[*kerr.Error](err)
	switch {
	case says && isRefusal(kafka):
		return &RefusedError{Address: address, Err: kafka}
	case errors.Is(err, io.EOF):
		// With TLS 1.3 some servers end a connection they refuse without a word.
		return &RefusedError{Address: address, Err: err}
	default:
		return mtls.Classify(address, err)
	}
}

// isOfConnection reports whether another broker may still answer.
func isOfConnection(err error) bool {
	_, unreachable := errors.AsType[*UnreachableError](err)
	refused, is := errors.AsType[*RefusedError](err)
	return unreachable || is && errors.Is(refused.Err, io.EOF)
}

// inTurn are the addresses of the brokers. Another one comes first each second, so that
// nobody who is always the first to be asked can keep the operator from the others.
func (k *Kafka) inTurn() []string {
	brokers := k.options.Brokers
	first := int(uint64(k.options.Now().Unix()) % uint64(len(brokers)))
	return append(brokers[first:len(brokers):len(brokers)], brokers[:first]...)
}

// reached is one attempt to connect.
type reached struct {
	turn    int
	address string
	conn    net.Conn
	err     error
}

// reach connects to the first in the order who lets it. One after the other is tried, the
// next when the one before has failed, or keeps silent for as long as its head start.
func (k *Kafka) reach(ctx context.Context, order []string) reached {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results, tick := make(chan reached), time.NewTicker(headStart)
	defer tick.Stop()
	failed := reached{err: &UnreachableError{Address: order[0], Err: context.DeadlineExceeded}}
	for started, ended := 0, 0; ended < len(order); {
		if started < len(order) {
			go k.try(ctx, reached{turn: started, address: order[started]}, results)
			started++
		}
		select {
		case r := <-results:
			if r.err == nil {
				return r
			}
			if _, silent := errors.AsType[*UnreachableError](failed.err); silent {
				failed = r // who says no tells more than who says nothing
			}
			ended++
		case <-tick.C:
		case <-ctx.Done():
			return reached{err: &UnreachableError{Address: order[0], Err: ctx.Err()}}
		}
	}
	return failed
}

// try connects, for as long as somebody waits for it.
func (k *Kafka) try(ctx context.Context, r reached, results chan<- reached) {
	r.conn, r.err = k.connect(ctx, r.address)
	select {
	case results <- r:
	case <-ctx.Done():
		if r.err == nil {
			_ = r.conn.Close() // another one was faster
		}
	}
}
