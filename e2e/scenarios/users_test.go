package scenarios

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/report"
)

// The topics of the scenario, and a user that is limited.
const (
	allowedTopic   = "allowed"
	forbiddenTopic = "forbidden"
	limitedUser    = "limited"
	// limitedRate is how many bytes a second that user may produce, limitedBytes what it sends.
	limitedRate  = 16 << 10
	limitedBytes = 512 << 10
)

// authorizedUser is a user of the scenario and the listener that it connects to.
type authorizedUser struct {
	name, listener string
	kind           kafkav1.UserAuthenticationType
}

// usersAuthorized: users with a certificate and with a password do what their ACLs allow and nothing else, a quota
// slows one down, and who is deleted is refused.
func usersAuthorized(s *stage) {
	manifest := s.example("kafka-dual-role.yaml")
	s.must(oneNode(manifest))
	s.must(manifest.Set("Kafka", clusterName, map[string]any{"type": "simple"}, "spec", "kafka", "authorization"))
	s.create(manifest)
	s.operatorsForApplications()
	s.createTopics(allowedTopic, forbiddenTopic)

	users := []authorizedUser{
		{"with-certificate", "mtls", kafkav1.UserTLS},
		{"with-password", "scram", kafkav1.UserSCRAM},
		{limitedUser, "scram", kafkav1.UserSCRAM},
	}
	begun := time.Now()
	s.step("the users are ready", func() error { return s.createUsers(users) })
	s.took(begun, "users ready", "from the first apply until all KafkaUsers are Ready, with their ACLs, quotas and passwords in Kafka")
	clients := map[string]*harness.UserClient{}
	for _, user := range users {
		client, err := s.kafka.UserClient(s.ctx, user.name, user.listener)
		s.must(err)
		s.Cleanup(client.Close)
		clients[user.name] = client
	}
	for _, user := range users[:2] {
		s.step(user.name+" does what its ACLs allow", func() error { return s.isAllowed(clients[user.name]) })
		s.step(user.name+" does nothing else", func() error { return s.isDenied(clients[user.name]) })
	}
	s.step("a quota slows a user down", func() error { return s.isLimited(clients[limitedUser], clients["with-password"]) })
	for _, user := range users[:2] {
		begun := time.Now()
		s.step(user.name+" is deleted", func() error { return s.deleteKafkaUser(user.name) })
		s.took(begun, user.name+" deleted", "from the deletion until the KafkaUser is gone, and with it what Kafka holds for it")
		s.step(user.name+" is refused", func() error { return s.untilRefused(user, clients[user.name]) })
	}
	s.step("the user that stays is served after the restart of its broker", func() error { return s.servedAfterRestart(clients[limitedUser]) })
}

func (s *stage) createTopics(names ...string) {
	s.Helper()
	admin, err := s.kafka.Admin(s.ctx)
	s.must(err)
	defer admin.Close()
	for _, name := range names {
		s.must(admin.CreateTopicOf(s.ctx, name, 1, 1, 1))
	}
}

// createUsers applies the users and waits until they are ready.
func (s *stage) createUsers(users []authorizedUser) error {
	for _, user := range users {
		object := &kafkav1.KafkaUser{ObjectMeta: s.meta(user.name), Spec: kafkav1.KafkaUserSpec{
			Authentication: &kafkav1.UserAuthentication{Type: user.kind},
			Authorization: &kafkav1.UserAuthorization{Type: kafkav1.AuthorizationSimple, ACLs: []kafkav1.ACLRule{{
				Resource:   kafkav1.ACLResource{Type: kafkav1.ACLTopic, Name: allowedTopic},
				Operations: []kafkav1.ACLOperation{"Read", "Write", "Describe"},
			}}},
		}}
		object.Labels = map[string]string{harness.ClusterLabel: clusterName}
		if user.name == limitedUser {
			object.Spec.Quotas = &kafkav1.UserQuotas{ProducerByteRate: new(int32(limitedRate))}
		}
		if err := s.kube.Create(s.ctx, object); err != nil {
			return fmt.Errorf("creating KafkaUser %s: %w", user.name, err)
		}
	}
	for _, user := range users {
		if err := s.untilObject(&kafkav1.KafkaUserList{}, user.name, userReady); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) isAllowed(client *harness.UserClient) error {
	return errors.Join(client.Send(s.ctx, allowedTopic, []byte("hello")), client.Receive(s.ctx, allowedTopic))
}

// isDenied tries what the ACLs do not name.
func (s *stage) isDenied(client *harness.UserClient) error {
	if err := client.Send(s.ctx, forbiddenTopic, []byte("hello")); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return fmt.Errorf("sending to another topic: %w, want TOPIC_AUTHORIZATION_FAILED", notDenied(err))
	}
	if err := client.Receive(s.ctx, forbiddenTopic); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		return fmt.Errorf("receiving from another topic: %w, want TOPIC_AUTHORIZATION_FAILED", notDenied(err))
	}
	code, err := client.CreateTopic(s.ctx, "created-by-a-user")
	if err != nil {
		return err
	}
	if answer := kerr.ErrorForCode(code); !errors.Is(answer, kerr.TopicAuthorizationFailed) && !errors.Is(answer, kerr.ClusterAuthorizationFailed) {
		return fmt.Errorf("creating a topic: %w, want that it is denied", notDenied(answer))
	}
	return nil
}

