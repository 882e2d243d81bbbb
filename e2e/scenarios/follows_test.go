package scenarios

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/probe/application"
	"github.com/keyturn/keyturn/internal/report"
	"github.com/keyturn/keyturn/internal/rotation"
)

// A second application, which logs in with a password of its team's choice.
const (
	loginUser        = "my-login"
	loginApplication = "my-login-application"
	passwordSecret   = "my-password"
	firstPassword    = "the-first-password"
	secondPassword   = "the-second-password"
)

// Keys of the Secret of a KafkaAccess, of the Secret of a user and of a CA.
const (
	boundAddresses   = "bootstrapServers"
	boundTrust       = "ssl.truststore.crt"
	boundCertificate = "ssl.keystore.crt"
	boundPassword    = "password"
	userCertificate  = "user.crt"
	caBundle         = "ca.crt"
)

// followed is the application of the example while things change under it.
type followed struct {
	*stage

	name string
}

// accessFollows: two applications live through every change of what their Secrets hold. Each change is in the Secret
// within seconds; the kubelet takes longer to refresh the mounted files, and until then the old content works. Only a
// password has no overlap: Kafka holds one, and new connections with the previous one are rejected until the refresh.
func accessFollows(s *stage) {
	manifest := s.example("kafka-dual-role.yaml")
	s.must(small(manifest))
	s.create(manifest)
	s.operatorsForApplications()
	s.step("the application team applies its manifests", s.applyApplication)
	s.step("and those of an application with a password", s.applyLogin)
	withCertificate, withPassword := followed{s, applicationName}, followed{s, loginApplication}
	withCertificate.works()
	withPassword.works()

	withCertificate.replaced(harness.ClusterCA, boundTrust, authorities.RaftRestartsPending)
	withCertificate.replaced(harness.ClientsCA, boundCertificate, rotation.WaitingForExpiry)
	withCertificate.renewed()
	withCertificate.moved(manifest)
	s.unharmed(withCertificate.account())
	s.unharmed(withPassword.account())
	withPassword.passwordChanged()
}

// applyLogin applies the example once more, for a user with a password.
func (s *stage) applyLogin() error {
	image, err := s.kube.OperatorImage(s.ctx)
	if err != nil {
		return err
	}
	password := &corev1.Secret{ObjectMeta: s.meta(passwordSecret), StringData: map[string]string{boundPassword: firstPassword}}
	if err := s.kube.Create(s.ctx, password); err != nil {
		return fmt.Errorf("creating Secret %s: %w", passwordSecret, err)
	}
	user, access, client := s.example("application/user.yaml"), s.example("application/access.yaml"), s.example("application/client.yaml")
	if err := errors.Join(
		user.Set("KafkaUser", userName, map[string]any{
			"type":     string(kafkav1.UserSCRAM),
			"password": map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": passwordSecret, "key": boundPassword}}},
		}, "spec", "authentication"),
		access.Set("KafkaAccess", applicationName, loginUser, "spec", "user", "name"),
		client.Set("Deployment", applicationName, loginApplication, "spec", "selector", "matchLabels", "app.kubernetes.io/name"),
		client.Set("Deployment", applicationName, loginApplication, "spec", "template", "metadata", "labels", "app.kubernetes.io/name"),
		client.Set("Deployment", applicationName, []any{map[string]any{
			"name": "kafka-access", "secret": map[string]any{"secretName": loginApplication},
		}}, "spec", "template", "spec", "volumes"),
		client.SetImage(image),
		addArgument(client, "--topic="+loginApplication),
	); err != nil {
		return err
	}
	for _, manifest := range []harness.Manifest{user, access, client} {
		for _, object := range manifest {
			object.SetName(map[string]string{userName: loginUser, applicationName: loginApplication}[object.GetName()])
		}
		if err := s.kube.Apply(s.ctx, s.kafka.Namespace, manifest); err != nil {
			return err
		}
	}
	return nil
}

// addArgument adds an argument to the command of the containers of a Deployment.
func addArgument(manifest harness.Manifest, argument string) error {
	deployment, err := manifest.Find("Deployment", applicationName)
	if err != nil {
		return err
	}
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, path...)
	if err != nil {
		return fmt.Errorf("reading containers of %s: %w", deployment.GetName(), err)
	}
	for _, container := range containers {
		if fields, ok := container.(map[string]any); ok {
			fields["args"] = []any{argument}
		}
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, path...)
}

// works waits until the application has made a round trip.
func (f followed) works() {
	f.Helper()
	f.step(f.name+" has sent and received", func() error {
		return f.untilObject(&appsv1.DeploymentList{}, f.name, func(object client.Object) bool {
			deployment, ok := object.(*appsv1.Deployment)
			return ok && harness.Available(deployment)
		})
	})
}

func (f followed) account() application.Account {
	f.Helper()
	account, err := f.kafka.Account(f.ctx, f.name)
	f.must(err)
	return account
}

