package apitest

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/rotation"
)

// stored is the ConfigMap with the records; nil where there is none.
func (w *world) stored() *corev1.ConfigMap {
	w.t.Helper()
	stored := &corev1.ConfigMap{}
	err := w.person.Get(w.t.Context(), client.ObjectKey{Namespace: w.private, Name: w.clusterNames().Record()}, stored)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return stored
}

// recorded is what is recorded of the CA of a plane.
func (w *world) recorded(plane contract.Plane) rotation.Record {
	w.t.Helper()
	stored := w.stored()
	if stored == nil {
		w.t.Fatal("nothing is recorded")
	}
	record, err := domains.Words(w.namespace, plane).Parse(stored.BinaryData[rotation.Key(domains.Recorded(plane))])
	if err != nil {
		w.t.Fatal(err)
	}
	return record
}

func (w *world) phase(plane contract.Plane) rotation.Phase {
	w.t.Helper()
	return w.recorded(plane).Status(w.clock.Now()).Phase
}

// What a plan says before a replacement is what happens then.
func TestAPlanOfTheRecordForetellsAReplacement(t *testing.T) {
	t.Parallel()
	w := withApplication(t, 3)
	for _, plane := range contract.Planes() {
		w.comesTo("the CA is recorded as trusted alone", func() bool { return w.phase(plane) == rotation.Trusted })
	}
	planned, err := w.recorded(contract.ClientPlane).WithChange(rotation.Replace, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	forecast := planned.Ahead(w.clock.Now())
	if len(forecast.Nodes) != 3 || len(forecast.Clients) != 2 {
		t.Fatalf("the plan is about members %v, and clients %v", forecast.Nodes, forecast.Clients)
	}
	var phases []rotation.Phase
	w.asks(w.clusterNames().CAKeySecret(contract.ClientPlane), domains.ForceReplaceAnnotation, "true")
	moved := false
	w.comesTo("the new CA is trusted alone", func() bool {
		if issuer, _ := w.granted(); issuer == "my-cluster client-ca v1" && !moved {
			moved = true
			w.clock.SetTime(w.clock.Now().Add(time.Minute))
			w.asks(w.clusterNames().CAKeySecret(contract.ClientPlane), domains.ClientsMovedAnnotation, w.clock.Now().Format(time.RFC3339))
		}
		if phase := w.phase(contract.ClientPlane); len(phases) == 0 || phases[len(phases)-1] != phase {
			phases = append(phases, phase)
		}
		return w.loadedAlone(" v1") || w.rotating() == "" && len(w.anchors()) == 1 && w.anchors()[0].Certificate.Subject.CommonName == "my-cluster client-ca v1"
	})
	w.comesTo("it is recorded", func() bool { return w.phase(contract.ClientPlane) == rotation.Trusted })
	for _, phase := range []rotation.Phase{rotation.SwitchingLeaves, rotation.WaitingForDistrust} {
		if !slices.Contains(phases, phase) {
			t.Errorf("the phases were %v, without %s", phases, phase)
		}
	}
	for _, node := range forecast.Nodes {
		if restarts := w.agentOf(string(node.Node)).starts - 1; restarts != node.Restarts {
			t.Errorf("etcd of member %s was restarted %d times, and the plan said %d", node.Node, restarts, node.Restarts)
		}
	}
	after := w.recorded(contract.ClientPlane)
	if after.RestartSeconds == 0 || after.ReloadSeconds == 0 {
		t.Errorf("a restart is recorded to take %v s, and a publication to be mounted after %v s", after.RestartSeconds, after.ReloadSeconds)
	}
	if len(after.Versions) != 3 || len(after.Members) != 4 {
		t.Errorf("versions %v and members %v are recorded", after.Versions, after.Members)
	}
	w.atRest()
}

// An operator that starts continues from what is recorded, and writes nothing that says the same.
func TestAnOperatorThatStartsGoesOnFromTheRecord(t *testing.T) {
	t.Parallel()
	w := reporting(t, 3)
	w.asks(w.clusterNames().CAKeySecret(contract.PeerPlane), domains.ForceReplaceAnnotation, "true")
	w.comesTo("the rotation is recorded", func() bool { return !w.recorded(contract.PeerPlane).StartedAt.IsZero() })
	began := w.recorded(contract.PeerPlane).StartedAt
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.restart()
	w.reconcile()
	if again := w.recorded(contract.PeerPlane).StartedAt; !again.Equal(began) {
		t.Errorf("the rotation began at %s, and for the next operator at %s", began, again)
	}
	w.comesTo("the new CA is trusted alone", func() bool { return w.phase(contract.PeerPlane) == rotation.Trusted && w.rotating() == "" })
	w.atRest()
	before := w.stored().ResourceVersion
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.restart()
	w.comesTo("the agents have reported", func() bool {
		return w.condition(etcdv1beta2.ConditionCertificatesLoaded).Status == metav1.ConditionTrue
	})
	w.reconcile()
	if after := w.stored().ResourceVersion; after != before {
		t.Errorf("the next operator has written the record again")
	}
}

func TestTheRecordGoesWithItsCluster(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	if w.stored() == nil {
		t.Fatal("nothing is recorded")
	}
	w.delete(w.cluster())
	for range 10 {
		w.reconcile()
		w.deletePods()
	}
	if w.stored() != nil {
		t.Error("the record of a cluster that was deleted is left")
	}
}

func TestWhatIsNoRecordIsNotOverwritten(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	stored := w.stored()
	stored.Labels, stored.BinaryData, stored.Data = nil, nil, map[string]string{"of": "another program"}
	if err := w.person.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	w.restart()
	_, _ = w.try()
	w.until("ForeignObject")
	if left := w.stored(); left.Data["of"] != "another program" {
		t.Errorf("it is overwritten: %v", left.Data)
	}
}

// A record that cannot be read has no effect on the next operator, and is written again.
func TestABrokenRecordIsWrittenAgain(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	stored := w.stored()
	stored.BinaryData = map[string][]byte{rotation.Key("peer-ca"): []byte("{")}
	if err := w.person.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.comesTo("it is recorded again", func() bool {
		return len(w.stored().BinaryData) == 2 && w.phase(contract.PeerPlane) == rotation.Trusted
	})
}
