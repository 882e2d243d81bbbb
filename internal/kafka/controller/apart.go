package controller

import (
	"fmt"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/trust"
)

// apartWarnings name the members that the rotation of an authority does not wait for.
func (p *pass) apartWarnings() []wanted {
	var list []wanted
	for _, kind := range kinds() {
		for _, apart := range p.domain(kind).plan.Apart {
			list = append(list, holds(condition.Warning, string(apart.Reason), apartMessage(kind, apart)))
		}
	}
	return list
}

func apartMessage(kind authority.Kind, apart trust.Apart) string {
	remedy := ""
	if apart.Reason == trust.UnknownClaims {
		remedy = "; what it claims counts for nothing, and the others go on without it: find out who configures " +
			"its server or answers in the place of its agent, and delete the pod"
	}
	return fmt.Sprintf("%s: %s%s", kind, apart.What, remedy)
}