var errAllowed = errors.New("it was allowed")

func notDenied(err error) error {
	if err == nil {
		return errAllowed
	}
	return err
}

// isLimited sends the same as two users, of which one has a quota.
func (s *stage) isLimited(limited, free *harness.UserClient) error {
	record := bytes.Repeat([]byte("x"), limitedRate)
	for range limitedBytes / limitedRate {
		if err := errors.Join(limited.Send(s.ctx, allowedTopic, record), free.Send(s.ctx, allowedTopic, record)); err != nil {
			return err
		}
		if limited.Throttled() > time.Second {
			break
		}
	}
	const how = "the throttle time that the broker answers to up to 512 KiB, the quota being 16 KiB a second"
	s.figure(report.AtLeast("user with a quota slowed down", limited.Throttled().Seconds(), 1, "s", how))
	s.figure(report.AtMost("user without a quota slowed down", free.Throttled().Seconds(), 0, "s", how))
	return nil
}

// deleteKafkaUser deletes a user and waits until it is gone.
func (s *stage) deleteKafkaUser(name string) error {
	user := &kafkav1.KafkaUser{ObjectMeta: s.meta(name)}
	if err := s.kube.Delete(s.ctx, user); err != nil {
		return fmt.Errorf("deleting KafkaUser %s: %w", name, err)
	}
	return harness.Poll(s.ctx, func() (bool, error) {
		err := s.kube.Get(s.ctx, s.kafka.Key(name), user)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// untilRefused waits until a user of before may send nothing any more, and checks that a password lets nobody in.
func (s *stage) untilRefused(user authorizedUser, client *harness.UserClient) error {
	if user.kind == kafkav1.UserSCRAM {
		if err := client.Connect(s.ctx); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			return fmt.Errorf("connecting with the password of a deleted user: %w, want SASL_AUTHENTICATION_FAILED", notDenied(err))
		}
		return nil
	}
	return harness.Poll(s.ctx, func() (bool, error) {
		err := client.Send(s.ctx, allowedTopic, []byte("after the deletion"))
		return errors.Is(err, kerr.TopicAuthorizationFailed), nil
	})
}

// servedAfterRestart restarts the one broker: a Kafka that starts after the deletion of a credential has none.
func (s *stage) servedAfterRestart(client *harness.UserClient) error {
	before, err := s.kafka.Pods(s.ctx)
	if err != nil {
		return err
	}
	for _, pod := range before.Names() {
		if err := s.kube.Delete(s.ctx, &corev1.Pod{ObjectMeta: s.meta(pod)}); err != nil {
			return fmt.Errorf("deleting pod %s: %w", pod, err)
		}
	}
	if err := harness.Poll(s.ctx, func() (bool, error) {
		now, err := s.kafka.Pods(s.ctx)
		return len(now) == len(before) && len(differing(before, now)) == len(before), err
	}); err != nil {
		return err
	}
	if err := s.kafka.UntilSettled(s.ctx); err != nil {
		return err
	}
	return harness.Poll(s.ctx, func() (bool, error) {
		err := client.Connect(s.ctx)
		if errors.Is(err, kerr.SaslAuthenticationFailed) {
			return false, fmt.Errorf("connecting with the password of a user that stays: %w", err)
		}
		return err == nil, nil
	})
}
