package binding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/excerpt"
)

// User is how the client of a KafkaAccess authenticates.
type User string

// The users that a listener is chosen for.
const (
	// Anonymous is a KafkaAccess without a user.
	Anonymous User = "anonymous"
	// Unauthenticated is a KafkaUser without authentication.
	Unauthenticated User = "unauthenticated"
	// TLS is a KafkaUser whose certificate is in its Secret.
	TLS = User(kafkav1.UserTLS)
	// TLSExternal is a KafkaUser whose certificate the application brings.
	TLSExternal = User(kafkav1.UserTLSExternal)
	// SCRAM is a KafkaUser with a password.
	SCRAM = User(kafkav1.UserSCRAM)
)

// UserOf returns how a KafkaUser authenticates. There is no user where it is nil.
func UserOf(user *kafkav1.KafkaUser) User {
	switch {
	case user == nil:
		return Anonymous
	case user.Spec.Authentication == nil:
		return Unauthenticated
	default:
		return User(user.Spec.Authentication.Type)
	}
}

func (u User) String() string {
	switch u {
	case Anonymous:
		return "a client without a user"
	case Unauthenticated:
		return "a KafkaUser without authentication"
	default:
		return "a KafkaUser with " + string(u) + " authentication"
	}
}

// needs describes a listener that the user can authenticate to.
func (u User) needs() string {
	switch u {
	case TLS, TLSExternal:
		return "tls: true and authentication tls"
	case Anonymous:
		return "any configuration"
	case Unauthenticated:
		return "authentication"
	default:
		return "authentication " + string(u)
	}
}

// ChooseListener returns the listener of a Kafka that a client connects to as the user: the named one, or
// else the one that suits the user best. The error is a *NotReadyError.
func ChooseListener(kafka *kafkav1.Kafka, named string, user User) (kafkav1.Listener, error) {
	listeners := kafka.Spec.Kafka.Listeners
	switch {
	case len(listeners) == 0:
		return kafkav1.Listener{}, &NotReadyError{
			Reason:  NoListener,
			Problem: fmt.Sprintf("Kafka %s has no listeners.", kafka.Name),
			Remedy:  fmt.Sprintf("Add a listener with %s to spec.kafka.listeners of the Kafka.", user.needs()),
		}
	case named != "":
		return namedListener(kafka, named, user)
	case len(listeners) == 1:
		return chosen(kafka, &listeners[0], user)
	case user == Unauthenticated:
		return kafkav1.Listener{}, &NotReadyError{
			Reason:  ListenerRequired,
			Problem: "The KafkaUser has no authentication, by which one of several listeners could be chosen.",
			Remedy:  "Name a listener in spec.kafka.listener, or set spec.authentication of the KafkaUser.",
		}
	}
	suitable := suitable(listeners, user)
	if len(suitable) == 0 {
		return kafkav1.Listener{}, incompatible(kafka, user, fmt.Sprintf("No listener of Kafka %s accepts %s.", kafka.Name, user))
	}
	return slices.MinFunc(suitable, preferred), nil
}

func namedListener(kafka *kafkav1.Kafka, named string, user User) (kafkav1.Listener, error) {
	listeners := kafka.Spec.Kafka.Listeners
	at := slices.IndexFunc(listeners, func(l kafkav1.Listener) bool { return l.Name == named })
	if at < 0 {
		return kafkav1.Listener{}, &NotReadyError{
			Reason:  ListenerNotFound,
			Problem: fmt.Sprintf("Kafka %s has no listener %s.", kafka.Name, excerpt.Of(named, excerpt.Value)),
			Remedy:  fmt.Sprintf("Name one of these listeners in spec.kafka.listener: %s.", names(listeners)),
		}
	}
	return chosen(kafka, &listeners[at], user)
}

// chosen returns a listener that nothing else can be chosen for, if the user can authenticate to it.
func chosen(kafka *kafkav1.Kafka, listener *kafkav1.Listener, user User) (kafkav1.Listener, error) {
	if !accepts(listener, user) {
		return kafkav1.Listener{}, incompatible(kafka, user, fmt.Sprintf("Listener %s of Kafka %s does not accept %s.", listener.Name, kafka.Name, user))
	}
	return *listener, nil
}

// incompatible names the listeners that would do.
func incompatible(kafka *kafkav1.Kafka, user User, what string) *NotReadyError {
	remedy := fmt.Sprintf("Add a listener with %s to the Kafka, or set spec.user to another KafkaUser.", user.needs())
	if others := suitable(kafka.Spec.Kafka.Listeners, user); len(others) > 0 {
		remedy = fmt.Sprintf("Name one of these listeners in spec.kafka.listener: %s.", names(others))
	}
	return &NotReadyError{Reason: IncompatibleListener, Problem: what, Remedy: remedy}
}

func suitable(listeners []kafkav1.Listener, user User) []kafkav1.Listener {
	return slices.DeleteFunc(slices.Clone(listeners), func(l kafkav1.Listener) bool { return !accepts(&l, user) })
}

// accepts reports whether the user can authenticate to the listener. A client without a user may connect to
// any listener, as in the public access operator: its credentials come from elsewhere.
func accepts(listener *kafkav1.Listener, user User) bool {
	switch {
	case user == Anonymous:
		return true
	case listener.Authentication == nil:
		return false
	}
	switch user {
	case Unauthenticated:
		return true
	case SCRAM:
		return listener.Authentication.Type == kafkav1.AuthenticationSCRAM
	case TLS, TLSExternal:
		return listener.TLS && listener.Authentication.Type == kafkav1.AuthenticationTLS
	default:
		return false
	}
}

// preferred orders internal listeners before others, and then by name.
func preferred(a, b kafkav1.Listener) int {
	return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a.Name, b.Name))
}

func distance(listener kafkav1.Listener) int {
	if listener.Type == kafkav1.ListenerInternal {
		return 0
	}
	return 1
}

func names(listeners []kafkav1.Listener) string {
	list := make([]string, 0, len(listeners))
	for i := range listeners {
		list = append(list, listeners[i].Name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