// reads waits until the kubelet has refreshed the mounted files, and the application uses what they hold.
func (f followed) reads(since time.Time, what string, holds func(application.Account) bool) {
	f.Helper()
	f.step(f.name+" uses "+what, func() error {
		return harness.Poll(f.ctx, func() (bool, error) {
			account, err := f.kafka.Account(f.ctx, f.name)
			return err == nil && holds(account), err
		})
	})
	f.took(since, f.name+" uses "+what, "from the change of the Secret until the application has read the mounted files; the kubelet decides")
}

// untilSecret waits until a Secret is as asked for, and returns when it was seen to be.
func (f followed) untilSecret(name string, holds func(map[string][]byte) bool) (time.Time, error) {
	err := f.untilObject(&corev1.SecretList{}, name, func(object client.Object) bool {
		secret, ok := object.(*corev1.Secret)
		return ok && holds(secret.Data)
	})
	return time.Now(), err
}

// inSecret waits until one Secret shows a change, and then until that of the KafkaAccess has it, which is to be soon.
func (f followed) inSecret(source, sourceKey, key, what string, before []byte) time.Time {
	f.Helper()
	var changed, arrived time.Time
	var value []byte
	f.step(what+" is in the Secret of "+f.name, func() error {
		var err error
		changed, err = f.untilSecret(source, func(data map[string][]byte) bool {
			value = data[sourceKey]
			return len(value) > 0 && !bytes.Equal(value, before)
		})
		if err != nil {
			return err
		}
		arrived, err = f.untilSecret(f.name, func(data map[string][]byte) bool { return bytes.Equal(data[key], value) })
		return err
	})
	f.figure(report.AtMost(what+" followed", max(0, arrived.Sub(changed)).Seconds(), secretDelay.Seconds(), "s",
		"from the moment in which Secret "+source+" has changed until Secret "+f.name+" holds it, both as a watch shows them"))
	return arrived
}

// replaced: the key of a CA is replaced. The Secret follows, and the application, before the old CA is out of use or
// afterwards.
func (f followed) replaced(a harness.Authority, key string, phases ...rotation.Phase) {
	f.Helper()
	trust, err := f.kafka.Trust(f.ctx, a)
	f.must(err)
	source, sourceKey := clusterName+"-"+string(a)+"-cert", caBundle
	if a == harness.ClientsCA {
		source, sourceKey = userName, userCertificate
	}
	before := f.secret(source).Data[sourceKey]
	was := f.account()
	f.step("asked for a new key of "+string(a), func() error { return f.kafka.Replace(f.ctx, a) })
	arrived := f.inSecret(source, sourceKey, key, "the replacement of "+string(a), before)
	f.step("turned", func() error {
		_, err := f.kafka.UntilTurned(f.ctx, a, trust.Application, phases...)
		return err
	})
	f.reads(arrived, "what the replacement of "+string(a)+" has brought", func(now application.Account) bool {
		return now.Changes > was.Changes && (a == harness.ClusterCA || now.Presented != nil && *now.Presented != *was.Presented)
	})
	f.unharmed(f.account())
}

// renewed: a person asks for another certificate of the user.
func (f followed) renewed() {
	f.Helper()
	before, was := f.secret(userName), f.account()
	f.step("asked for a new certificate of the user", func() error {
		return f.kube.Annotate(f.ctx, &corev1.Secret{ObjectMeta: f.meta(userName)}, map[string]string{"strimzi.io/force-renew": "true"})
	})
	arrived := f.inSecret(userName, userCertificate, boundCertificate, "the renewal of the user", before.Data[userCertificate])
	f.reads(arrived, "the renewed certificate", func(now application.Account) bool { return *now.Presented != *was.Presented })
	f.unharmed(f.account())
}

// moved: the application is led to a listener with another port, is restarted for it, and its former listener is
// taken away. A running client sends metadata requests to brokers of its last metadata response, and each response has
// addresses of the listener that received the request.
func (f followed) moved(manifest harness.Manifest) {
	f.Helper()
	const name, port, formerly = "next", int64(9096), "mtls"
	resource, err := manifest.Find("Kafka", clusterName)
	f.must(err)
	listeners, _, err := unstructured.NestedSlice(resource.Object, "spec", "kafka", "listeners")
	f.must(err)
	added := map[string]any{"name": name, "port": port, "type": "internal", "tls": true, "authentication": map[string]any{"type": "tls"}}
	f.listeners(manifest, "a listener is added", append(slices.Clip(listeners), added))

	suffix := fmt.Sprintf(":%d", port)
	if before := string(f.secret(f.name).Data[boundAddresses]); strings.HasSuffix(before, suffix) {
		f.Errorf("the Secret holds the address %s before the access names the listener", before)
	}
	begun := time.Now()
	f.step("the access names it", func() error {
		return f.kube.MergePatch(f.ctx, &accessv1alpha1.KafkaAccess{ObjectMeta: f.meta(applicationName)},
			map[string]any{"spec": map[string]any{"kafka": map[string]any{"listener": name}}})
	})
	var arrived time.Time
	f.step("the address is in the Secret", func() error {
		var err error
		arrived, err = f.untilSecret(f.name, func(data map[string][]byte) bool { return strings.HasSuffix(string(data[boundAddresses]), suffix) })
		return err
	})
	f.figure(report.AtMost("another listener followed", arrived.Sub(begun).Seconds(), secretDelay.Seconds(), "s",
		"from the change of the KafkaAccess until its Secret holds the address"))
	f.reads(arrived, "the address", func(now application.Account) bool {
		return slices.ContainsFunc(now.BootstrapServers, func(address string) bool { return strings.HasSuffix(address, suffix) })
	})
	f.unharmed(f.account())
	f.restarted()
	f.listeners(manifest, "its listener is taken away", append(slices.DeleteFunc(listeners, func(listener any) bool {
		fields, ok := listener.(map[string]any)
		return ok && fields["name"] == formerly
	}), added))
	f.unharmed(f.account())
}

