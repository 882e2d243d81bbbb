package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEtcdPKIRules(t *testing.T) {
	t.Parallel()
	admission := newAdmission(t, etcdPKIs, "v1alpha1")
	for name, test := range map[string]ruleCase{
		"a minimal manifest is accepted": {patch: `{}`},
		"another name":                   {patch: `metadata: {name: another}`, want: []string{"metadata: Invalid value: metadata.name must be default because the operator reads no other EtcdPKI"}},
		"a mode that is not known":       {patch: `spec: {mode: Vault}`, want: []string{`spec.mode: Unsupported value: supported values: "SelfSigned", "Outside"`}},
		"a chain is accepted":            {patch: `spec: {mode: Outside, certificates: {peer: "-----BEGIN CERTIFICATE-----"}}`},
		"a private key for clients": {
			patch: `spec: {certificates: {client: "-----BEGIN EC PRIVATE KEY-----"}}`,
			want:  []string{"spec.certificates.client: Invalid value: client must hold certificates only because every reader of the EtcdPKI sees a private key in it: delete that key and replace what it was used for"},
		},
		"a private key for peers": {
			patch: `spec: {certificates: {peer: "-----BEGIN PRIVATE KEY-----"}}`,
			want:  []string{"spec.certificates.peer: Invalid value: peer must hold certificates only because every reader of the EtcdPKI sees a private key in it: delete that key and replace what it was used for"},
		},
		"a chain that is too long": {
			patch: `spec: {certificates: {peer: ` + strings.Repeat("a", 131073) + `}}`,
			want:  []string{"spec.certificates.peer: Too long: may not be more than 131072 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, got := admission.admit(t, merged(t, "apiVersion: keyturn.dev/v1alpha1\nkind: EtcdPKI\nmetadata: {name: default}\n", test.patch))
			want := test.want
			if want == nil {
				want = []string{}
				decodeTyped(t, stored)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("refused for other reasons than expected (-want +got):\n%s", diff)
			}
		})
	}
}
