package authority

import (
	"slices"
)

// Decide says what shall become of one authority. The error is an
// *InvalidResourceError when a person has to act; then nothing is to be written and
// what runs goes on with what it has.
func Decide(in Input) (Decision, error) {
	if problems := in.Spec.problems(in.Kind); len(problems) > 0 {
		return Decision{}, invalid(problems...)
	}
	if in.Spec.Source == UserProvided {
		return decideUserProvided(in)
	}
	o, problems := observe(in)
	if len(problems) > 0 {
		return Decision{}, invalid(problems...)
	}
	p := newPlan(in, o)
	if err := p.settleAuthority(); err != nil {
		return Decision{}, err
	}
	p.keepReplacementRequest()
	p.keepRetained()
	if err := p.settleCertSecret(); err != nil {
		return Decision{}, err
	}
	p.settleKeySecret()
	slices.Sort(p.d.Warnings)
	return p.d, nil
}
