package controller

import (
	"fmt"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/trust"
)

// apartWarnings name the members that the rotation of an authority does not wait for,
// and those that are doubted and waited for, because there are no others.
func (p *pass) apartWarnings() []wanted {
	var list []wanted
	for _, kind := range kinds() {
		plan := p.domain(kind).plan
		for _, apart := range plan.Apart {
			list = append(list, holds(condition.Warning, string(apart.Reason), fmt.Sprintf("%s: %s%s", kind, apart.What, remedyFor(apart))))
		}
		for _, doubted := range plan.Stranded {
			if doubted.Reason == trust.UnknownClaims {
				list = append(list, holds(condition.Warning, string(doubted.Reason), fmt.Sprintf("%s: %s%s", kind, doubted.What, nobodyElse)))
			}
		}
	}
	return list
}

// nobodyElse is what has to be done where every node names an authority that nobody knows.
const nobodyElse = ", and so does every other node: nothing moves, because nobody can tell whether they or the Secrets are right; " +
	"put back what was lost or replaced in the Secrets of the CA, or find out who configures the servers and delete the pods one by one"

func remedyFor(apart trust.Apart) string {
	if apart.Reason != trust.UnknownClaims {
		return ""
	}
	return "; what it claims counts for nothing, and the others go on without it: find out who configures " +
		"its server or answers in the place of its agent, and delete the pod"
}
