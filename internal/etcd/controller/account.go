package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// obstacle is what is in the way of a cluster until a person removes it.
type obstacle interface {
	error
	problem() *model.Problem
}

// boundElsewhereError is a Role that would give others the right to the pod of a member or a backup.
type boundElsewhereError struct{ role, binding string }

func (e *boundElsewhereError) Error() string {
	return fmt.Sprintf("RoleBinding %s gives Role %s to others than its ServiceAccount", e.binding, e.role)
}

func (e *boundElsewhereError) problem() *model.Problem {
	return model.BoundElsewhere(e.role, e.binding)
}

// foreignKeyError is a Secret in the operator's namespace that is not known to be of this cluster.
type foreignKeyError struct{ secret, uid string }

func (e *foreignKeyError) Error() string {
	return fmt.Sprintf("Secret %s is not labelled with UID %s", e.secret, e.uid)
}

func (e *foreignKeyError) problem() *model.Problem { return model.ForeignKey(e.secret, e.uid) }

// applyAccount applies the identity of a member, unless others would get its right to request certificates.
func (p *pass) applyAccount(ctx context.Context, member string) error {
	if err := p.checkGrant(ctx, p.inNamespace(member)); err != nil {
		return err
	}
	return p.applyOwned(ctx, p.etcd, p.cluster.IsOrphan, p.cluster.Account(member))
}

// checkGrant returns a boundElsewhereError when others than its account would get the right to a pod. Role and account have the
// name of the pod.
func (r *Reconciler) checkGrant(ctx context.Context, pod types.NamespacedName) error {
	binding, err := kube.BoundElsewhere(ctx, r.options.Live, pod, model.PodRules(pod.Name), pod.Name)
	if err != nil {
		return fmt.Errorf("checking the Role of pod %s: %w", pod.Name, err)
	}
	if binding != "" {
		return &boundElsewhereError{pod.Name, binding}
	}
	return nil
}
