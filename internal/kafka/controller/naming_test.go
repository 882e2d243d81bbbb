package controller

import (
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

func TestACAIsCalledByItsSHA256WhereverPeopleReadOfIt(t *testing.T) {
	t.Parallel()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: "cluster-ca v0"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: authority.Day, Now: noon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	cert := ca.Certificate()
	fingerprint := pki.FingerprintOf(cert)
	d := &domain{kind: authorities.Cluster}
	d.Known = append(d.Known, cert)
	d.Snapshot = trust.Snapshot{Issuing: evidence.AnchorID(cert), Anchors: []trust.Anchor{{ID: evidence.AnchorID(cert), Key: evidence.KeyID(cert)}}}
	_, collected := collecting()
	announcer{recorder: collected}.authorityChanged(smallKafka(), authorities.Cluster, authority.Transition{Kind: authority.Created, Certificate: fingerprint})
	event := ""
	for _, note := range collected.notes {
		event = note
	}
	stranger := clusterOf(smallKafka(), nil).unknownTo(publication.Report{
		Roles:        map[publication.Role]publication.RoleReport{"plain-9092": {Trusts: []string{fingerprint.String()}}},
		Certificates: map[string][]byte{fingerprint.String(): cert.Raw},
	})
	for where, text := range map[string]string{
		"the condition":                     d.message("my"),
		"the event of a step":               d.sentence(trust.Step{Kind: trust.Lead, Anchor: evidence.AnchorID(cert)}),
		"the event of a certificate":        event,
		"the condition about foreign nodes": strings.Join(stranger, ", "),
	} {
		if !strings.Contains(text, fingerprint.String()[:8]) || strings.Contains(text, pki.SHA1Name(cert)[:8]) {
			t.Errorf("%s does not call it %.8s: %q", where, fingerprint, text)
		}
	}
}
