package apitest

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/entityoperator"
	"github.com/keyturn/keyturn/internal/kafka/model"
)

const entityOperatorName = clusterName + "-entity-operator"

// besideUsers is a cluster at rest whose Kafka asks for a user operator.
func besideUsers(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.besides = func(c model.Cluster) []companion.Companion {
		w.companions = entityoperator.Companions(authority.WithStores)(c)
		return w.companions
	}
	w.startOperator()
	w.dualRole(2)
	w.entityOperator(&kafkav1.EntityOperator{UserOperator: &kafkav1.UserOperator{}})
	w.settle()
	w.pin()
	return w
}

func (w *world) entityOperator(wanted *kafkav1.EntityOperator) {
	w.t.Helper()
	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"entityOperator": wanted}})
}

// entityObjects are those that the user operator beside the nodes consists of.
func entityObjects() map[string]client.Object {
	return map[string]client.Object{
		"Deployment": &appsv1.Deployment{}, "ServiceAccount": &corev1.ServiceAccount{}, "Role": &rbacv1.Role{}, "RoleBinding": &rbacv1.RoleBinding{},
	}
}

func TestAUserOperatorRunsBesideTheNodes(t *testing.T) {
	t.Parallel()
	w := besideUsers(t)
	for kind, object := range entityObjects() {
		w.get(entityOperatorName, object)
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != clusterName {
			t.Errorf("the %s belongs to %+v, want the Kafka", kind, owners)
		}
		if got := object.GetLabels()["strimzi.io/component-type"]; got != "entity-operator" {
			t.Errorf("the %s has the component type %q", kind, got)
		}
	}
	w.wantPartnersOf(firstV)
	for _, p := range w.partners {
		if got := p.loaded.chain[0].Subject.String(); got != "CN="+clusterName+"-entity-user-operator,O=io.strimzi" {
			t.Errorf("it presents a certificate of %s, want the super user of Strimzi's name", got)
		}
	}
	before := w.faulty.writes
	w.run(5)
	if w.faulty.writes != before {
		t.Errorf("%d writes at rest, want none", w.faulty.writes-before)
	}
}

func TestAReplacementWaitsForTheUserOperatorBesideTheNodes(t *testing.T) {
	t.Parallel()
	w := besideUsers(t)
	pods, nodes := w.partnerPods(), w.nodeUIDs()
	w.silent[entityOperatorName] = true
	w.startOperator() // one that has received no report so far

	w.replace(authorities.Cluster)
	w.run(30)
	if got := w.anchors(authorities.Cluster); len(got) == 1 {
		t.Errorf("anchors %v: the replacement has completed without a report of the user operator", got)
	}
	w.wantCondition("ClusterCATrust", entityOperatorName)
	delete(w.silent, entityOperatorName)
	w.settle()

	w.wantPartnersOf(nextV)
	if got := w.partnerPods(); !slices.Equal(got, pods) {
		t.Errorf("pods %v became %v, want the same", pods, got)
	}
	if got := w.nodeUIDs(); !maps.Equal(got, nodes) {
		t.Error("a node was restarted")
	}
}

func TestAUserOperatorThatIsNotWantedAnyMoreIsRemoved(t *testing.T) {
	t.Parallel()
	w := besideUsers(t)
	w.entityOperator(nil)
	w.settle()
	for kind, object := range entityObjects() {
		if !w.missing(object, entityOperatorName) {
			t.Errorf("the %s is left", kind)
		}
	}
	if !w.missing(&corev1.Secret{}, clusterName+"-entity-user-operator-certs") {
		t.Error("the Secret is left")
	}
	if w.missing(&corev1.ServiceAccount{}, clusterName+"-kafka") {
		t.Error("the ServiceAccount of the nodes is gone")
	}
	w.replace(authorities.Cluster)
	w.settle()
}
