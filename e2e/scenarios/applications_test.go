package scenarios

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe/application"
	"github.com/keyturn/keyturn/internal/report"
)

// The names of the example of an application.
const (
	userName        = "my-user"
	applicationName = "my-application"
)

// enough records prove that an application works: with one each tenth of a second they
// take a quarter of a minute.
const enough = 150

// userConnects is what an application team does on its first day: it applies a user, an
// access and a Deployment as the examples have them, and its client works.
func userConnects(s *stage) {
	manifest := s.example("kafka-dual-role.yaml")
	s.must(oneNode(manifest))
	s.create(manifest)
	s.operatorsForApplications()

	begun := time.Now()
	s.step("the application team applies its manifests", s.applyApplication)
	s.step("the user is ready", func() error { return s.untilObject(&kafkav1.KafkaUserList{}, userName, userReady) })
	s.took(begun, "user ready", "from the first apply until the KafkaUser is Ready")
	s.step("the access is ready", func() error {
		return s.untilObject(&accessv1alpha1.KafkaAccessList{}, applicationName, accessReady)
	})
	s.took(begun, "access ready", "from the first apply until the KafkaAccess is Ready")
	s.step("the application has sent and received", func() error {
		return s.untilObject(&appsv1.DeploymentList{}, applicationName, func(object client.Object) bool {
			deployment, ok := object.(*appsv1.Deployment)
			return ok && harness.Available(deployment)
		})
	})
	s.took(begun, "application works", "from the first apply until a record has made the round trip and the Deployment is available")

	var account application.Account
	s.step(fmt.Sprintf("the application has received %d records", enough), func() error {
		return harness.Poll(s.ctx, func() (bool, error) {
			var err error
			account, err = s.kafka.Account(s.ctx, applicationName)
			return account.Received >= enough || account.Harmed(), err
		})
	})
	s.unharmed(account)
	s.overMutualTLS(account)
}

// oneNode makes the example small: what an application needs does not depend on the
// number of nodes.
func oneNode(manifest harness.Manifest) error {
	if err := small(manifest); err != nil {
		return err
	}
	for _, property := range []string{
		"default.replication.factor", "min.insync.replicas", "offsets.topic.replication.factor",
		"transaction.state.log.replication.factor", "transaction.state.log.min.isr",
	} {
		if err := manifest.Set("Kafka", clusterName, int64(1), "spec", "kafka", "config", property); err != nil {
			return err
		}
	}
	return manifest.Set("KafkaNodePool", "dual-role", int64(1), "spec", "replicas")
}

// operatorsForApplications adds a user operator for the scenario's cluster and the access
// operator to the installation, until the scenario has ended.
func (s *stage) operatorsForApplications() {
	s.Helper()
	s.installWith(s.kafka.ApplicationOperators())
}

// applyApplication applies the files of the example, the image alone replaced.
func (s *stage) applyApplication() error { return s.kafka.ApplyApplication(s.ctx) }

func userReady(object client.Object) bool {
	user, ok := object.(*kafkav1.KafkaUser)
	return ok && user.Status.ObservedGeneration == user.Generation &&
		slices.ContainsFunc(user.Status.Conditions, func(c condition.Condition) bool {
			return c.Type == condition.Ready && c.Status == condition.True
		})
}

func accessReady(object client.Object) bool {
	access, ok := object.(*accessv1alpha1.KafkaAccess)
	return ok && access.Status.ObservedGeneration == access.Generation &&
		meta.IsStatusConditionTrue(access.Status.Conditions, string(condition.Ready))
}

// took reports a time that has no bound here: pulling images and scheduling are part of it.
func (s *stage) took(begun time.Time, what, how string) {
	s.figures = append(s.figures, report.Observed(what, time.Since(begun).Seconds(), "s", how))
}

// unharmed holds the account of an application against what is promised to it.
func (s *stage) unharmed(account application.Account) {
	s.Helper()
	const how = "the account that the client in the pod serves"
	s.figure(report.AtLeast("records received by the application", float64(account.Received), enough, "records", how))
	for what, count := range map[string]uint64{
		"lost": account.Lost, "given up": account.GivenUp, "repeated": account.Duplicated, "out of order": account.OutOfOrder,
	} {
		s.figure(report.AtMost("records "+what, float64(count), 0, "records", how))
	}
	s.figure(report.AtMost("connections refused", float64(account.Refused), 0, "connections", how))
	s.figure(report.AtLeast("fresh connections accepted", float64(account.Fresh.Accepted), 1, "connections", how))
	for reason, count := range account.RefusedBecause {
		s.Errorf("the application was refused %d times: %s", count, reason)
	}
	for reason, count := range account.GivenUpBecause {
		s.Errorf("the application gave %d records up: %s", count, reason)
	}
	if account.Problem != "" {
		s.Errorf("the application has a problem with its Secret: %s", account.Problem)
	}
	s.accounts = append(s.accounts, report.Client{
		Kind: "application", Listener: strings.Join(account.BootstrapServers, ","),
		Sent: account.Sent, Acknowledged: account.Acknowledged, Lost: account.Lost, Duplicated: account.Duplicated,
		OutOfOrder: account.OutOfOrder, TLSFailures: account.Refused, LongestGapMs: account.LongestGapSeconds * 1000,
	})
}

// overMutualTLS: the application connects to a listener that wants a certificate, and
// presents that of its user.
func (s *stage) overMutualTLS(account application.Account) {
	s.Helper()
	resource, err := s.kafka.Resource(s.ctx)
	s.must(err)
	asks := slices.ContainsFunc(resource.Spec.Kafka.Listeners, func(l kafkav1.Listener) bool {
		port := ":" + strconv.Itoa(int(l.Port))
		return l.TLS && l.Authentication != nil && l.Authentication.Type == kafkav1.AuthenticationTLS &&
			slices.ContainsFunc(account.BootstrapServers, func(address string) bool { return strings.HasSuffix(address, port) })
	})
	if !asks || account.SecurityProtocol != "SSL" {
		s.Errorf("the application connects to %q over %s, which is no listener with client certificates", account.BootstrapServers, account.SecurityProtocol)
	}
	if account.Presented == nil || account.Presented.Subject != "CN="+userName {
		s.Errorf("the application presents %+v, to be presented is a certificate of CN=%s", account.Presented, userName)
	}
}
