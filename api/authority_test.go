package api_test

import (
	"strings"
	"testing"
)

// What an authority needs whose certificates come from cert-manager.
func TestKafkaRulesOfCertManager(t *testing.T) {
	t.Parallel()
	const (
		caCert     = `caCert: {secretName: my-ca, certificate: ca.crt}`
		notFalse   = "generateCertificateAuthority: Invalid value: generateCertificateAuthority must be false with type cert-manager.io, because the CA belongs to the issuer"
		noIssuer   = "certManager: Required value: certManager.issuerRef.name must be set with type cert-manager.io, because that issuer issues the certificates"
		noCACert   = "certManager: Required value: certManager.caCert must be set with type cert-manager.io, because it holds the CA certificates to trust"
		noSuchKind = "certManager.issuerRef.kind: Invalid value: kind must be Issuer or ClusterIssuer, because group cert-manager.io has no other issuers"
		nameForm   = `should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'`
	)
	withIssuer := func(issuerRef string) string {
		return `{type: cert-manager.io, generateCertificateAuthority: false, certManager: {issuerRef: ` + issuerRef + `, ` + caCert + `}}`
	}
	tests := map[string]struct {
		authority string
		// want is what it is refused for, below the authority, which is @.
		want []string
	}{
		"an issuer needs a name only":                         {authority: withIssuer(`{name: my-issuer}`)},
		"an Issuer is accepted":                               {authority: withIssuer(`{name: my-issuer, kind: Issuer}`)},
		"a ClusterIssuer is accepted":                         {authority: withIssuer(`{name: my-issuer, kind: ClusterIssuer, group: cert-manager.io}`)},
		"an empty group is that of cert-manager":              {authority: withIssuer(`{name: my-issuer, kind: ClusterIssuer, group: ""}`)},
		"an issuer of another group has any kind":             {authority: withIssuer(`{name: my-issuer, kind: AWSPCAClusterIssuer, group: awspca.cert-manager.io}`)},
		"an issuer of another group needs no kind":            {authority: withIssuer(`{name: my-issuer, group: certmanager.step.sm}`)},
		"lifetimes and keys go with it":                       {authority: `{type: cert-manager.io, generateCertificateAuthority: false, generateSecretOwnerReference: false, validityDays: 90, renewalDays: 20, keyAlgorithm: ECDSA, keySize: 384, certManager: {issuerRef: {name: my-issuer}, ` + caCert + `}}`},
		"another kind of cert-manager's own group":            {authority: withIssuer(`{name: my-issuer, kind: StepIssuer, group: cert-manager.io}`), want: []string{noSuchKind}},
		"another kind with an empty group":                    {authority: withIssuer(`{name: my-issuer, kind: StepIssuer, group: ""}`), want: []string{noSuchKind}},
		"another kind without group":                          {authority: withIssuer(`{name: my-issuer, kind: issuer}`), want: []string{noSuchKind}},
		"an empty kind":                                       {authority: withIssuer(`{name: my-issuer, kind: ""}`), want: []string{"certManager.issuerRef.kind: Invalid value: @.certManager.issuerRef.kind in body should be at least 1 chars long"}},
		"an issuer without name":                              {authority: withIssuer(`{kind: Issuer}`), want: []string{"certManager.issuerRef.name: Required value: "}},
		"an issuer with an empty name":                        {authority: withIssuer(`{name: ""}`), want: []string{"certManager.issuerRef.name: Invalid value: @.certManager.issuerRef.name in body should be at least 1 chars long"}},
		"the type alone":                                      {authority: `{type: cert-manager.io}`, want: []string{noCACert, noIssuer, notFalse}},
		"a generated CA":                                      {authority: `{type: cert-manager.io, generateCertificateAuthority: true, certManager: {issuerRef: {name: my-issuer}, ` + caCert + `}}`, want: []string{notFalse}},
		"a CA that is generated because nothing else is said": {authority: `{type: cert-manager.io, certManager: {issuerRef: {name: my-issuer}, ` + caCert + `}}`, want: []string{notFalse}},
		"no issuer":       {authority: `{type: cert-manager.io, generateCertificateAuthority: false, certManager: {` + caCert + `}}`, want: []string{noIssuer}},
		"no caCert":       {authority: `{type: cert-manager.io, generateCertificateAuthority: false, certManager: {issuerRef: {name: my-issuer}}}`, want: []string{noCACert}},
		"an empty caCert": {authority: `{type: cert-manager.io, generateCertificateAuthority: false, certManager: {issuerRef: {name: my-issuer}, caCert: {}}}`, want: []string{"certManager.caCert.certificate: Required value: ", "certManager.caCert.secretName: Required value: "}},
		"empty values in caCert": {
			authority: `{type: cert-manager.io, generateCertificateAuthority: false, certManager: {issuerRef: {name: my-issuer}, caCert: {secretName: "", certificate: ""}}}`,
			want: []string{
				"certManager.caCert.certificate: Invalid value: @.certManager.caCert.certificate in body should be at least 1 chars long",
				"certManager.caCert.secretName: Invalid value: @.certManager.caCert.secretName in body should be at least 1 chars long",
			},
		},
		"a name that no Secret can have": {
			authority: `{type: cert-manager.io, generateCertificateAuthority: false, certManager: {issuerRef: {name: my-issuer}, caCert: {secretName: a/b, certificate: ca.crt}}}`,
			want:      []string{"certManager.caCert.secretName: Invalid value: @.certManager.caCert.secretName in body " + nameForm},
		},
		"another type":                       {authority: `{type: vault.io}`, want: []string{`type: Unsupported value: supported values: "strimzi.io", "cert-manager.io"`}},
		"an empty type":                      {authority: `{type: ""}`, want: []string{`type: Unsupported value: supported values: "strimzi.io", "cert-manager.io"`}},
		"type strimzi.io is the default":     {authority: `{type: strimzi.io}`},
		"certManager without type":           {authority: `{certManager: {issuerRef: {name: my-issuer}, ` + caCert + `}}`},
		"certManager beside type strimzi.io": {authority: `{type: strimzi.io, generateCertificateAuthority: true, certManager: {issuerRef: {name: my-issuer}}}`},
		"an incomplete certManager without type": {
			authority: `{certManager: {issuerRef: {kind: Issuer}}}`,
			want:      []string{"certManager.issuerRef.name: Required value: "},
		},
	}
	cases := map[string]ruleCase{}
	for name, test := range tests {
		for _, authority := range []string{"clusterCa", "clientsCa"} {
			var want []string
			for _, problem := range test.want {
				want = append(want, strings.ReplaceAll("@."+problem, "@", "spec."+authority))
			}
			cases[authority+": "+name] = ruleCase{patch: `spec: {` + authority + `: ` + test.authority + `}`, want: want}
		}
	}
	runRules(t, kafkas, minimalKafka, cases)
}
