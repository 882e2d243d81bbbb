package controller

import (
	"slices"
	"testing"

	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestAWarningAboutAnAuthorityNamesItsObjectOnce(t *testing.T) {
	t.Parallel()
	const said = "Secret my-clients-ca: ca.key is a placeholder"
	p := &pass{observation: &observation{}}
	p.clientsCA.Decision = authority.Decision{Warnings: []string{said}}

	p.noteAuthority(authority.ClientsCA)

	if list := p.warnings(); len(list) != 1 || list[0].message != said {
		t.Errorf("it is said: %+v, want %q", list, said)
	}
}

func TestAMemberThatBothAuthoritiesSetApartIsToldOnce(t *testing.T) {
	t.Parallel()
	liar := trust.Apart{Member: "my-dual-1", Reason: trust.UnknownClaims, What: "my-dual-1 agent claims"}
	late := trust.Apart{Member: "my-dual-1", Reason: trust.NoSigner, What: "my-dual-1 has none"}
	p := &pass{observation: &observation{}}
	p.clusterCA.plan = trust.Plan{Apart: []trust.Apart{liar, late}}
	p.clientsCA.plan = trust.Plan{Apart: []trust.Apart{liar}}

	list := p.apartWarnings()

	want := []string{"cluster-ca, clients-ca: my-dual-1 agent claims" + remedyFor(liar), "cluster-ca: my-dual-1 has none"}
	if !slices.EqualFunc(list, want, func(w wanted, message string) bool { return w.message == message }) {
		t.Errorf("it is said: %+v, want %q", list, want)
	}
}
