package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const minimalEtcd = `
apiVersion: etcd.database.coreos.com/v1beta2
kind: EtcdCluster
metadata: {name: my-cluster, namespace: etcd}
spec: {size: 3}
`

func TestEtcdClusterRules(t *testing.T) {
	t.Parallel()
	admission := newAdmission(t, etcdClusters, "v1beta2")
	const (
		letters = "metadata: Invalid value: metadata.name must hold only lower-case letters, digits and '-', and must start with a letter, because names of Services are made of it"
		third   = "spec.TLS.dynamic: Invalid value: leaf.validity must be less than a third of clientCA.validity and of peerCA.validity because certificates must be renewable long before their CA expires"
		outside = "path must be relative and must not contain '..' because the file is on the volume"
	)
	for name, test := range map[string]ruleCase{
		"a minimal manifest is accepted":              {patch: `{}`},
		"seven members are accepted":                  {patch: `spec: {size: 7}`},
		"no member":                                   {patch: `spec: {size: 0}`, want: []string{"spec.size: Invalid value: spec.size in body should be greater than or equal to 1"}},
		"eight members":                               {patch: `spec: {size: 8}`, want: []string{"spec.size: Invalid value: spec.size in body should be less than or equal to 7"}},
		"a size is needed":                            {patch: `spec: {size: null}`, want: []string{"spec.size: Required value: "}},
		"a name of 45 characters is accepted":         {patch: `metadata: {name: ` + strings.Repeat("a", 45) + `}`},
		"a name of 46 characters":                     {patch: `metadata: {name: ` + strings.Repeat("a", 46) + `}`, want: []string{"metadata: Invalid value: metadata.name must have at most 45 characters because names of Services, pods and certificates are made of it"}},
		"a name with a dot":                           {patch: `metadata: {name: my.cluster}`, want: []string{letters}},
		"a name that starts with a digit":             {patch: `metadata: {name: 1st}`, want: []string{letters}},
		"a version with a v":                          {patch: `spec: {version: v3.6.16}`, want: []string{`spec.version: Invalid value: spec.version in body should match '^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$'`}},
		"the shortest leaf is accepted":               {patch: `spec: {TLS: {dynamic: {leaf: {validity: 10m}}}}`},
		"a leaf that is too short":                    {patch: `spec: {TLS: {dynamic: {leaf: {validity: 9m59s}}}}`, want: []string{"spec.TLS.dynamic.leaf.validity: Invalid value: validity must be at least 10m because renewal needs time"}},
		"a leaf that is too long for the default CA":  {patch: `spec: {TLS: {dynamic: {leaf: {validity: 14600h}}}}`, want: []string{third}},
		"a leaf just below a third is accepted":       {patch: `spec: {TLS: {dynamic: {leaf: {validity: 14599h}}}}`},
		"a leaf that is too long for its peer CA":     {patch: `spec: {TLS: {dynamic: {peerCA: {validity: 3h}, leaf: {validity: 1h}}}}`, want: []string{third}},
		"a CA that is too short for the default leaf": {patch: `spec: {TLS: {dynamic: {clientCA: {validity: 720h}}}}`, want: []string{third}},
		"a validity that overflows":                   {patch: `spec: {TLS: {dynamic: {clientCA: {validity: 9999999h}}}}`, want: []string{`spec.TLS.dynamic.clientCA.validity: Invalid value: spec.TLS.dynamic.clientCA.validity in body should match '^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}s)?$'`}},
		"an algorithm that is not known":              {patch: `spec: {TLS: {dynamic: {keyAlgorithm: Ed25519}}}`, want: []string{`spec.TLS.dynamic.keyAlgorithm: Unsupported value: supported values: "ECDSA", "RSA"`}},
		"certificates of two sources":                 {patch: `spec: {TLS: {static: {member: {peerSecret: a, serverSecret: b}, operatorSecret: c}, dynamic: {}}}`, want: []string{"spec.TLS: Invalid value: static, dynamic and insecure must not be combined because a cluster has certificates of one source"}},
		"static certificates without Secrets":         {patch: `spec: {TLS: {static: {}}}`, want: []string{"spec.TLS.static.member: Required value: ", "spec.TLS.static.operatorSecret: Required value: "}},
		"static certificates are accepted":            {patch: `spec: {TLS: {static: {member: {peerSecret: a, serverSecret: b}, operatorSecret: c}}}`},
		"an ephemeral claim":                          {patch: `spec: {pod: {ephemeral: true, persistentVolumeClaimSpec: {}}}`, want: []string{"spec.pod: Invalid value: ephemeral must not be combined with persistentVolumeClaimSpec because an ephemeral member has no claim"}},
		"a restore from a backup is accepted":         {patch: `spec: {restore: {backup: {name: nightly}}}`},
		"a restore from a volume is accepted":         {patch: `spec: {restore: {volume: {claimName: data-my-cluster-old-0, path: data/member/snap/db}}}`},
		"a restore from nothing":                      {patch: `spec: {restore: {}}`, want: []string{"spec.restore: Invalid value: exactly one of backup and volume must be set because a cluster begins with one file"}},
		"a restore from two files":                    {patch: `spec: {restore: {backup: {name: nightly}, volume: {claimName: a, path: b}}}`, want: []string{"spec.restore: Invalid value: exactly one of backup and volume must be set because a cluster begins with one file"}},
		"a restore from a volume without a path":      {patch: `spec: {restore: {volume: {claimName: a}}}`, want: []string{"spec.restore.volume.path: Required value: "}},
		"a restore from outside of the volume":        {patch: `spec: {restore: {volume: {claimName: a, path: b/../../c}}}`, want: []string{"spec.restore.volume.path: Invalid value: " + outside}},
		"a restore from an absolute path":             {patch: `spec: {restore: {backup: {name: nightly, path: /backup/c}}}`, want: []string{"spec.restore.backup.path: Invalid value: " + outside}},
		"a restore from a file with dots is accepted": {patch: `spec: {restore: {volume: {claimName: a, path: "..a/b..c"}}}`},
		"a restore from its own volume":               {patch: `spec: {restore: {volume: {claimName: data-my-cluster-0, path: data/member/snap/db}}}`, want: []string{"spec.restore: Invalid value: restore.volume.claimName must not be the claim of a member of this EtcdCluster because that is the volume to restore into: create the EtcdCluster under another name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, got := admission.admit(t, merged(t, minimalEtcd, test.patch))
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
