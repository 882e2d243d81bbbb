package controller

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
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

func TestAnAgentThatAnswersTooMuchIsNotSaidToBeSilent(t *testing.T) {
	t.Parallel()
	long := (&client.TooLongError{Path: contract.TLSPath, Limit: contract.MaxAnswer, Of: "bytes"}).Error()
	p := &pass{observation: &observation{}, silent: []string{"a", "b"}, heard: map[string]testimony{"b": {unreadable: long}}}

	list := p.warnings()

	if len(list) != 2 || list[0].message != "Pod b: "+long || !strings.Contains(list[1].message, "the agents of pods a do not answer") {
		t.Errorf("it is said: %+v, want that a is silent and what is wrong with b", list)
	}
}

func TestWhatNobodyReadsOfAnAgentIsKept(t *testing.T) {
	t.Parallel()
	long := &client.TooLongError{Path: contract.TLSPath, Limit: contract.MaxAnswer, Of: "bytes"}
	r := New(Options{Connector: talkative{failure: long}, Metrics: NewMetrics()})
	p := passOf(&kafkav1.Kafka{}, nil)
	p.clusterCA.snapshot.Anchors = []trust.Anchor{{ID: "a"}}
	if got := r.ask(t.Context(), p, []*corev1.Pod{readyPod("a")})[0]; got.known || got.unreadable != long.Error() {
		t.Errorf("heard %+v, want why it is not read", got)
	}
}

// talkative connects to agents whose answers nobody reads.
type talkative struct {
	Connector

	failure error
}

func (t talkative) Agents(Access) Agents { return answers{failure: t.failure} }

type answers struct {
	Agents

	failure error
}

func (a answers) TLS(context.Context, client.Node) (contract.TLSReport, error) {
	return contract.TLSReport{}, a.failure
}
