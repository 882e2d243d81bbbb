package binding_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

func accessTo(change func(access *accessv1alpha1.KafkaAccess)) *binding.Access {
	access := &accessv1alpha1.KafkaAccess{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-app", UID: "1", Generation: 3},
		Spec: accessv1alpha1.KafkaAccessSpec{
			Kafka: accessv1alpha1.KafkaReference{Name: "my-cluster"},
			User:  &accessv1alpha1.KafkaUserReference{Kind: "KafkaUser", APIGroup: "kafka.strimzi.io", Name: "my-user"},
		},
	}
	if change != nil {
		change(access)
	}
	return binding.OfPublic(access)
}

func TestReferencesThatAreNotSupportedHaveAReason(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(access *accessv1alpha1.KafkaAccess)
		want   binding.Reason
	}{
		"nothing special": {},
		"no user":         {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.User = nil }},
		"other namespaces are named, which others decide about": {change: func(a *accessv1alpha1.KafkaAccess) {
			a.Spec.Kafka.Namespace, a.Spec.User.Namespace = "kafka", "other"
		}},
		"another kind of user":           {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.Kind = "Secret" }, want: binding.InvalidUserKind},
		"a name that no Secret can have": {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "My/App" }, want: binding.InvalidSecret},
		"another group":                  {change: func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.APIGroup = "v1" }, want: binding.InvalidUserKind},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := problemOf(t, binding.CheckSpec(accessTo(test.change))); got != test.want {
				t.Errorf("the reason is %q, want %q", got, test.want)
			}
		})
	}
}

func TestAUserBelongsToTheClusterOfItsLabelInItsNamespace(t *testing.T) {
	t.Parallel()
	const remedy = " The Secret is not written. Set spec.user to a KafkaUser of namespace kafka with the label strimzi.io/cluster=my-cluster."
	for name, test := range map[string]struct {
		namespace, cluster, problem string
	}{
		"its own":         {namespace: "kafka", cluster: "my-cluster"},
		"another one":     {namespace: "kafka", cluster: "other", problem: "KafkaUser my-user belongs to Kafka other of namespace kafka, and not to Kafka my-cluster of namespace kafka."},
		"one of the name": {namespace: "apps", cluster: "my-cluster", problem: "KafkaUser my-user belongs to Kafka my-cluster of namespace apps, and not to Kafka my-cluster of namespace kafka."},
		"none":            {namespace: "kafka", problem: "KafkaUser my-user has no label strimzi.io/cluster."},
	} {
		user := &kafkav1.KafkaUser{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: "my-user"}}
		if test.cluster != "" {
			user.Labels = map[string]string{"strimzi.io/cluster": test.cluster}
		}
		err := binding.CheckUser(user, binding.ObjectName{Namespace: "kafka", Name: "my-cluster"})
		if test.problem == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if reason := problemOf(t, err); reason != binding.UserOfAnotherCluster || err.Error() != test.problem+remedy {
			t.Errorf("%s: %s: %v", name, reason, err)
		}
	}
}

func TestCredentialsAreThoseThatTheUserReports(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		authentication   kafkav1.UserAuthenticationType
		secret, username string
		want             string
		reason           binding.Reason
	}{
		"none, whatever the status says":        {secret: "my-user", username: "my-user"},
		"brought by the application":            {authentication: kafkav1.UserTLSExternal, secret: "my-user"},
		"a certificate":                         {authentication: kafkav1.UserTLS, secret: "my-user", want: "my-user"},
		"a certificate that is not there yet":   {authentication: kafkav1.UserTLS, username: "CN=my-user", reason: binding.WaitingForUser},
		"a password":                            {authentication: kafkav1.UserSCRAM, secret: "pre-my-user", username: "my-user", want: "pre-my-user"},
		"a password that is not there yet":      {authentication: kafkav1.UserSCRAM, username: "my-user", reason: binding.WaitingForUser},
		"a password of a name not yet reported": {authentication: kafkav1.UserSCRAM, secret: "my-user", reason: binding.WaitingForUser},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := &kafkav1.KafkaUser{ObjectMeta: metav1.ObjectMeta{Name: "my-user"}}
			if test.authentication != "" {
				user.Spec.Authentication = &kafkav1.UserAuthentication{Type: test.authentication}
			}
			user.Status.Secret, user.Status.Username = test.secret, test.username
			got, err := binding.CredentialsSecret(user)
			if reason := problemOf(t, err); got != test.want || reason != test.reason {
				t.Errorf("Secret %q with reason %q, want %q with %q", got, reason, test.want, test.reason)
			}
		})
	}
}

func TestBootstrapServersAreThoseThatTheKafkaReports(t *testing.T) {
	t.Parallel()
	kafka := kafkaWith()
	kafka.Status.Listeners = []kafkav1.ListenerStatus{{Name: "plain", BootstrapServers: "a:9092"}, {Name: "tls", BootstrapServers: "b:9093"}, {Name: "empty"}}
	for name, test := range map[string]struct {
		want   string
		reason binding.Reason
	}{
		"tls": {want: "b:9093"}, "empty": {reason: binding.WaitingForKafka}, "scram": {reason: binding.WaitingForKafka},
	} {
		got, err := binding.Bootstrap(kafka, name)
		if reason := problemOf(t, err); got != test.want || reason != test.reason {
			t.Errorf("listener %s: %q with reason %q, want %q with %q", name, got, reason, test.want, test.reason)
		}
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	err := binding.Missing("Kafka", "kafka", "my-cluster", "spec.kafka.name")
	const want = "Kafka my-cluster does not exist in namespace kafka. The Secret is not written. Create it, or correct spec.kafka.name."
	if reason := problemOf(t, err); reason != binding.MissingKubernetesResource || err.Error() != want {
		t.Errorf("%s: %v, want %s", reason, err, want)
	}
}
