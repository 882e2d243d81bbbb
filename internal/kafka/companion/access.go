package companion

import (
	rbacv1 "k8s.io/api/rbac/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacac "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// ServiceAccount renders the account that the pods act as.
func (g Group) ServiceAccount(at Place) *coreac.ServiceAccountApplyConfiguration {
	return coreac.ServiceAccount(g.Name(), at.Namespace).WithLabels(at.Labels).WithOwnerReferences(at.Owner)
}

// Role renders what the pods may do. The operator must have these permissions to apply it.
func (g Group) Role(at Place) *rbacac.RoleApplyConfiguration {
	role := rbacac.Role(g.Name(), at.Namespace).WithLabels(at.Labels).WithOwnerReferences(at.Owner)
	for _, rule := range g.Rules() {
		role.WithRules(rbacac.PolicyRule().
			WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).WithResourceNames(rule.ResourceNames...).WithVerbs(rule.Verbs...))
	}
	return role
}

// RoleBinding renders that the account has the role.
func (g Group) RoleBinding(at Place) *rbacac.RoleBindingApplyConfiguration {
	return rbacac.RoleBinding(g.Name(), at.Namespace).WithLabels(at.Labels).WithOwnerReferences(at.Owner).
		WithRoleRef(rbacac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(g.Name())).
		WithSubjects(rbacac.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(at.Namespace).WithName(g.Name()))
}
