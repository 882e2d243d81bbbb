package controller

import (
	"encoding/json"
	"slices"
	"strings"
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

// Both are warned of, each in its own words: one does nothing anywhere, the other was meant for something else.
func TestAMisspelledFieldIsToldFromOneWithoutEffect(t *testing.T) {
	t.Parallel()
	p := &pass{observation: &observation{}}
	p.kafka.Namespace, p.kafka.Name = "kafka", "my"
	spec := `{"spec": {"entityOperator": {}, "kafka": {"listeners": [{"name": "a", "authentification": {"type": "tls"}}]}}}`
	if err := json.Unmarshal([]byte(spec), &p.written); err != nil {
		t.Fatal(err)
	}

	told := map[string]string{}
	for _, w := range p.warnings() {
		told[w.reason] = w.message
	}

	for reason, want := range map[string]string{
		reasonUnknownFields:       "Kafka kafka/my: there are no such fields, and what they say is not done: spec.kafka.listeners[0].authentification;",
		reasonFieldsWithoutEffect: "Kafka kafka/my: these fields are kept and have no effect: spec.entityOperator;",
	} {
		if !strings.HasPrefix(told[reason], want) {
			t.Errorf("%s says %q, want %q", reason, told[reason], want)
		}
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
