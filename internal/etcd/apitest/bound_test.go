package apitest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gives is a RoleBinding that gives the Role of the first member to a subject.
func (w *world) gives(name string, to rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: w.meta(name), Subjects: []rbacv1.Subject{to},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: first},
	}
}

// prepared is a Role of the first member's name, with few rights, that says it is the cluster's.
func (w *world) prepared() *rbacv1.Role {
	w.t.Helper()
	owner := w.cluster()
	role := &rbacv1.Role{ObjectMeta: w.meta(first), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}}}}
	role.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "etcd.database.coreos.com/v1beta2", Kind: "EtcdCluster", Name: owner.Name, UID: owner.UID, Controller: new(true),
	}}
	return role
}

// The right to change a member's pod is the right to request certificates in its name.
func TestTheRoleOfAMemberIsNotWrittenWhileItIsBoundToOthers(t *testing.T) {
	t.Parallel()
	mallory := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}
	for name, c := range map[string]struct {
		to         rbacv1.Subject
		isPrepared bool
	}{
		"to a person, before there is a Role":       {to: mallory},
		"to a person, with a Role of few rights":    {to: mallory, isPrepared: true},
		"to the account of another pod":             {to: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "shop"}},
		"to an account of the name, somewhere else": {to: rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: first, Namespace: "default"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, of(1))
			if c.to.Kind == rbacv1.ServiceAccountKind && c.to.Namespace == "" {
				c.to.Namespace = w.namespace
			}
			binding := w.gives("hers", c.to)
			w.create(binding)
			if c.isPrepared {
				w.create(w.prepared())
			}
			if message := w.until("RoleBoundElsewhere"); !strings.Contains(message, "RoleBinding hers") || !strings.Contains(message, "Role "+first) {
				t.Errorf("the message is %q", message)
			}
			role := &rbacv1.Role{}
			err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: first}, role)
			if !c.isPrepared && !apierrors.IsNotFound(err) || c.isPrepared && (err != nil || role.Rules[0].Resources[0] != "services") {
				t.Errorf("the Role was written: %v, %v", err, role.Rules)
			}
			if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: first}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
				t.Errorf("the pod: %v, want that it is not created", err)
			}
			w.atRest()
			w.delete(binding)
			w.bring()
		})
	}
}

func TestARoleThatWasEmptiedIsNotFilledAgainWhileItIsBoundToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.bring()
	role := &rbacv1.Role{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: first}, role); err != nil {
		t.Fatal(err)
	}
	role.Rules = w.prepared().Rules
	if err := w.person.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	binding := w.gives("hers", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"})
	w.create(binding)
	w.until("RoleBoundElsewhere")
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: first}, role); err != nil || role.Rules[0].Resources[0] != "services" {
		t.Errorf("the Role has the rights again: %v, %v", role.Rules, err)
	}
	w.delete(binding)
	w.bring()
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: first}, role); err != nil || role.Rules[0].Resources[0] == "services" {
		t.Errorf("the Role has no rights after the binding is gone: %v, %v", role.Rules, err)
	}
}
