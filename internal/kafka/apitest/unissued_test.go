package apitest

import (
	"context"
	"slices"
	"testing"

	"github.com/keyturn/keyturn/api/condition"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/ownca"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
)

// withholding signs for all but one node, whose request is pending while it is withheld.
type withholding struct {
	issuer.Issuer

	node     string
	withheld *bool
}

func (h withholding) Issue(ctx context.Context, request issuer.Request) (issuer.Outcome, error) {
	if *h.withheld && request.Name == h.node {
		return issuer.Pending{Since: request.Now, Why: "approve CertificateRequest " + h.node}, nil
	}
	return h.Issuer.Issue(ctx, request)
}

func TestARotationWaitsForACertificateThatIsNotIssuedAndTrustDoesNot(t *testing.T) {
	t.Parallel()
	w := turning(t, 3)
	withheld := true
	w.issuer = func(ca pki.Authority) issuer.Issuer {
		return withholding{Issuer: ownca.New(ca), node: "my-dual-0", withheld: &withheld}
	}
	w.startOperator()
	before, pods := w.leafOf("my-dual-0"), w.podUIDs()

	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{
		"clusterCa": map[string]any{"keyAlgorithm": string(kafkav1.RSA), "keySize": 2048},
	}})
	w.run(4)
	w.replace(authorities.Cluster)
	w.run(60)

	if !w.leafOf("my-dual-0").Equal(before) {
		t.Error("its certificate was replaced")
	}
	for pod := range pods {
		if anchors := w.published(pod).Trust[contract.ControlPlaneListener]; len(anchors) != 2 {
			t.Errorf("%s is given %d trusted CA certificates, want the old and the new one", pod, len(anchors))
		}
		if signer := w.leafOf(pod).Issuer.String(); (signer == before.Issuer.String()) != (pod == "my-dual-0") {
			t.Errorf("the certificate of %s is issued by %s", pod, signer)
		}
	}
	isPending := func(c condition.Condition) bool { return c.Reason == "CertificatePending" }
	if conditions := w.getKafka().Status.Conditions; !slices.ContainsFunc(conditions, isPending) {
		t.Errorf("conditions are %+v, want CertificatePending", conditions)
	}

	withheld = false
	w.settle()

	w.wantRemainder(firstV, nextV)
	if conditions := w.getKafka().Status.Conditions; slices.ContainsFunc(conditions, isPending) {
		t.Errorf("conditions are %+v, want no CertificatePending", conditions)
	}
	w.wantRSA()
	w.wantRestarts(0)
}
