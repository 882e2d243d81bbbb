package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kafka/release"
)

// StrangerError says that a broker names as the address of a broker what is none of the
// cluster's.
type StrangerError struct {
	Address string
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("a broker names %s as the address of a broker, which no node of the cluster has, and the operator does not connect to it: "+
		"unless a node was removed just now, find out who else configures the brokers, or answers in place of one", excerpt.Of(e.Address, excerpt.Foreign))
}

// Unwrap returns what a network says that does not permit a connection: where any broker
// will do, the next one is asked.
func (e *StrangerError) Unwrap() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EPERM}
}

// QuorumError says that no controller answered as the leader of the quorum.
type QuorumError struct {
	// Failures are what the controllers said instead, in the order of their
	// addresses. Those that merely follow are left out if others said more.
	Failures []error
}

func (e *QuorumError) Error() string {
	said := make([]string, 0, len(e.Failures))
	for _, failure := range e.Failures {
		said = append(said, failure.Error())
	}
	return "no controller answers as the leader of the quorum: " + strings.Join(said, "; ")
}

// Unwrap returns what the controllers said.
func (e *QuorumError) Unwrap() []error { return e.Failures }

// UnknownBrokerError says that no broker with the id is registered.
type UnknownBrokerError struct {
	ID int32
}

func (e *UnknownBrokerError) Error() string {
	return fmt.Sprintf("broker %d is not registered", e.ID)
}

// UnknownTopicError says that a topic does not exist.
type UnknownTopicError struct {
	// Topic is its name or its id.
	Topic string
}

func (e *UnknownTopicError) Error() string { return fmt.Sprintf("topic %s does not exist", e.Topic) }

// UnsupportedFeatureError says that a node of the cluster does not support the
// level of metadata.version, or that it would be lowered.
type UnsupportedFeatureError struct {
	Level  int16
	Reason string
}

func (e *UnsupportedFeatureError) Error() string {
	return fmt.Sprintf("metadata.version cannot be set to %s (level %d): %s", release.MetadataVersionOf(e.Level), e.Level, e.Reason)
}

// IsUnanswered reports whether an error says that nothing of the cluster has answered, or not as one that belongs to it.
func IsUnanswered(err error) bool {
	_, isUnreachable := errors.AsType[*UnreachableError](err)
	_, isUntrusted := errors.AsType[*UntrustedError](err)
	_, isRefused := errors.AsType[*RefusedError](err)
	_, isStranger := errors.AsType[*StrangerError](err)
	return isUnreachable || isUntrusted || isRefused || isStranger || errors.Is(err, context.DeadlineExceeded)
}

// IsPassing reports whether Kafka has answered that it cannot do what was asked for just now.
func IsPassing(err error) bool {
	kafka, is := errors.AsType[*kerr.Error](err)
	return is && kafka.Retriable && !IsUnanswered(err)
}
