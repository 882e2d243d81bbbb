package kubetest

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: name}}
}

func TestNoWriteIsSentFromTheOneOnAtWhichTheOperatorCrashes(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().Build()
	writer := &Writer{Client: api, CrashAt: 2}
	if err := writer.Create(t.Context(), secret("first")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"second", "third"} {
		if err := writer.Create(t.Context(), secret(name)); !errors.Is(err, ErrCrash) {
			t.Errorf("the write of %s ends with %v, want a crash", name, err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(secret(name)), secret("")); err == nil {
			t.Errorf("%s was created", name)
		}
	}
	if writer.Sent != 1 || writer.Written != 1 || !writer.Crashed {
		t.Errorf("%d writes were sent, %d succeeded, crashed is %t", writer.Sent, writer.Written, writer.Crashed)
	}
}

func TestAWriteThatFailsIsSentAndNotWritten(t *testing.T) {
	t.Parallel()
	var seen []string
	writer := &Writer{Client: fake.NewClientBuilder().Build(), After: func(write Write) { seen = append(seen, write.String()) }}
	if err := writer.Delete(t.Context(), secret("absent")); err == nil {
		t.Error("what does not exist is deleted")
	}
	if err := writer.Count("delete", "a topic", func() error { return nil }); err != nil {
		t.Error(err)
	}
	if writer.Sent != 2 || writer.Written != 1 || !slices.Equal(seen, []string{"delete a topic"}) {
		t.Errorf("%d writes were sent, %d succeeded: %q", writer.Sent, writer.Written, seen)
	}
}

func TestAWriteThatIsRefusedIsNotSent(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	writer := &Writer{Client: fake.NewClientBuilder().Build(), Before: func(Write) error { return refused }}
	if err := writer.Create(t.Context(), secret("mine")); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
	if writer.Sent != 0 || writer.Last.String() != "create Secret mine" {
		t.Errorf("%d writes were sent, the last is %s", writer.Sent, writer.Last)
	}
}
