package cli

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	etcddomains "github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/rotation/rotationtest"
	"github.com/keyturn/keyturn/internal/trust"
)

// etcdRecord is the record of a CA of an EtcdCluster at rest, with three members and, of the client CA, an application.
func etcdRecord(plane contract.Plane, changes ...rotationtest.Change) rotation.Record {
	words, domain := etcddomains.Words("kafka", plane), etcddomains.Recorded(plane)
	r := rotationtest.AtRest(3)
	r.Words, r.Cluster, r.Domain = words, "my-cluster", domain
	r.Versions = map[string]string{"Secret kafka.my-cluster-" + domain: "999"}
	for id, name := range r.Anchors {
		name.CommonName = strings.Replace(name.CommonName, "cluster-ca", "my-cluster "+domain, 1)
		r.Anchors[id] = name
	}
	r.Snapshot.Policy = trust.Policy{RestartMargin: rotationtest.Day}
	r.RestartSeconds, r.ReloadSeconds = 2.4, 1.5
	own, agent, holder := words.Planes[0].Plane, words.Planes[1].Plane, words.Planes[2].Plane
	loaded := func(plane trust.Plane, verifies bool, of trust.Publication) trust.Role {
		role := trust.Role{Name: plane.Name, Plane: plane, Verifies: verifies, Presents: true}
		role.Evidence = trust.Evidence{Process: trust.ProcessRunning, Loaded: of.To(plane), Since: rotationtest.Now().Add(-rotationtest.Day)}
		return role
	}
	for i := range r.Snapshot.Members {
		m := &r.Snapshot.Members[i]
		m.Published.Late = nil
		if m.Kind == trust.Operator {
			m.Roles = []trust.Role{loaded(agent, false, m.Published)}
			continue
		}
		facts := r.Members[m.ID]
		delete(r.Members, m.ID)
		m.ID = trust.MemberID(strings.Replace(string(m.ID), "my-dual", "my-cluster", 1))
		m.Roles = []trust.Role{loaded(own, true, m.Published), loaded(agent, true, m.Published)}
		r.Members[m.ID] = facts
	}
	if plane == contract.ClientPlane {
		given := trust.Publication{Identity: trust.Identity{Signer: rotationtest.KeyA}}
		r.Snapshot.Members = append(r.Snapshot.Members, trust.Member{
			ID: "EtcdAccess shop/my-app with a certificate of CA aaaaaaaa", Kind: trust.Holder, Published: given, Roles: []trust.Role{loaded(holder, false, given)},
		})
	} else {
		r.Snapshot.Members = r.Snapshot.Members[:3] // the operator is a client
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

// recordedEtcd is an EtcdCluster with its records where the operator is.
func recordedEtcd(t *testing.T, records ...rotation.Record) client.Client {
	t.Helper()
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "keyturn", Name: "kafka.my-cluster-trust", Labels: map[string]string{"keyturn.dev/cluster-uid": "1"}}, BinaryData: map[string][]byte{}}
	for _, record := range records {
		encoded, err := record.Encode()
		if err != nil {
			t.Fatal(err)
		}
		stored.BinaryData[rotation.Key(record.Domain)] = encoded
	}
	return fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(append(clusterOf("1"), stored)...).Build()
}

// clusterOf is an EtcdCluster with a UID, with the Secrets of its CAs.
func clusterOf(uid types.UID) []client.Object {
	objects := etcdCAs("", nil)
	objects[0].SetUID(uid)
	return objects
}

func TestPlanTellsWhatWillHappenToAnEtcdCluster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		changes []rotationtest.Change
		args    []string
	}{
		"etcd-at-rest":   {},
		"etcd-replace":   {args: []string{"--replace", "client-ca"}},
		"etcd-peer":      {args: []string{"--replace", "peer-ca"}},
		"etcd-renew":     {args: []string{"--renew", "client-ca"}},
		"etcd-distrust":  {args: []string{"--replace", "client-ca", "--distrust"}},
		"etcd-under-way": {changes: []rotationtest.Change{rotationtest.Replaced, rotationtest.Crossed}},
		"etcd-silent": {changes: []rotationtest.Change{
			rotationtest.Replaced, rotationtest.Crossed, rotationtest.Silent("my-cluster-1", rotationtest.Now().Add(-time.Hour)),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := recordedEtcd(t, etcdRecord(contract.ClientPlane, test.changes...), etcdRecord(contract.PeerPlane))
			out, err := callOn(t.Context(), api, planCommand, append([]string{"etcd/my-cluster"}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("plan", name+".txt"), out)
		})
	}
}

func TestStatusOfAnEtcdClusterShowsHowFarARotationIs(t *testing.T) {
	t.Parallel()
	api := recordedEtcd(t, etcdRecord(contract.ClientPlane, rotationtest.Replaced, rotationtest.Crossed), etcdRecord(contract.PeerPlane))
	out, err := callOn(t.Context(), api, statusCommand, "etcd/my-cluster")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("status", "etcd-rotating.txt"), out)
}

// storedOf is the ConfigMap with the records, as another API server would have it.
func storedOf(t *testing.T, api client.Client) *corev1.ConfigMap {
	t.Helper()
	stored := &corev1.ConfigMap{}
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: "keyturn", Name: "kafka.my-cluster-trust"}, stored); err != nil {
		t.Fatal(err)
	}
	stored.ResourceVersion = ""
	return stored
}

func TestPlanRefusesForEtcdWhatItCannotTell(t *testing.T) {
	t.Parallel()
	static := etcdCAs("", nil)
	static[0].(*etcdv1beta2.EtcdCluster).Spec.TLS = &etcdv1beta2.TLSPolicy{Static: &etcdv1beta2.StaticTLS{}}
	recorded := recordedEtcd(t, etcdRecord(contract.ClientPlane))
	for name, test := range map[string]struct {
		api  client.Client
		args []string
		says string
	}{
		"a CA of Kafka":                {recorded, []string{"--replace", "cluster-ca"}, `"cluster-ca" is not a CA of an etcd cluster: name client-ca or peer-ca`},
		"a CA that is not recorded":    {recorded, []string{"--replace", "peer-ca"}, "planning for the peer CA: the operator has recorded nothing"},
		"another operator":             {recorded, []string{"--operator-namespace", "other"}, "--operator-namespace says where the operator is"},
		"a cluster of the name before": {fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(append(clusterOf("2"), storedOf(t, recorded))...).Build(), nil, "has recorded nothing"},
		"Secrets of people":            {fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(static...).Build(), nil, "has no CA of the operator"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := callOn(t.Context(), test.api, planCommand, append([]string{"etcd/my-cluster"}, test.args...)...)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v, want %q", err, test.says)
			}
		})
	}
	if _, err := callOn(t.Context(), recorded, planCommand, "etcd/my-cluster", "--replace", "peer-ca"); !errors.As(err, new(noRecordError)) {
		t.Errorf("error %v", err)
	}
}
