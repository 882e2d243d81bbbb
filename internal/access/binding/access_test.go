package binding_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	kafkav1beta2 "github.com/keyturn/keyturn/api/kafka/v1beta2"
	"github.com/keyturn/keyturn/internal/access/binding"
)

func proposed(change func(access *kafkav1beta2.KafkaAccess)) *binding.Access {
	access := &kafkav1beta2.KafkaAccess{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "my-app", UID: "1"}}
	access.Spec.Kafka.Name = "my-cluster"
	access.Spec.User = &kafkav1beta2.UserReference{Kind: "KafkaUser", Name: "my-user"}
	if change != nil {
		change(access)
	}
	return binding.OfProposed(access)
}

func TestBothFormsAskForTheSame(t *testing.T) {
	t.Parallel()
	reference := &accessv1alpha1.TruststoreReference{System: true}
	public := accessTo(func(a *accessv1alpha1.KafkaAccess) {
		a.Spec.Kafka = accessv1alpha1.KafkaReference{Name: "my-cluster", Namespace: "shared", Listener: "tls", TruststoreRef: reference}
		a.Spec.User.Namespace = "users"
	})
	other := proposed(func(a *kafkav1beta2.KafkaAccess) {
		a.Spec.Kafka = kafkav1beta2.KafkaReference{
			APIVersion: "kafka.strimzi.io/v1beta2", Name: "my-cluster", Namespace: "shared",
			Listener: &kafkav1beta2.ListenerReference{Name: "tls"}, TruststoreRef: reference,
		}
		a.Spec.User.APIVersion, a.Spec.User.Namespace = "kafka.strimzi.io/v1beta2", "users"
	})
	if diff := cmp.Diff(public.Asked(), other.Asked()); diff != "" {
		t.Errorf("the forms differ (-public +proposed):\n%s", diff)
	}
	if diff := cmp.Diff(public.Spec, other.Spec); diff != "" {
		t.Errorf("the forms differ (-public +proposed):\n%s", diff)
	}
}

func TestTheFormSaysWhatTheSecretHoldsUnlessTheSpecDoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		access *binding.Access
		pkcs12 *bool
		want   binding.Layout
	}{
		"public":                 {access: accessTo(nil), want: binding.PEM},
		"public, with stores":    {access: accessTo(nil), pkcs12: new(true), want: binding.Stores},
		"proposed":               {access: proposed(nil), want: binding.Stores},
		"proposed, without them": {access: proposed(nil), pkcs12: new(false), want: binding.PEM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.access.Spec.PKCS12 = test.pkcs12
			if got := test.access.Layout(); got != test.want {
				t.Errorf("the layout is %s, want %s", got, test.want)
			}
		})
	}
}

func TestAUserIsOfStrimzisGroupInEitherForm(t *testing.T) {
	t.Parallel()
	for apiVersion, want := range map[string]binding.Reason{
		"": "", "kafka.strimzi.io/v1": "", "kafka.strimzi.io/v1beta2": "", "v1": binding.InvalidUserKind, "apps/v1": binding.InvalidUserKind,
	} {
		access := proposed(func(a *kafkav1beta2.KafkaAccess) { a.Spec.User.APIVersion = apiVersion })
		if got := problemOf(t, binding.CheckSpec(access)); got != want {
			t.Errorf("apiVersion %q: the reason is %q, want %q", apiVersion, got, want)
		}
	}
	err := binding.CheckSpec(proposed(func(a *kafkav1beta2.KafkaAccess) { a.Spec.User.Kind = "Secret" }))
	const want = "spec.user is of kind Secret in group kafka.strimzi.io, which is not supported. The Secret is not written. " +
		"Set spec.user.kind to KafkaUser and spec.user.apiVersion to kafka.strimzi.io/v1beta2."
	if err == nil || err.Error() != want {
		t.Errorf("the message is %v, want %s", err, want)
	}
}

func TestTheOwnerIsOfItsForm(t *testing.T) {
	t.Parallel()
	access := proposed(nil)
	if owner := binding.Secret(access, "", nil).OwnerReferences[0]; *owner.APIVersion != "kafka.strimzi.io/v1beta2" || *owner.Kind != "KafkaAccess" {
		t.Errorf("the owner is %s %s", *owner.APIVersion, *owner.Kind)
	}
}

func aged(uid types.UID, age int, change func(access *accessv1alpha1.KafkaAccess)) *binding.Access {
	access := accessTo(change)
	access.UID, access.CreationTimestamp = uid, metav1.Unix(int64(1000-age), 0)
	return access
}

