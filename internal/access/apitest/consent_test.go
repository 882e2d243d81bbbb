package apitest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/controller"
)

// across refers to Kafka and user of another world.
func across(kafkas *world) func(access *accessv1alpha1.KafkaAccess) {
	return func(access *accessv1alpha1.KafkaAccess) {
		access.Spec.Kafka.Namespace = kafkas.namespace
		if access.Spec.User != nil {
			access.Spec.User.Namespace = kafkas.namespace
		}
	}
}

// allow sets the annotation of Kafka or user; an empty text removes it.
func (w *world) allow(object client.Object, name, namespaces string) {
	w.t.Helper()
	w.update(name, object, func() {
		object.SetAnnotations(nil)
		if namespaces != "" {
			object.SetAnnotations(map[string]string{"keyturn.dev/access-from": namespaces})
		}
	})
}

func (w *world) allowAll(namespaces string) {
	w.t.Helper()
	w.allow(&kafkav1.Kafka{}, "my-cluster", namespaces)
	w.allow(&kafkav1.KafkaUser{}, "my-user", namespaces)
}

func TestAReferenceToAnotherNamespaceNeedsConsentOfBoth(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	kafkas.cluster()
	apps.access("my-user", across(kafkas))
	refused := func(kind string) {
		t.Helper()
		apps.mustReconcile()
		if apps.reason("my-app") != "NamespaceNotAllowed" || !apps.readyMessage("Add "+apps.namespace+" to the annotation keyturn.dev/access-from of that "+kind+".") {
			t.Errorf("the reason is %s: %+v", apps.reason("my-app"), apps.status())
		}
		if apps.data("my-app") != nil || apps.status().Binding != nil {
			t.Error("there is a Secret or a binding")
		}
	}
	refused("Kafka")
	kafkas.allow(&kafkav1.Kafka{}, "my-cluster", "other, "+apps.namespace)
	refused("KafkaUser")
	kafkas.allow(&kafkav1.KafkaUser{}, "my-user", "*")
	apps.mustReconcile()
	if diff := cmp.Diff(bound(), apps.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
	kafkas.allow(&kafkav1.Kafka{}, "my-cluster", "other")
	refused("Kafka")
}

// A certificate of a cluster of the same name in another namespace is rejected by this one.
func TestAUserOfANamesakeClusterIsNotBound(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	kafkas.cluster()
	apps.cluster()
	kafkas.allowAll(apps.namespace)
	apps.access("my-user", func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Namespace = kafkas.namespace })
	apps.mustReconcile()
	if apps.reason("my-app") != "UserOfAnotherCluster" || apps.data("my-app") != nil {
		t.Errorf("the reason is %s", apps.reason("my-app"))
	}
	apps.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.Namespace = kafkas.namespace })
	apps.mustReconcile()
	if apps.reason("my-app") != "Bound" {
		t.Errorf("the reason is %s", apps.reason("my-app"))
	}
}

