package model_test

import (
	"crypto/x509"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
)

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

func three(t *testing.T) *etcdv1beta2.EtcdCluster {
	t.Helper()
	return read(t, filepath.Join("testdata", "three", "input.yaml"))
}

func TestWhatCannotBeActedOnIsAProblem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(spec *etcdv1beta2.EtcdClusterSpec)
		want   string
	}{
		"an unknown minor":               {func(s *etcdv1beta2.EtcdClusterSpec) { s.Version = "3.4.30" }, "Set spec.version to 3.5.33, 3.6.14"},
		"a patch that can be held up":    {func(s *etcdv1beta2.EtcdClusterSpec) { s.Version = "3.6.13" }, "etcd 3.6.13 is not supported"},
		"the oldest patch that is taken": {func(s *etcdv1beta2.EtcdClusterSpec) { s.Version = "3.6.14" }, ""},
		"an older minor that is taken":   {func(s *etcdv1beta2.EtcdClusterSpec) { s.Version = "3.5.35" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := three(t)
			test.change(&etcd.Spec)
			_, findings := model.Resolve(etcd, settings())
			var got string
			if findings.Problem != nil {
				got = findings.Problem.Message
			}
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("the problem is %q, want %q", got, test.want)
			}
		})
	}
}

func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	etcd := three(t)
	etcd.Spec.Pod.BusyboxImage = "busybox"
	etcd.Spec.Pod.EtcdEnv = append(etcd.Spec.Pod.EtcdEnv, corev1.EnvVar{Name: "POD_UID", Value: "forged"}, corev1.EnvVar{Name: "GODEBUG"})
	_, findings := model.Resolve(etcd, settings())
	want := []string{
		"spec.pod.busyboxImage", "spec.pod.etcdEnv[ETCD_LISTEN_CLIENT_HTTP_URLS]",
		"spec.pod.etcdEnv[GODEBUG]", "spec.pod.etcdEnv[POD_UID]",
	}
	if diff := cmp.Diff(want, findings.Ignored); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
}

func TestChecksForCorruptionAreSetAsTheVersionHasThem(t *testing.T) {
	t.Parallel()
	variable := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	old := []corev1.EnvVar{
		variable("ETCD_EXPERIMENTAL_CORRUPT_CHECK_TIME", "4h"), variable("ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED", "true"),
		variable("ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_TIME", "1m"),
	}
	now := []corev1.EnvVar{variable("ETCD_CORRUPT_CHECK_TIME", "4h"), variable("ETCD_COMPACT_HASH_CHECK_TIME", "1m")}
	gates := func(value string) []corev1.EnvVar { return []corev1.EnvVar{variable("ETCD_FEATURE_GATES", value)} }
	const off, initial = "--experimental-initial-corrupt-check=true", "--feature-gates=InitialCorruptCheck=true"
	for name, c := range map[string]struct {
		version string
		env     []corev1.EnvVar
		flag    string
		// passed and ignored are how many variables are.
		passed, ignored int
	}{
		"3.5":                               {"3.5.35", old, off, 3, 0},
		"3.5 with variables of 3.6":         {"3.5.35", append(gates("CompactHashCheck=true"), now...), off, 0, 3},
		"3.6":                               {"3.6.16", now, initial, 2, 0},
		"3.6 with variables of 3.5":         {"3.6.16", old, initial, 0, 3},
		"feature gates":                     {"3.6.16", gates("LeaseCheckpoint=true, CompactHashCheck=true"), "--feature-gates=CompactHashCheck=true,InitialCorruptCheck=true,LeaseCheckpoint=true", 0, 0},
		"the check is off":                  {"3.6.16", gates("InitialCorruptCheck=false"), "--feature-gates=InitialCorruptCheck=false", 0, 0},
		"a gate about the address of peers": {"3.6.16", gates("CompactHashCheck=true,SetMemberLocalAddr=true"), initial, 0, 1},
		"all gates":                         {"3.6.16", gates("AllAlpha=true"), initial, 0, 1},
		"a gate without a value":            {"3.6.16", gates("CompactHashCheck"), initial, 0, 1},
		"a flag in a gate":                  {"3.6.16", gates("CompactHashCheck=true --client-cert-auth=false"), initial, 0, 1},
		"gates from elsewhere":              {"3.6.16", []corev1.EnvVar{{Name: "ETCD_FEATURE_GATES", ValueFrom: &corev1.EnvVarSource{}}}, initial, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := three(t)
			etcd.Spec.Version, etcd.Spec.Pod.EtcdEnv = c.version, c.env
			cluster, findings := model.Resolve(etcd, settings())
			pod, err := cluster.Pod("my-cluster-0", model.Start{Version: c.version, Members: []string{"my-cluster-0"}}, "{}")
			if err != nil {
				t.Fatal(err)
			}
			container := pod.Spec.Containers[0]
			found := slices.DeleteFunc(slices.Clone(container.Command), func(flag string) bool {
				return !strings.HasPrefix(flag, "--feature-gates=") && !strings.HasPrefix(flag, "--experimental-")
			})
			ignored := slices.DeleteFunc(findings.Ignored, func(path string) bool { return !strings.HasPrefix(path, "spec.pod.etcdEnv[") })
			if !slices.Equal(found, []string{c.flag}) || len(container.Env)-3 != c.passed || len(ignored) != c.ignored {
				t.Errorf("flags %v, variables %v, ignored %v", found, container.Env[3:], ignored)
			}
		})
	}
}

