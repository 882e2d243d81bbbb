package controller

import (
	"context"
	"fmt"

	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube"
)

// obstacle is what is in the way of a cluster until a person removes it.
type obstacle interface {
	error
	problem() *model.Problem
}

// boundElsewhereError is a Role that would give others the right to a member's pod.
type boundElsewhereError struct{ role, binding string }

func (e *boundElsewhereError) Error() string {
	return fmt.Sprintf("RoleBinding %s gives Role %s to others than its ServiceAccount", e.binding, e.role)
}

func (e *boundElsewhereError) problem() *model.Problem {
	return model.BoundElsewhere(e.role, e.binding)
}

// applyAccount applies the identity of a member, unless others would get its right to request certificates.
func (p *pass) applyAccount(ctx context.Context, member string) error {
	binding, err := kube.BoundElsewhere(ctx, p.options.Live, p.inNamespace(member), model.MemberRules(member), member)
	if err != nil {
		return fmt.Errorf("checking the Role of member %s: %w", member, err)
	}
	if binding != "" {
		return &boundElsewhereError{member, binding}
	}
	return p.applyAll(ctx, p.cluster.Account(member))
}
