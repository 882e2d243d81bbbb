package verdict

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
)

// Verdict is what one fresh connection proved.
type Verdict string

// The verdicts. Only Refused is a TLS failure.
const (
	// Accepted: a request was completed over the new connection.
	Accepted Verdict = "accepted"
	// Refused: one side did not accept the other's certificate or protocol.
	Refused Verdict = "refused"
	// Interrupted: the connection broke in the middle of the handshake. A server
	// that stops does that once; one that does it again and again refuses.
	Interrupted Verdict = "interrupted"
	// Unreachable: no answer came. A restart looks like this.
	Unreachable Verdict = "unreachable"
)

// Reason says why a connection was not accepted, in words that stay the same.
type Reason string

// Reasons of Refused; those that start with "alert" were said by the server.
const (
	UnknownAuthority    Reason = "unknown authority"
	Expired             Reason = "expired"
	NameMismatch        Reason = "name mismatch"
	ChainTooLong        Reason = "chain too long"
	InvalidCertificate  Reason = "invalid certificate"
	NotTLS              Reason = "not TLS"
	NoTrust             Reason = "no usable trust"
	AlertBadCertificate Reason = "alert: bad certificate"
	AlertUnknown        Reason = "alert: certificate unknown"
	AlertUnknownCA      Reason = "alert: unknown authority"
	AlertExpired        Reason = "alert: expired"
	AlertRequired       Reason = "alert: certificate required"
	AlertHandshake      Reason = "alert: handshake failure"
	AlertOther          Reason = "alert: other"
	HandshakeReset      Reason = "handshake reset"
)

// FromServer says whether it was the server that refused the client.
func (r Reason) FromServer() bool { return strings.HasPrefix(string(r), "alert:") }

// Reasons of Unreachable.
const (
	ConnectionRefused Reason = "connection refused"
	TimedOut          Reason = "timed out"
	NoRoute           Reason = "no route"
)

// TrustError is a client's failure to read what it is to trust. Such a client
// cannot connect, whatever the server does.
type TrustError struct{ Err error }

// Error implements error.
func (e *TrustError) Error() string { return "reading trust: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *TrustError) Unwrap() error { return e.Err }

// Error is the outcome of a connection that another program made and reported.
type Error struct {
	Verdict Verdict
	Reason  Reason
	// Detail is the program's own word, for people.
	Detail string
}

// Error implements error.
func (e *Error) Error() string { return string(e.Verdict) + ", " + string(e.Reason) + ": " + e.Detail }

// Of classifies the error of a dial, a handshake, or of the first request after
// it (TLS 1.3 tells a client only then that its certificate was refused).
func Of(err error) (Verdict, Reason) {
	if err == nil {
		return Accepted, ""
	}
	if told, ok := errors.AsType[*Error](err); ok {
		return told.Verdict, told.Reason
	}
	if _, ok := errors.AsType[*TrustError](err); ok {
		return Refused, NoTrust
	}
	if reason, ok := ofVerification(err); ok {
		return Refused, reason
	}
	if reason, ok := ofAlert(err); ok {
		return Refused, reason
	}
	return ofTransport(err)
}

func ofVerification(err error) (Reason, bool) {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return UnknownAuthority, true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return NameMismatch, true
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return ofInvalid(invalid), true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return InvalidCertificate, true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return NotTLS, true
	}
	return "", false
}

// ofInvalid: crypto/x509 says Expired of a certificate that is not valid yet,
// too; only its certificate tells the two apart, and only with a clock.
func ofInvalid(invalid x509.CertificateInvalidError) Reason {
	switch invalid.Reason {
	case x509.Expired:
		return Expired
	case x509.TooManyIntermediates:
		return ChainTooLong
	default:
		return InvalidCertificate
	}
}

// Alert numbers of RFC 8446, section 6.
const (
	alertHandshakeFailure    = 40
	alertBadCertificate      = 42
	alertUnsupported         = 43
	alertRevoked             = 44
	alertExpired             = 45
	alertCertificateUnknown  = 46
	alertUnknownCA           = 48
	alertCertificateRequired = 116
)

// ofAlert finds an alert that the server sent. crypto/tls wraps it as the cause
// of a net.OpError named "remote error", by a type it does not export: its
// number is all that can be had of it, and all that is needed.
func ofAlert(err error) (Reason, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" || op.Err == nil {
		return "", false
	}
	alert := reflect.ValueOf(op.Err)
	if alert.Kind() != reflect.Uint8 {
		return AlertOther, true
	}
	return OfAlert(alert.Uint()), true
}

// OfAlert is the reason that the number of an alert gives.
func OfAlert(number uint64) Reason {
	switch number {
	case alertBadCertificate, alertUnsupported, alertRevoked:
		return AlertBadCertificate
	case alertCertificateUnknown: // the JVM's word for an authority it does not know
		return AlertUnknown
	case alertUnknownCA:
		return AlertUnknownCA
	case alertExpired:
		return AlertExpired
	case alertCertificateRequired:
		return AlertRequired
	case alertHandshakeFailure:
		return AlertHandshake
	default:
		return AlertOther
	}
}

func ofTransport(err error) (Verdict, Reason) {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Unreachable, ConnectionRefused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Interrupted, HandshakeReset
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT):
		return Unreachable, TimedOut
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return Unreachable, TimedOut
	}
	return Unreachable, NoRoute
}