func TestWithdrawnConsentRemovesTheSecretWhereverTheOperatorCrashes(t *testing.T) {
	t.Parallel()
	for name, withdraw := range map[string]func(kafkas, apps *world){
		"of the Kafka": func(kafkas, _ *world) { kafkas.allow(&kafkav1.Kafka{}, "my-cluster", "") },
		"of the user":  func(kafkas, _ *world) { kafkas.allow(&kafkav1.KafkaUser{}, "my-user", "") },
		"while the spec is bad": func(kafkas, apps *world) {
			apps.updateAccess(listener("none"))
			apps.mustReconcile()
			kafkas.allow(&kafkav1.KafkaUser{}, "my-user", "")
		},
		"while the spec asks for another user": func(kafkas, apps *world) {
			apps.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.User.Name = "none" })
			kafkas.allow(&kafkav1.Kafka{}, "my-cluster", "")
		},
		"after the source was edited while the spec is bad": func(kafkas, apps *world) {
			apps.updateAccess(listener("none"))
			apps.mustReconcile()
			secret := &corev1.Secret{}
			apps.update("my-app", secret, func() { secret.Annotations["keyturn.dev/source"] = "{}" })
			kafkas.allow(&kafkav1.Kafka{}, "my-cluster", "")
		},
		"while the Secret is to be renamed": func(kafkas, apps *world) {
			apps.updateAccess(func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "renamed" })
			kafkas.allowAll("")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for crashAt := range 3 {
				kafkas, apps := newWorld(t), newWorld(t)
				kafkas.cluster()
				kafkas.allowAll(apps.namespace)
				apps.access("my-user", across(kafkas))
				apps.mustReconcile()
				if apps.reason("my-app") != "Bound" {
					t.Fatalf("the reason is %s", apps.reason("my-app"))
				}
				withdraw(kafkas, apps)
				apps.startOperator()
				apps.faulty.CrashAt = crashAt
				crashed := apps.reconcile() != nil
				if crashed != (crashAt > 0) {
					t.Errorf("it crashes at write %d: %t", crashAt, crashed)
				}
				apps.startOperator()
				apps.mustReconcile()
				if apps.data("my-app") != nil || apps.data("renamed") != nil {
					t.Errorf("after a crash at write %d the Secret is left (%s)", crashAt, apps.reason("my-app"))
				}
				if binding := apps.status().Binding; binding != nil && apps.reason("my-app") == "NamespaceNotAllowed" {
					t.Errorf("after a crash at write %d the binding is %v", crashAt, binding)
				}
				apps.faulty.Written = 0
				apps.mustReconcile()
				if apps.faulty.Written != 0 {
					t.Errorf("after a crash at write %d the operator still writes", crashAt)
				}
			}
		})
	}
}

func TestWithdrawnConsentLeavesSecretsOfOthers(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	kafkas.cluster()
	kafkas.allowAll(apps.namespace)
	apps.access("my-user", across(kafkas))
	apps.mustReconcile()
	apps.delete("my-app", &corev1.Secret{})
	apps.secret("my-app", "", map[string]string{"mine": "precious"})
	kafkas.allowAll("")
	apps.mustReconcile()
	if diff := cmp.Diff(map[string]string{"mine": "precious"}, apps.data("my-app")); diff != "" {
		t.Errorf("a Secret of others differs (-want +got):\n%s", diff)
	}
}

// A message tells nothing of what must not be referred to.
func TestWhatDoesNotExistIsRefusedInTheSameWords(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	apps.access("my-user", across(kafkas))
	apps.mustReconcile()
	before := apps.status().Conditions[0].Message
	kafkas.cluster()
	apps.startOperator()
	apps.mustReconcile()
	if after := apps.status().Conditions[0].Message; after != before || apps.reason("my-app") != "NamespaceNotAllowed" {
		t.Errorf("the message was %q and is %q", before, after)
	}
}

// What is gone has withdrawn nothing: a Kafka that is restored must find its applications connected.
func TestADeletedKafkaLeavesTheSecret(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	kafkas.cluster()
	kafkas.allowAll(apps.namespace)
	apps.access("my-user", across(kafkas))
	apps.mustReconcile()
	kafkas.delete("my-cluster", &kafkav1.Kafka{})
	apps.mustReconcile()
	if apps.reason("my-app") != "NamespaceNotAllowed" || apps.status().Binding == nil {
		t.Errorf("the reason is %s, the binding %v", apps.reason("my-app"), apps.status().Binding)
	}
	if diff := cmp.Diff(bound(), apps.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
}

func TestUnrestrictedReferencesNeedNoConsent(t *testing.T) {
	t.Parallel()
	kafkas, apps := newWorld(t), newWorld(t)
	kafkas.cluster()
	apps.references = controller.Unrestricted
	apps.startOperator()
	apps.access("my-user", across(kafkas))
	apps.mustReconcile()
	if diff := cmp.Diff(bound(), apps.data("my-app")); diff != "" {
		t.Errorf("the Secret differs (-want +got):\n%s", diff)
	}
	apps.references = ""
	apps.startOperator()
	apps.mustReconcile()
	if apps.data("my-app") != nil || apps.reason("my-app") != "NamespaceNotAllowed" {
		t.Errorf("after consent is asked for again, the reason is %s", apps.reason("my-app"))
	}
}
