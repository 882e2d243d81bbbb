package apitest

import (
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/api/condition"
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
	return besideOperators(t, &kafkav1.EntityOperator{UserOperator: &kafkav1.UserOperator{}})
}

// besideOperators is a cluster at rest whose Kafka asks for operators.
func besideOperators(t *testing.T, wanted *kafkav1.EntityOperator) *world {
	t.Helper()
	w := newWorld(t)
	w.besides = func(c model.Cluster) []companion.Companion {
		w.companions = entityoperator.Companions(authority.WithStores, w.gates)(c)
		return w.companions
	}
	w.startOperator()
	w.dualRole(2)
	w.entityOperator(wanted)
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
	before := w.faulty.Written
	w.run(5)
	if w.faulty.Written != before {
		t.Errorf("%d writes at rest, want none", w.faulty.Written-before)
	}
}

// Users of an issuer need the gate and rights on Certificates, wherever the user operator runs.
func TestAUserOperatorBesideTheNodesServesUsersOfAnIssuer(t *testing.T) {
	t.Parallel()
	w, _ := clientsOutside(t)
	w.besides = entityoperator.Companions(authority.WithStores, w.gates)
	w.startOperator()
	w.entityOperator(&kafkav1.EntityOperator{UserOperator: &kafkav1.UserOperator{}})
	w.run(5)
	w.wantNoWarnings()

	deployment, role := &appsv1.Deployment{}, &rbacv1.Role{}
	w.get(entityOperatorName, deployment)
	if args := deployment.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--feature-gates=+CertManagerCaType") {
		t.Errorf("it is started with %q", args)
	}
	w.get(entityOperatorName, role)
	mayCreate := func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, "cert-manager.io") && slices.Contains(rule.Resources, "certificates") && slices.Contains(rule.Verbs, "create")
	}
	if !slices.ContainsFunc(role.Rules, mayCreate) {
		t.Errorf("it may do %+v, and create no Certificate", role.Rules)
	}
}

func both() *kafkav1.EntityOperator {
	return &kafkav1.EntityOperator{TopicOperator: &kafkav1.TopicOperator{}, UserOperator: &kafkav1.UserOperator{}}
}

func TestBothOperatorsOfAPodFollowAReplacementByThemselves(t *testing.T) {
	t.Parallel()
	w := besideOperators(t, both())
	pods, nodes := w.partnerPods(), w.nodeUIDs()
	if len(pods) != 2 || w.pairs != 1 {
		t.Fatalf("%v run in %d pods, want two operators in one", pods, w.pairs)
	}

	w.replace(authorities.Cluster)
	w.settle()

	w.wantPartnersOf(nextV)
	if got := w.partnerPods(); !slices.Equal(got, pods) {
		t.Errorf("pods %v became %v, want the same", pods, got)
	}
	if got := w.nodeUIDs(); !maps.Equal(got, nodes) {
		t.Error("a node was restarted")
	}
}

// The word of one operator says nothing of the other in its pod.
func TestAReplacementWaitsForEachOperatorOfAPod(t *testing.T) {
	t.Parallel()
	for _, name := range []string{clusterName + "-entity-topic-operator", entityOperatorName} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := besideOperators(t, both())
			w.silent[name] = true
			w.startOperator() // one that has received no report so far

			w.replace(authorities.Cluster)
			w.run(30)

			if got := w.anchors(authorities.Cluster); len(got) == 1 {
				t.Errorf("anchors %v: the replacement has completed without a report of %s", got, name)
			}
			delete(w.silent, name)
			w.settle()
			w.wantPartnersOf(nextV)
		})
	}
}

func TestAnOperatorJoinsAndLeavesAnotherBesideTheNodes(t *testing.T) {
	t.Parallel()
	w := besideUsers(t)
	nodes := w.nodeUIDs()

	w.entityOperator(both())
	w.settle()
	w.wantPartnersOf(firstV)
	if got := w.partnerPods(); len(got) != 2 {
		t.Errorf("%v run, want both operators", got)
	}

	w.patch(&kafkav1.Kafka{}, clusterName, map[string]any{"spec": map[string]any{"entityOperator": map[string]any{"userOperator": nil}}})
	w.settle()
	w.wantPartnersOf(firstV)
	if got := w.partnerPods(); len(got) != 1 {
		t.Errorf("%v run, want the topic operator alone", got)
	}
	w.replace(authorities.Cluster)
	w.settle()
	w.wantPartnersOf(nextV)
	if got := w.nodeUIDs(); !maps.Equal(got, nodes) {
		t.Error("a node was restarted for an operator")
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

// asMallory is a tenant who may create Roles and RoleBindings and read Services, and has no right to Secrets.
func (w *world) asMallory() client.Client {
	w.t.Helper()
	own := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.namespace, Name: name} }
	w.create(&rbacv1.Role{ObjectMeta: own("tenant"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}},
	}})
	w.create(bindingOf(own("tenant"), "tenant"))
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"system:authenticated"}}
	hers, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	return hers
}

// bindingOf gives mallory a Role.
func bindingOf(meta metav1.ObjectMeta, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "mallory"}},
	}
}

func TestARoleThatOthersAreBoundToGetsNoRights(t *testing.T) {
	t.Parallel()
	for name, binding := range map[string]string{"by a binding of her own": "hers", "by a binding of the operator's name": entityOperatorName} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.besides = entityoperator.Companions(authority.WithStores, w.gates)
			w.startOperator()
			w.dualRole(2)
			w.settle()
			hers := w.asMallory()
			labels := map[string]string{"strimzi.io/cluster": clusterName}
			prepared := &rbacv1.Role{
				ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: entityOperatorName, Labels: labels},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}}},
			}
			bound := bindingOf(metav1.ObjectMeta{Namespace: w.namespace, Name: binding, Labels: labels}, entityOperatorName)
			for _, object := range []client.Object{prepared, bound} {
				if err := hers.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			w.entityOperator(&kafkav1.EntityOperator{UserOperator: &kafkav1.UserOperator{}})
			w.run(5)
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: w.namespace, Verb: "get", Resource: "secrets"},
			}}
			if err := hers.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed {
				t.Error("she may read all Secrets of the namespace")
			}
			w.wantCondition(condition.Warning, "RoleBinding "+binding, "delete it")
		})
	}
}