func TestTheOldestOfThoseThatAskForOneSecretGetsIt(t *testing.T) {
	t.Parallel()
	elsewhere := func(a *accessv1alpha1.KafkaAccess) { a.Spec.SecretName = "elsewhere" }
	ending := func(a *accessv1alpha1.KafkaAccess) { a.DeletionTimestamp = new(metav1.Unix(1, 0)) }
	for name, test := range map[string]struct {
		others []*binding.Access
		want   types.UID
	}{
		"alone":                    {others: []*binding.Access{aged("5", 10, nil)}},
		"a younger one":            {others: []*binding.Access{aged("1", 9, nil)}},
		"the oldest of two":        {others: []*binding.Access{aged("1", 11, nil), aged("2", 12, nil)}, want: "2"},
		"of one age":               {others: []*binding.Access{aged("4", 10, nil)}, want: "4"},
		"one that is deleted":      {others: []*binding.Access{aged("1", 11, ending)}},
		"one with another Secret":  {others: []*binding.Access{aged("1", 11, elsewhere)}},
		"one of the proposed form": {others: []*binding.Access{proposed(nil)}, want: "1"}, // without a time: older than all
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			access := aged("5", 10, nil)
			older, got := access.Older(test.others), types.UID("")
			if older != nil {
				got = older.UID
			}
			if got != test.want {
				t.Errorf("the older one is %q, want %q", got, test.want)
			}
			want := binding.Reason("")
			if test.want != "" {
				want = binding.ForeignObject
			}
			if reason := problemOf(t, binding.CheckOlder(access, test.others)); reason != want {
				t.Errorf("the reason is %q, want %q", reason, want)
			}
		})
	}
}

func TestASecretTellsWhatItWasWrittenFrom(t *testing.T) {
	t.Parallel()
	source := accessTo(func(a *accessv1alpha1.KafkaAccess) { a.Spec.Kafka.Namespace = "shared" }).Asked()
	source.Listener = "tls"
	text, err := source.Text()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"kafka":{"namespace":"shared","name":"my-cluster"},"listener":"tls","user":{"namespace":"kafka","name":"my-user"}}`
	if text != want {
		t.Errorf("the annotation is %s, want %s", text, want)
	}
	for annotation, known := range map[string]bool{text: true, "": false, "{}": false, "no JSON": false, `{"kafka":{"name":"my-cluster"}}`: false} {
		got, is := binding.SourceOf(map[string]string{"keyturn.dev/source": annotation})
		if is != known {
			t.Errorf("%q is known: %t, want %t", annotation, is, known)
		}
		if diff := cmp.Diff(source, got); known && diff != "" {
			t.Errorf("it is read as another (-want +got):\n%s", diff)
		}
	}
}

func TestConsentNamesNamespaces(t *testing.T) {
	t.Parallel()
	for annotation, want := range map[string]bool{
		"apps": true, "a,apps": true, " apps , b": true, "*": true, "a, *": true,
		"": false, ",": false, "app": false, "apps2": false, "app*": false, "kafka": false,
	} {
		kafka := &kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Annotations: map[string]string{"keyturn.dev/access-from": annotation}}}
		if got := binding.Consents(kafka, "apps"); got != want {
			t.Errorf("%q allows apps: %t, want %t", annotation, got, want)
		}
	}
	if !binding.Consents(&kafkav1.Kafka{ObjectMeta: metav1.ObjectMeta{Namespace: "apps"}}, "apps") {
		t.Error("a Kafka of the same namespace needs consent")
	}
}

func TestARefusalSaysWhichAnnotationToSetWhere(t *testing.T) {
	t.Parallel()
	err := binding.NotAllowed("Kafka", types.NamespacedName{Namespace: "kafka", Name: "my-cluster"}, "apps")
	const want = "Kafka my-cluster does not exist in namespace kafka, or does not allow a KafkaAccess of namespace apps to refer to it. " +
		"The Secret is not written. One that was written from there while it was allowed is deleted. " +
		"Add apps to the annotation keyturn.dev/access-from of that Kafka."
	if reason := problemOf(t, err); reason != binding.NamespaceNotAllowed || err.Error() != want {
		t.Errorf("%s: %v, want %s", reason, err, want)
	}
	if reason := problemOf(t, binding.NotWatched("kafka")); reason != binding.NamespaceNotAllowed {
		t.Errorf("the reason is %s", reason)
	}
}
