package apitest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/attestation"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// guarded is a namespace whose etcd members the policy of the chart guards, and no other namespace.
type guarded struct {
	t         *testing.T
	person    client.Client
	namespace string
	settings  attestation.Settings
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	person := connect(t, apiServer)
	namespace := kubetest.Namespace(t, person, "guarded-")
	g := &guarded{t: t, person: person, namespace: namespace, settings: attestation.Settings{
		Name: "etcd-members-" + namespace, OperatorUser: "system:serviceaccount:keyturn:" + namespace, Namespaces: []string{namespace},
	}}
	g.install()
	return g
}

// expected is the policy as the chart installs it.
func (g *guarded) expected() attestation.Expected {
	g.t.Helper()
	expected, err := attestation.Expect(g.settings)
	if err != nil {
		g.t.Fatal(err)
	}
	return expected
}

// stored are the policy and its binding as the API server has them.
func (g *guarded) stored() (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	g.t.Helper()
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range []client.Object{policy, binding} {
		if err := g.person.Get(g.t.Context(), client.ObjectKey{Name: g.settings.Name}, object); err != nil {
			g.t.Fatal(err)
		}
	}
	return policy, binding
}

// remove deletes the policy and waits until it refuses nothing.
func (g *guarded) remove() {
	g.t.Helper()
	policy, binding := g.stored()
	for _, object := range []client.Object{policy, binding} {
		if err := g.person.Delete(g.t.Context(), object); err != nil {
			g.t.Fatal(err)
		}
	}
	g.eventually("the policy is out of force", func() bool { return !g.isInForce() })
}

func (g *guarded) isInForce() bool {
	return apierrors.IsForbidden(g.person.Create(g.t.Context(), g.member("forged"), client.DryRunAll))
}

// install creates policy and binding and waits until they are in force.
func (g *guarded) install() {
	g.t.Helper()
	expected, meta := g.expected(), metav1.ObjectMeta{Name: g.settings.Name}
	for _, object := range []client.Object{
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: expected.Policy},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: expected.Binding},
	} {
		if err := g.person.Create(g.t.Context(), object); err != nil {
			g.t.Fatal(err)
		}
	}
	g.eventually("the policy is in force", g.isInForce)
}

// eventually waits for what the API server does by itself.
func (g *guarded) eventually(what string, holds func() bool) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			g.t.Fatalf("%s: not within a minute", what)
		case <-ticker.C:
		}
	}
}

// as is a client of a user with all rights that RBAC can grant, so that only the policy refuses anything.
func (g *guarded) as(user string, groups ...string) client.Client {
	g.t.Helper()
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append([]string{"system:masters", "system:authenticated"}, groups...)}
	return connect(g.t, config)
}

// asPod connects as the API server knows the token that is bound to a pod, with all rights.
func asPod(pod *corev1.Pod) *rest.Config {
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName, Groups: []string{"system:masters"},
		Extra: map[string][]string{
			"authentication.kubernetes.io/pod-name": {pod.Name}, "authentication.kubernetes.io/pod-uid": {string(pod.UID)},
		},
	}
	return config
}

func (g *guarded) operator() client.Client { return g.as(g.settings.OperatorUser) }

func (g *guarded) kubelet() client.Client { return g.as("system:node:worker", "system:nodes") }

// member is a pod as the operator creates it for a member.
func (g *guarded) member(name string) *corev1.Pod {
	pod := other(g.namespace, name)
	pod.Labels = map[string]string{
		model.ManagedByLabel: model.Manager, model.AppLabel: "etcd", model.ClusterLabel: cluster, model.MemberLabel: name,
	}
	pod.Annotations = map[string]string{keyturnagent.PinAnnotation: "{}", model.VersionAnnotation: "3.6.16", "example.com/note": "a"}
	pod.Spec.ServiceAccountName = name
	return pod
}

// other is a pod that is no member's.
func other(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "example.com/init"}},
			Containers:     []corev1.Container{{Name: "etcd", Image: "example.com/etcd:1"}},
		},
	}
}

// running creates the pod of a member with its account.
func (g *guarded) running(name string) *corev1.Pod {
	g.t.Helper()
	pod := g.member(name)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: name}}
	if err := g.person.Create(g.t.Context(), account); err != nil {
		g.t.Fatal(err)
	}
	if err := g.operator().Create(g.t.Context(), pod); err != nil {
		g.t.Fatal(err)
	}
	return pod
}

// token is a client with the token of an account that is bound to a pod, and the rights that the test gives the account.
func (g *guarded) token(account string, pod *corev1.Pod) client.Client {
	g.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: account}}
	if err := g.kubelet().SubResource("token").Create(g.t.Context(), owner, request); err != nil {
		g.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(apiServer)
	config.BearerToken = request.Status.Token
	return connect(g.t, config)
}

func merge(format string, values ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, values...))
}

func annotating(key, value string) client.Patch {
	return merge(`{"metadata": {"annotations": {%q: %q}}}`, key, value)
}

func labelling(key, value string) client.Patch {
	return merge(`{"metadata": {"labels": {%q: %q}}}`, key, value)
}

// refusedByPolicy fails the test unless the policy has refused something, for the reason that holds a word.
func (g *guarded) refusedByPolicy(what, word string, err error) {
	g.t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), g.settings.Name) || !strings.Contains(err.Error(), word) {
		g.t.Errorf("%s: %v, want that policy %s refuses it with %q", what, err, g.settings.Name, word)
	}
}