// restarted: the application team restarts its Deployment, which begins with what the mounted files hold.
func (f followed) restarted() {
	f.Helper()
	f.step(f.name+" is restarted", func() error {
		return f.kube.MergePatch(f.ctx, &appsv1.Deployment{ObjectMeta: f.meta(f.name)}, map[string]any{"spec": map[string]any{
			"template": map[string]any{"metadata": map[string]any{"annotations": map[string]any{
				"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339),
			}}},
		}})
	})
	f.works()
}

// listeners gives the cluster other listeners, which takes a restart of each node.
func (f followed) listeners(manifest harness.Manifest, what string, listeners []any) {
	f.Helper()
	f.step(what, func() error {
		if err := manifest.Set("Kafka", clusterName, listeners, "spec", "kafka", "listeners"); err != nil {
			return err
		}
		if err := f.kube.Apply(f.ctx, f.kafka.Namespace, manifest); err != nil {
			return err
		}
		return f.kafka.UntilSettled(f.ctx)
	})
}

// passwordChanged: Kafka knows the next password as soon as the Secret has it. Nothing is lost, and what a new
// connection with the previous one is told is counted apart.
func (f followed) passwordChanged() {
	f.Helper()
	previous, err := f.kafka.UserClient(f.ctx, loginUser, "scram")
	f.must(err)
	f.Cleanup(previous.Close)
	f.must(previous.Connect(f.ctx))
	was := f.account()
	f.step("the team changes the password", func() error {
		return f.kube.MergePatch(f.ctx, &corev1.Secret{ObjectMeta: f.meta(passwordSecret)}, map[string]any{"stringData": map[string]any{boundPassword: secondPassword}})
	})
	arrived := f.inSecret(passwordSecret, boundPassword, boundPassword, "the password", []byte(firstPassword))
	refused, counted := f.countRefusals(previous)
	f.figure(report.AtMost("Kafka knows the password", max(0, refused.Sub(arrived)).Seconds(), secretDelay.Seconds(), "s",
		"from the moment in which the Secret holds the next password until Kafka rejects a connection with the previous one"))
	f.reads(arrived, "the next password", func(now application.Account) bool { return now.Changes > was.Changes })
	f.figures = append(f.figures, report.Observed("connections rejected because of the previous password", float64(counted()), "connections",
		"one client that opens a new connection twice a second with the previous password, until the application has read the next one"))
	next, err := f.kafka.UserClient(f.ctx, loginUser, "scram")
	f.must(err)
	f.Cleanup(next.Close)
	f.step("the next password is accepted", func() error { return next.Connect(f.ctx) })
	f.step(f.name+" goes on", func() error {
		return harness.Poll(f.ctx, func() (bool, error) {
			now, err := f.kafka.Account(f.ctx, f.name)
			return now.Received > was.Received+enough, err
		})
	})
	account := f.account()
	for what, count := range map[string]uint64{"lost": account.Lost, "repeated": account.Duplicated, "out of order": account.OutOfOrder} {
		f.figure(report.AtMost("records "+what+" while the password changed", float64(count), 0, "records", "the account that the client in the pod serves"))
	}
}

// countRefusals opens connections until one is rejected, and goes on counting until the count is asked for.
func (f followed) countRefusals(previous *harness.UserClient) (first time.Time, count func() int) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	f.Cleanup(cancel)
	rejected, ended := make(chan time.Time, 1), make(chan int, 1)
	go func() {
		refusals := 0
		_ = harness.Poll(ctx, func() (bool, error) {
			if errors.Is(previous.Connect(ctx), kerr.SaslAuthenticationFailed) {
				if refusals++; refusals == 1 {
					rejected <- time.Now()
				}
			}
			return false, nil
		})
		ended <- refusals
	}()
	f.step("a new connection with the previous password is rejected", func() error {
		select {
		case first = <-rejected:
			return nil
		case <-f.ctx.Done():
			return f.ctx.Err()
		}
	})
	return first, func() int {
		cancel()
		return <-ended
	}
}
