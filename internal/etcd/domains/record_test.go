package domains_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/enroll"
	"github.com/keyturn/keyturn/internal/evidence"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// withClients is a cluster whose client CA has signed for the operator and for an application.
func withClients(t *testing.T) *domains.Seen {
	t.Helper()
	s := seen(t, operator(t))
	client := s.Secrets[contract.ClientPlane]
	ca := authority.PublishedCAs(client.Cert.Data)[0]
	key, err := pki.ParsePrivateKey(client.Key.Data[authority.KeyKey])
	if err != nil {
		t.Fatal(err)
	}
	signer, err := pki.NewAuthority(ca, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := signer.Issue(key.Signer().Public(), pki.LeafSpec{Subject: pki.Subject{CommonName: "operator"}, Usages: pki.BothUsages(), Validity: 24 * time.Hour, Now: s.Now})
	if err != nil {
		t.Fatal(err)
	}
	s.Operator = append(s.Operator, leaf)
	s.Ledger["1"] = enroll.Issued{Plane: contract.ClientPlane, CA: pki.FingerprintOf(ca).String(), PodUID: "uid-1", Namespace: "shop", IssuedAt: s.Now, NotAfter: s.Now.Add(time.Hour)}
	return s
}

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	s := withClients(t)
	for _, plane := range contract.Planes() {
		secrets := s.Secrets[plane]
		secrets.Versions = map[string]string{"Secret " + s.Cluster.Names.CAKeySecret(plane): "7"}
		s.Secrets[plane] = secrets
		record := s.Record(plane, decide(t, s, plane))
		encoded, err := record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		read, err := domains.Words("etcd", plane).Parse(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := read.Encode(); err != nil || !bytes.Equal(again, encoded) {
			t.Errorf("with error %v, what is read is encoded otherwise", err)
		}
		text, err := json.Marshal(read)
		if err != nil || strings.Contains(string(text), "PRIVATE") || read.Domain != string(plane)+"-ca" || len(read.Versions) != 1 {
			t.Errorf("it is %s, with error %v", text, err)
		}
		for i := range read.Snapshot.Members {
			for j, role := range read.Snapshot.Members[i].Roles {
				if want := record.Snapshot.Members[i].Roles[j].Plane; role.Plane != want {
					t.Errorf("role %q of %s is in plane %q, and was in %q", role.Name, read.Snapshot.Members[i].ID, role.Plane.Name, want.Name)
				}
			}
		}
		ids := make([]string, 0, len(read.Snapshot.Members))
		for _, member := range read.Snapshot.Members {
			id, _, _ := strings.Cut(string(member.ID), " with ")
			ids = append(ids, id)
		}
		slices.Sort(ids)
		want := []string{"my-cluster-0"}
		if plane == contract.ClientPlane {
			want = []string{"EtcdAccess shop/my-app", string(evidence.OperatorMember), "my-cluster-0"}
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("members (-want +got):\n%s", diff)
		}
	}
}

// What a phase says names the objects of etcd, and the ways that etcd has.
func TestMessagesNameTheSecretsOfEtcd(t *testing.T) {
	t.Parallel()
	s := withClients(t)
	record := s.Record(contract.ClientPlane, decide(t, s, contract.ClientPlane))
	subject := record.Subject()
	if want := "etcd.my-cluster-client-ca"; subject.KeySecret != want || subject.CertSecret != want+"-cert" {
		t.Errorf("they are called %s and %s", subject.KeySecret, subject.CertSecret)
	}
	for _, phase := range record.Words.Phases() {
		if phase == "" {
			t.Error("a phase has no name")
		}
	}
}

func TestHowLongAPublicationTookIsMeasuredOnce(t *testing.T) {
	t.Parallel()
	published := publication.Publication{Revision: 2, PublishedAt: noon()}
	member := domains.Member{Name: "my-cluster-0", Published: published, State: evidence.Running, Report: publication.Report{Mounted: &published}}
	for name, test := range map[string]struct {
		before, mounted int64
		isNew           bool
	}{
		"mounted since the record before":       {1, 2, true},
		"mounted before":                        {2, 2, false},
		"not mounted yet":                       {1, 1, false},
		"of a member that was not known before": {0, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := member
			m.Report.Mounted = &publication.Publication{Revision: test.mounted}
			before := rotation.Record{Members: map[trust.MemberID]rotation.MemberFacts{"my-cluster-0": {Mounted: test.before}}}
			took, isNew := m.MountedAfter(map[string]rotation.Record{"client-ca": before}, noon().Add(3*time.Second))
			if isNew != test.isNew || isNew && took != 3*time.Second {
				t.Errorf("after %s, new: %t", took, isNew)
			}
		})
	}
}
