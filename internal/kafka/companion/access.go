package companion

import (
	rbacv1 "k8s.io/api/rbac/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacac "k8s.io/client-go/applyconfigurations/rbac/v1"
)

// ServiceAccount renders the account that the pods act as.
func (c Companion) ServiceAccount(at Place) *coreac.ServiceAccountApplyConfiguration {
	return coreac.ServiceAccount(c.Name, at.Namespace).WithLabels(at.Labels).WithOwnerReferences(at.Owner)
}

// Role renders what the pods may do. Whoever applies it must have these rights.
func (c Companion) Role(at Place) *rbacac.RoleApplyConfiguration {
	role := rbacac.Role(c.Name, at.Namespace).WithLabels(at.Labels).WithOwnerReferences(at.Owner)
	for _, rule := range c.Rules {
		role.WithRules(rbacac.PolicyRule().
			WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).WithResourceNames(rule.ResourceNames...).WithVerbs(rule.Verbs...))
	}
	return role
}

// RoleBinding renders that the account has the role.
func (c Companion) RoleBinding(at Place) *rbacac.RoleBindingApplyConfiguration {
	return rbacac.RoleBinding(c.Name, at.Namespace).WithLabels(at.Labels).WithOwnerReferences(at.Owner).
		WithRoleRef(rbacac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(c.Name)).
		WithSubjects(rbacac.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(at.Namespace).WithName(c.Name))
}
