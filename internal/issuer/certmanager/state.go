package certmanager

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/kube"
)

// The default back-off of cert-manager after a failure.
const (
	firstRetry = time.Hour
	lastRetry  = 32 * time.Hour
)

// maxMessage is how many bytes of another controller's message are repeated: its beginning, and its end, where the cause is.
const maxMessage = 400

// state is what is read of an object of cert-manager.
type state struct {
	metav1.ObjectMeta `json:"metadata"`

	Status struct {
		Conditions []condition `json:"conditions"`
		// The others are set in Certificates only.
		Revision               int64        `json:"revision"`
		FailedIssuanceAttempts int64        `json:"failedIssuanceAttempts"`
		LastFailureTime        *metav1.Time `json:"lastFailureTime"`
	} `json:"status"`
}

type condition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	ObservedGeneration int64       `json:"observedGeneration"`
}

func stateOf(object *unstructured.Unstructured) (*state, error) {
	s := &state{}
	if err := read(object, s); err != nil {
		return nil, err
	}
	return s, nil
}

// condition is empty when it is not set.
func (s *state) condition(kind string) condition {
	for _, c := range s.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

func (s *state) is(kind string) bool { return s.condition(kind).Status == string(metav1.ConditionTrue) }

// requestChanged is cert-manager's reason for issuing what the last certificate was not requested as.
const requestChanged = "RequestChanged"

// isIssued reports whether the Certificate as it is now was issued. cert-manager may call one Ready that was changed while it
// has no former request to compare with: during the first issuance, and once the next request has replaced the former one.
func (s *state) isIssued() bool {
	isOther := s.is("Issuing") && (s.Status.Revision == 0 || s.condition("Issuing").Reason == requestChanged)
	return s.is("Ready") && s.condition("Ready").ObservedGeneration == s.Generation && !isOther && s.DeletionTimestamp.IsZero()
}

// hasFailed reports whether cert-manager waits after a failure.
func (s *state) hasFailed() bool {
	return s.Status.FailedIssuanceAttempts > 0 && s.Status.LastFailureTime != nil
}

// since is when the request was made: when it was applied, or when a Certificate that had been issued stopped being
// Ready.
func (s *state) since() time.Time {
	begun := s.CreationTimestamp.Time
	for _, entry := range s.ManagedFields {
		if kube.Applies(entry, FieldOwner) && entry.Time != nil {
			begun = entry.Time.Time
		}
	}
	ready := s.condition("Ready")
	if s.Status.Revision > 0 && !s.is("Ready") && ready.LastTransitionTime.After(begun) {
		return ready.LastTransitionTime.Time
	}
	return begun
}

// requestName is the name of the CertificateRequest that cert-manager makes next or has made last without success.
// Names that cert-manager would shorten are not known.
func (s *state) requestName() (name string, known bool) {
	const unshortened = 233
	return fmt.Sprintf("%s-%d", s.Name, s.Status.Revision+1), len(s.Name) <= unshortened
}

// waiting says in cert-manager's words why a Certificate is not issued.
func (s *state) waiting() string {
	name := s.Namespace + "/" + s.Name
	issuing := s.condition("Issuing")
	message := firstOf(issuing.Message, s.condition("Ready").Message)
	switch {
	case !s.DeletionTimestamp.IsZero():
		return fmt.Sprintf("Certificate %s is being deleted. It is created again when it is gone; if it stays, remove what its finalizers wait for.", name)
	case s.hasFailed():
		return fmt.Sprintf("cert-manager could not issue Certificate %s: %s. Attempts: %d, last %s. It retries about %s; correct the cause before then.",
			name, message, s.Status.FailedIssuanceAttempts, at(s.Status.LastFailureTime.Time), at(s.retry()))
	case s.isIssued():
		return fmt.Sprintf("Certificate %s has not been reissued since it was requested at %s: %s.", name, at(issuing.LastTransitionTime.Time), message)
	case message == "" || s.condition("Ready").ObservedGeneration != s.Generation && !s.is("Issuing"):
		return fmt.Sprintf("cert-manager has not looked at Certificate %s since it was changed. If this stays, check that cert-manager runs.", name)
	default:
		return fmt.Sprintf("Certificate %s is not issued yet: %s.", name, message)
	}
}

// next is the request for another certificate than the one that was issued; nil when there is none.
func (s *state) next() *issuer.Pending {
	switch {
	case s.hasFailed():
		return &issuer.Pending{Since: s.Status.LastFailureTime.Time, Why: s.waiting()}
	case s.is("Issuing"):
		return &issuer.Pending{Since: s.condition("Issuing").LastTransitionTime.Time, Why: s.waiting()}
	default:
		return nil
	}
}

// retry is when cert-manager tries again with its default back-off.
func (s *state) retry() time.Time {
	delay := firstRetry
	for n := int64(1); n < s.Status.FailedIssuanceAttempts && delay < lastRetry; n++ {
		delay *= 2
	}
	return s.Status.LastFailureTime.Add(delay)
}

func at(moment time.Time) string { return moment.UTC().Format(time.RFC3339) }

// firstOf is the first message that is not empty, as the end of a sentence.
func firstOf(messages ...string) string {
	for _, message := range messages {
		if message = strings.TrimRight(strings.Join(strings.Fields(message), " "), ". "); message != "" {
			return excerpt.Ends(message, maxMessage)
		}
	}
	return ""
}
