package authority

import "github.com/keyturn/keyturn/internal/pki"

// checkFitness rejects a CA whose leaves verifiers would reject, before any peer is told to trust it. It
// tries a leaf with the names of the cluster, which is thrown away. What the CA's certificates say
// themselves has been checked before.
func (u *userCA) checkFitness() *Problem {
	if u.key.IsZero() {
		return nil
	}
	if err := u.tryIssue(u.in.Names.Holders.usages()); err != nil {
		return u.unfit(err)
	}
	return nil
}

func (u *userCA) unfit(why error) *Problem {
	return &Problem{
		Object: u.in.certObject(), Wrong: CertKey + ": every certificate that it signs would be refused: " + why.Error(),
		Remedy: "use a CA that may sign certificates with the names and usages of the cluster",
	}
}

// tryIssue has a leaf verified by those who trust the CA that issues, as nodes do, and
// by those who trust the last of its issuers alone, as applications may.
func (u *userCA) tryIssue(usages []pki.Usage) error {
	issuing, last := u.chain[0], u.chain[len(u.chain)-1]
	ca, err := pki.NewAuthority(issuing, u.key)
	if err != nil {
		return err
	}
	spec := pki.LeafSpec{
		Subject: u.in.Names.Leaf, Usages: usages, Validity: u.in.Spec.Usable().Validity(), Now: u.in.Now,
	}
	if u.in.Names.Holders == Members {
		spec.SANs = u.in.SANs // users have names of their own
	}
	if err := ca.TryIssue(spec, nil, issuing); err != nil || len(u.chain) == 1 {
		return err
	}
	return ca.TryIssue(spec, u.chain[:len(u.chain)-1], last)
}
