package kube

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BoundElsewhere names a RoleBinding by which others than a ServiceAccount would get rights that are about to be written into a
// Role; empty when there is none. account is the name of the ServiceAccount, in the namespace of the Role.
//
// A client that may create Roles and RoleBindings can bind a Role of any name while the Role has no more
// rights than the client. Once the Role has the rights, the API server denies that to clients without
// them, so that bindings need no check then.
func BoundElsewhere(ctx context.Context, live client.Reader, role types.NamespacedName, rules []rbacv1.PolicyRule, account string) (string, error) {
	stored := &rbacv1.Role{}
	err := live.Get(ctx, role, stored)
	if err == nil && equality.Semantic.DeepEqual(stored.Rules, rules) {
		return "", nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("reading Role %s: %w", role, err)
	}
	var bindings rbacv1.RoleBindingList
	if err := live.List(ctx, &bindings, client.InNamespace(role.Namespace)); err != nil {
		return "", fmt.Errorf("listing RoleBindings of namespace %s: %w", role.Namespace, err)
	}
	isOthers := func(subject rbacv1.Subject) bool {
		return subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != role.Namespace || subject.Name != account
	}
	for i := range bindings.Items {
		binding := &bindings.Items[i]
		if binding.RoleRef.Kind == "Role" && binding.RoleRef.Name == role.Name && slices.ContainsFunc(binding.Subjects, isOthers) {
			return binding.Name, nil
		}
	}
	return "", nil
}
