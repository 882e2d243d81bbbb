package harness

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// As is a client with the rights of another user.
func (k *Kubernetes) As(user string, groups ...string) (client.Client, error) {
	config := rest.CopyConfig(k.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return k.with(config, user)
}

// AsKubelet is a client with the rights of the kubelet of a node.
func (k *Kubernetes) AsKubelet(node string) (client.Client, error) {
	return k.As("system:node:"+node, "system:nodes")
}

// AsPod is a client with a token of the account of a pod, bound to the pod as the one is that its kubelet mounts.
func (k *Kubernetes) AsPod(ctx context.Context, pod *corev1.Pod) (client.Client, error) {
	kubelet, err := k.AsKubelet(pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	request := TokenFor(pod)
	if err := kubelet.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("requesting a token for pod %s: %w", pod.Name, err)
	}
	config := rest.AnonymousClientConfig(k.Config)
	config.BearerToken = request.Status.Token
	return k.with(config, "pod "+pod.Name)
}

// TokenFor requests a token that is bound to a pod.
func TokenFor(pod *corev1.Pod) *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
}

func (k *Kubernetes) with(config *rest.Config, who string) (client.Client, error) {
	connected, err := client.New(config, client.Options{Scheme: k.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connecting as %s: %w", who, err)
	}
	return connected, nil
}

// GrantPods gives subjects the role admin in a namespace, and all rights on the subresources of pods there.
func (k *Kubernetes) GrantPods(ctx context.Context, namespace string, subjects ...rbacv1.Subject) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "all-of-pods"}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{corev1.GroupName}, Verbs: []string{"get", "create", "patch", "update"},
		Resources: []string{"pods", "pods/status", "pods/ephemeralcontainers", "pods/resize", "pods/binding", "bindings"},
	}}}
	bindings := []*rbacv1.RoleBinding{
		{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}, Subjects: subjects},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "administrators"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}, Subjects: subjects,
		},
	}
	if err := k.Create(ctx, role); err != nil {
		return fmt.Errorf("creating a role of administrators: %w", err)
	}
	for _, binding := range bindings {
		if err := k.Create(ctx, binding); err != nil {
			return fmt.Errorf("granting the role of administrators: %w", err)
		}
	}
	return nil
}
