package scenarios

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/probe/application"
	"github.com/keyturn/keyturn/internal/report"
)

// consentAnnotation is how people let another namespace refer to a Kafka or a KafkaUser.
const consentAnnotation = "keyturn.dev/access-from"

// secretDelay is how long a change may take to be in the Secret, at the API server.
const secretDelay = 2 * time.Second

// accessAcrossNamespaces: the application is in a namespace of its own. Its access is
// refused, is allowed by the owners of cluster and user, and loses its Secret when one of
// them withdraws that.
func accessAcrossNamespaces(s *stage) {
	manifest := s.example("kafka-dual-role.yaml")
	s.must(oneNode(manifest))
	s.create(manifest)
	s.operatorsForApplications()
	apps := s.namespaceOfApplications()
	s.must(s.kube.Apply(s.ctx, s.kafka.Namespace, s.example("application/user.yaml")))
	s.step("the user is ready", func() error { return s.untilObject(&kafkav1.KafkaUserList{}, userName, userReady) })

	s.step("the application team applies its manifests", func() error { return s.applyAcross(apps) })
	s.step("the access is refused", func() error {
		return s.untilObjectIn(apps.Namespace, &accessv1alpha1.KafkaAccessList{}, applicationName, refusedForNamespace)
	})
	if err := s.kube.Get(s.ctx, apps.Key(applicationName), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		s.Errorf("a Secret was written without consent: %v", err)
	}

	kafka, user := &kafkav1.Kafka{ObjectMeta: s.meta(clusterName)}, &kafkav1.KafkaUser{ObjectMeta: s.meta(userName)}
	allowed := map[string]string{consentAnnotation: apps.Namespace}
	s.must(s.kube.Annotate(s.ctx, kafka, allowed))
	begun := time.Now()
	s.must(s.kube.Annotate(s.ctx, user, allowed))
	s.step("the access is ready", func() error {
		return s.untilObjectIn(apps.Namespace, &accessv1alpha1.KafkaAccessList{}, applicationName, accessReady)
	})
	s.soon(begun, "consent followed", "from the annotation of the KafkaUser until the KafkaAccess is Ready")
	s.connectsFrom(apps)

	begun = time.Now()
	s.must(s.kube.Annotate(s.ctx, user, map[string]string{consentAnnotation: ""}))
	s.step("the Secret is gone", func() error {
		return harness.Poll(s.ctx, func() (bool, error) {
			err := s.kube.Get(s.ctx, apps.Key(applicationName), &corev1.Secret{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	})
	s.soon(begun, "withdrawal followed", "from the annotation of the KafkaUser until the Secret is gone")
	s.step("the access is refused again", func() error {
		return s.untilObjectIn(apps.Namespace, &accessv1alpha1.KafkaAccessList{}, applicationName, refusedForNamespace)
	})
}

// namespaceOfApplications makes an empty namespace beside that of the cluster.
func (s *stage) namespaceOfApplications() harness.Kafka {
	s.Helper()
	apps := s.kafka
	apps.Namespace += "-apps"
	s.must(s.kube.DeleteNamespace(s.ctx, apps.Namespace))
	s.must(s.kube.CreateNamespace(s.ctx, apps.Namespace))
	s.Cleanup(func() {
		if err := s.kube.DeleteNamespace(context.WithoutCancel(s.ctx), apps.Namespace); err != nil {
			s.Error(err)
		}
	})
	return apps
}

// applyAcross applies access and client of the example in another namespace than the
// cluster's, which the access names.
func (s *stage) applyAcross(apps harness.Kafka) error {
	image, err := s.kube.OperatorImage(s.ctx)
	if err != nil {
		return err
	}
	access := s.example("application/access.yaml")
	for _, field := range []string{"kafka", "user"} {
		if err := access.Set("KafkaAccess", applicationName, s.kafka.Namespace, "spec", field, "namespace"); err != nil {
			return err
		}
	}
	client := s.example("application/client.yaml")
	if err := client.SetImage(image); err != nil {
		return err
	}
	for _, manifest := range []harness.Manifest{access, client} {
		if err := s.kube.Apply(s.ctx, apps.Namespace, manifest); err != nil {
			return err
		}
	}
	return nil
}

// refusedForNamespace: the present KafkaAccess is not ready for want of consent, and binds
// nothing.
func refusedForNamespace(object client.Object) bool {
	access, ok := object.(*accessv1alpha1.KafkaAccess)
	if !ok || access.Status.Binding != nil {
		return false
	}
	ready := meta.FindStatusCondition(access.Status.Conditions, string(condition.Ready))
	return ready != nil && ready.Reason == "NamespaceNotAllowed"
}

// connectsFrom waits until the application has received records, and holds its account
// against what is promised.
func (s *stage) connectsFrom(apps harness.Kafka) {
	s.Helper()
	s.step("the application has sent and received", func() error {
		return s.untilObjectIn(apps.Namespace, &appsv1.DeploymentList{}, applicationName, func(object client.Object) bool {
			deployment, ok := object.(*appsv1.Deployment)
			return ok && harness.Available(deployment)
		})
	})
	var account application.Account
	s.step(fmt.Sprintf("the application has received %d records", enough), func() error {
		return harness.Poll(s.ctx, func() (bool, error) {
			var err error
			account, err = apps.Account(s.ctx, applicationName)
			return account.Received >= enough || account.Harmed(), err
		})
	})
	s.unharmed(account)
	s.overMutualTLS(account)
}

// soon holds a time against what is promised of a Secret at the API server.
func (s *stage) soon(begun time.Time, what, how string) {
	s.Helper()
	s.figure(report.AtMost(what, time.Since(begun).Seconds(), secretDelay.Seconds(), "s", how))
}