func TestACertificateHasTheExactNamesOfItsMember(t *testing.T) {
	t.Parallel()
	cluster, _ := model.Resolve(three(t), settings())
	peer := []string{"my-cluster-1.my-cluster-peer.etcd.svc", "my-cluster-1.my-cluster-peer.etcd.svc.cluster.local", "10.0.0.7", "fd00::7"}
	client := append(slices.Clone(peer), "my-cluster-client", "my-cluster-client.etcd", "my-cluster-client.etcd.svc",
		"my-cluster-client.etcd.svc.cluster.local", "localhost", "127.0.0.1")
	for plane, names := range map[contract.Plane][]string{contract.PeerPlane: peer, contract.ClientPlane: client} {
		got, err := cluster.SANs(plane, "my-cluster-1", []string{"10.0.0.7", "fd00::7"})
		if err != nil {
			t.Fatal(err)
		}
		want, err := pki.NewSANs(names...)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Equal(want) {
			t.Errorf("plane %s: names are %v, want %v", plane, got, want)
		}
	}
}

func TestNamesOfMembersAreTold(t *testing.T) {
	t.Parallel()
	names := model.Names{Namespace: "etcd", Cluster: "my-cluster"}
	for name, want := range map[string]int{"my-cluster-0": 0, "my-cluster-12": 12, "my-cluster-01": -1, "my-cluster--1": -1, "my-cluster-a": -1, "other-0": -1} {
		ordinal, isMember := names.Ordinal(name)
		if isMember != (want >= 0) || isMember && ordinal != want {
			t.Errorf("%s: got %d, %t, want %d", name, ordinal, isMember, want)
		}
	}
}

func TestAMemberIsToldItsAnchorsAndNoKey(t *testing.T) {
	t.Parallel()
	peer, client := pkitest.CA(t, "peer-ca", noon()), pkitest.CA(t, "client-ca", noon())
	trust := model.Trust{Anchors: map[contract.Plane][]*x509.Certificate{
		contract.PeerPlane: {peer.Certificate()}, contract.ClientPlane: {client.Certificate()},
	}}
	first, data, err := model.MemberSecret(trust, nil, 7, noon())
	if err != nil {
		t.Fatal(err)
	}
	want := map[publication.Role][]string{
		"peer": {pki.FingerprintOf(peer.Certificate()).String()}, "client": {pki.FingerprintOf(client.Certificate()).String()},
	}
	if diff := cmp.Diff(want, first.Trust); diff != "" || first.Revision != 8 {
		t.Errorf("revision %d after 7, trust differs (-want +got):\n%s", first.Revision, diff)
	}
	if len(data) != 3 || !slices.Equal(data["peer-ca.crt"], pki.EncodeBundle(peer.Certificate())) {
		t.Errorf("the Secret holds %d entries, want publication and two anchors", len(data))
	}
	again, _, err := model.MemberSecret(trust, data, 8, noon().Add(1))
	if err != nil || again.Revision != 8 {
		t.Errorf("the same trust has revision %d, %v, want 8", again.Revision, err)
	}
	if len(data[agent.PublicationKey]) == 0 {
		t.Error("there is no publication")
	}
}

func TestTheVersionGoesUpByOneMinor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ running, spec, next, says string }{
		"a new cluster":       {"", "3.6.16", "3.6.16", ""},
		"the same version":    {"3.6.16", "3.6.16", "3.6.16", ""},
		"the next minor":      {"3.5.35", "3.6.16", "3.6.16", ""},
		"a later patch":       {"3.6.16", "3.6.17", "3.6.17", ""},
		"an earlier patch":    {"3.6.16", "3.6.15", "3.6.15", ""},
		"a downgrade":         {"3.6.16", "3.5.35", "3.6.16", "Set spec.version to a version of 3.6."},
		"an unknown minor":    {"3.6.16", "3.9.0", "3.6.16", "Set spec.version to 3.5.33, 3.6.14 or a later patch of it."},
		"a patch too old":     {"3.5.35", "3.6.13", "3.5.35", "Set spec.version to 3.5.33, 3.6.14 or a later patch of it."},
		"what we do not know": {"3.4.1", "3.5.35", "3.5.35", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			etcd := three(t)
			etcd.Status.CurrentVersion, etcd.Spec.Version = test.running, test.spec
			cluster, findings := model.Resolve(etcd, settings())
			said := ""
			if findings.Refused != nil {
				said = findings.Refused.Message
			}
			if cluster.Version != test.next || (said == "") != (test.says == "") || !strings.Contains(said, test.says) || findings.Problem != nil {
				t.Errorf("the next version is %s (%q), want %s", cluster.Version, said, test.next)
			}
		})
	}
}
