package apitest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	keyturnagent "github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func TestOnlyThePodItselfChangesItsRequests(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pod, neighbour := g.running("my-cluster-0"), g.running("my-cluster-1")
	g.mayPatchPods("my-cluster-0", "my-cluster-1")
	unbound, ofNeighbour, own := g.token(pod.Name, nil), g.token(neighbour.Name, neighbour), g.token(pod.Name, pod)
	sharing := other(g.namespace, "other") // is a pod of others with the account of the member
	sharing.Spec.ServiceAccountName = pod.Name
	if err := g.person.Create(t.Context(), sharing); err != nil {
		t.Fatal(err)
	}
	ofSharing, predecessor := g.token(pod.Name, sharing), pod.DeepCopy()
	predecessor.UID = "of-the-pod-before"
	for _, key := range []string{contract.RequestAnnotation, contract.PeerPlane.RequestAnnotation(), contract.ClientPlane.RequestAnnotation()} {
		for who, someone := range map[string]client.Client{
			"an administrator of the namespace": g.person, "the operator": g.operator(), "the kubelet": g.kubelet(),
			"the token of another member": ofNeighbour, "a token that is bound to no pod": unbound,
			"a token of another pod with its account": ofSharing, "the pod of the same name before it": connect(t, asPod(predecessor)),
			"its account, impersonated": g.as("system:serviceaccount:" + g.namespace + ":" + pod.Name),
		} {
			g.refusedByPolicy(who, "kubeEtcdCSR", someone.Patch(t.Context(), pod.DeepCopy(), annotating(key, "forged")))
			if strings.Contains(who, "token") {
				continue // it has no right to the status anyway
			}
			g.refusedByPolicy(who+" by the status", "kubeEtcdCSR", someone.Status().Patch(t.Context(), pod.DeepCopy(), annotating(key, "forged")))
		}
		if err := own.Patch(t.Context(), pod.DeepCopy(), annotating(key, "asked")); err != nil {
			t.Errorf("the pod itself: %v", err)
		}
		g.refusedByPolicy("removal by an administrator", "kubeEtcdCSR", g.person.Patch(t.Context(), pod.DeepCopy(), merge(`{"metadata": {"annotations": {%q: null}}}`, key)))
		if err := g.operator().Patch(t.Context(), pod.DeepCopy(), merge(`{"metadata": {"annotations": {%q: null}}}`, key)); err != nil {
			t.Errorf("the operator removes a request: %v", err)
		}
	}
}

// mayPatchPods gives accounts the right to change all pods of the namespace.
func (g *guarded) mayPatchPods(accounts ...string) {
	g.t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "patch-pods"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{corev1.GroupName}, Resources: []string{"pods"}, Verbs: []string{"get", "patch"},
	}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	}
	for _, account := range accounts {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: g.namespace, Name: account})
	}
	for _, object := range []client.Object{role, binding} {
		if err := g.person.Create(g.t.Context(), object); err != nil {
			g.t.Fatal(err)
		}
	}
}

func TestOnlyTheOperatorChangesWhatAMemberRelysOn(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pod := g.running("my-cluster-0")
	changes := map[string]client.Patch{
		"a pin":       annotating(keyturnagent.PinAnnotation, "other"),
		"a revision":  annotating(keyturnagent.PublishedAnnotation, "7"),
		"a restart":   annotating(contract.RestartAnnotation, "7"),
		"a version":   annotating(model.VersionAnnotation, "3.5.33"),
		"its CAs":     annotating(model.TrustAnnotation, "other"),
		"a backup":    labelling(model.BackupOfLabel, cluster),
		"a role":      labelling(model.RoleLabel, "voter"),
		"its cluster": labelling(model.ClusterLabel, "other"),
		"its manager": merge(`{"metadata": {"labels": {%q: null}}}`, model.ManagedByLabel),
	}
	for _, plane := range contract.Planes() {
		changes["a certificate for "+string(plane)] = annotating(plane.CertificateAnnotation(), "forged")
	}
	changes["a certificate"] = annotating(contract.CertificateAnnotation, "forged")
	for what, change := range changes {
		for who, someone := range map[string]client.Client{"an administrator": g.person, "the kubelet": g.kubelet()} {
			g.refusedByPolicy(who+" changes "+what, "Only the etcd operator", someone.Patch(t.Context(), pod.DeepCopy(), change))
			g.refusedByPolicy(who+" changes "+what+" by the status", "Only the etcd operator", someone.Status().Patch(t.Context(), pod.DeepCopy(), change))
		}
	}
	for what, change := range changes {
		if err := g.operator().Patch(t.Context(), pod.DeepCopy(), change, client.DryRunAll); err != nil {
			t.Errorf("the operator changes %s: %v", what, err)
		}
	}
}

func TestTheOwnerOfAMemberStays(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pod := g.running("my-cluster-0")
	owned := merge(`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]}}`)
	g.refusedByPolicy("an administrator", "may change the owner", g.person.Patch(t.Context(), pod.DeepCopy(), owned))
	collector := g.as("system:serviceaccount:kube-system:generic-garbage-collector")
	for who, someone := range map[string]client.Client{"the operator": g.operator(), "the garbage collector": collector} {
		if err := someone.Patch(t.Context(), pod.DeepCopy(), owned); err != nil {
			t.Errorf("%s: %v", who, err)
		}
		if err := someone.Patch(t.Context(), pod.DeepCopy(), merge(`{"metadata": {"ownerReferences": null}}`)); err != nil {
			t.Errorf("%s removes it: %v", who, err)
		}
	}
	g.refusedByPolicy("the garbage collector changes a label", "Only the etcd operator", collector.Patch(t.Context(), pod.DeepCopy(), labelling(model.RoleLabel, "voter")))
}

func TestAMemberChangesNothingElseOfItsPod(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pod := g.running("my-cluster-0")
	g.mayPatchPods("my-cluster-0")
	own := g.token(pod.Name, pod)
	for what, change := range map[string]client.Patch{
		"a label":           labelling("example.com/label", "a"),
		"an annotation":     annotating("example.com/note", "b"),
		"a new annotation":  annotating("example.com/other", "b"),
		"no annotation":     merge(`{"metadata": {"annotations": {"example.com/note": null}}}`),
		"its image":         client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"containers": [{"name": "etcd", "image": "example.com/etcd:2"}]}}`)),
		"a deadline":        merge(`{"spec": {"activeDeadlineSeconds": 600}}`),
		"an owner":          merge(`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b"}]}}`),
		"a finalizer":       merge(`{"metadata": {"finalizers": ["example.com/f"]}}`),
		"a request and one": merge(`{"metadata": {"annotations": {"kubeEtcdCSR-peer": "a", "example.com/note": "b"}}}`),
	} {
		g.refusedByPolicy("a member changes "+what, "An etcd member may change nothing", own.Patch(t.Context(), pod.DeepCopy(), change))
	}
	if err := own.Patch(t.Context(), pod.DeepCopy(), annotating(contract.PeerPlane.RequestAnnotation(), "a")); err != nil {
		t.Errorf("a member changes its request: %v", err)
	}
}

func TestTheAddressesOfAMemberAreTheKubelets(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pod := g.running("my-cluster-0")
	address := merge(`{"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}`)
	for who, someone := range map[string]client.Client{"an administrator": g.person, "the operator": g.operator()} {
		g.refusedByPolicy(who, "Only the kubelet may change the addresses", someone.Status().Patch(t.Context(), pod.DeepCopy(), address))
	}
	if err := g.kubelet().Status().Patch(t.Context(), pod.DeepCopy(), address); err != nil {
		t.Errorf("the kubelet: %v", err)
	}
	condition := merge(`{"status": {"conditions": [{"type": "example.com/Checked", "status": "True"}]}}`)
	if err := g.person.Status().Patch(t.Context(), pod.DeepCopy(), condition); err != nil {
		t.Errorf("another controller writes a condition: %v", err)
	}
}

func TestAForgedMemberIsNotCreated(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	labelled, asking, certified := g.member("my-cluster-0"), other(g.namespace, "my-cluster-1"), other(g.namespace, "my-cluster-2")
	asking.Annotations = map[string]string{contract.PeerPlane.RequestAnnotation(): "forged"}
	certified.Annotations = map[string]string{contract.CertificateAnnotation: "forged"}
	selected := other(g.namespace, "selected") // by the Service for clients and the budget of the cluster
	selected.Labels = map[string]string{model.AppLabel: "etcd", model.ClusterLabel: cluster, model.RoleLabel: "voter"}
	for what, pod := range map[string]*corev1.Pod{"labels": labelled, "a request": asking, "a certificate": certified, "labels of a selector": selected} {
		g.refusedByPolicy("a pod with "+what, "Only the etcd operator may create", g.person.Create(t.Context(), pod))
	}
	withRequest := g.member("my-cluster-3")
	withRequest.Annotations[contract.RequestAnnotation] = "forged"
	g.refusedByPolicy("the operator with a request", "Only the etcd operator may create", g.operator().Create(t.Context(), withRequest))

	plain := other(g.namespace, "plain")
	if err := g.person.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	g.refusedByPolicy("a request in a pod of others", "Only the pod itself", g.person.Patch(t.Context(), plain.DeepCopy(), annotating(contract.RequestAnnotation, "forged")))
	g.refusedByPolicy("labels in a pod of others", "Only the etcd operator", g.person.Patch(t.Context(), plain.DeepCopy(), labelling(model.ManagedByLabel, model.Manager)))
	g.refusedByPolicy("labels of a selector in a pod of others", "Only the etcd operator", g.person.Patch(t.Context(), plain.DeepCopy(),
		merge(`{"metadata": {"labels": {%q: "etcd", %q: %q, %q: "voter"}}}`, model.AppLabel, model.ClusterLabel, cluster, model.RoleLabel)))

	ofAnotherOperator := other(g.namespace, "of-another-operator")
	ofAnotherOperator.Labels = map[string]string{model.AppLabel: "etcd", model.ClusterLabel: "theirs"}
	if err := g.person.Create(t.Context(), ofAnotherOperator); err != nil {
		t.Errorf("a pod of another etcd operator: %v", err)
	}
}

func TestContainersAreNotBroughtIntoAMember(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pod := g.running("my-cluster-0")
	image := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"containers": [{"name": "etcd", "image": "example.com/etcd:2"}]}}`))
	g.refusedByPolicy("an image", "images and containers", g.person.Patch(t.Context(), pod.DeepCopy(), image))
	init := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"initContainers": [{"name": "init", "image": "example.com/init:2"}]}}`))
	g.refusedByPolicy("an image of an init container", "images and containers", g.person.Patch(t.Context(), pod.DeepCopy(), init))
	debug := client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.com/debug"}]}}`))
	g.refusedByPolicy("an ephemeral container", "images and containers", g.person.SubResource("ephemeralcontainers").Patch(t.Context(), pod.DeepCopy(), debug))
	if err := g.operator().Patch(t.Context(), pod.DeepCopy(), image); err != nil {
		t.Errorf("the operator changes an image: %v", err)
	}
}

func TestABindingBringsNothingIntoAMember(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pod := g.running("my-cluster-0")
	node := corev1.ObjectReference{Kind: "Node", Name: "worker"}
	for what, meta := range map[string]metav1.ObjectMeta{
		"a request":     {Annotations: map[string]string{contract.PeerPlane.RequestAnnotation(): "forged"}},
		"a certificate": {Annotations: map[string]string{contract.PeerPlane.CertificateAnnotation(): "forged"}},
		"a pin":         {Annotations: map[string]string{keyturnagent.PinAnnotation: "forged"}},
		"CAs":           {Annotations: map[string]string{model.TrustAnnotation: "forged"}},
		"a role":        {Labels: map[string]string{model.RoleLabel: "voter"}},
		"a manager":     {Labels: map[string]string{model.ManagedByLabel: "other"}},
		"an app":        {Labels: map[string]string{model.AppLabel: "other"}},
		"a backup":      {Labels: map[string]string{model.BackupOfLabel: cluster}},
	} {
		meta.Namespace, meta.Name = pod.Namespace, pod.Name
		g.refusedByPolicy("a Binding with "+what, "A Binding must not", g.person.Create(t.Context(), &corev1.Binding{ObjectMeta: meta, Target: node}))
		g.refusedByPolicy("a Binding of the pod with "+what, "A Binding must not", g.person.SubResource("binding").Create(t.Context(), pod.DeepCopy(), &corev1.Binding{ObjectMeta: meta, Target: node}))
	}
	meta := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Annotations: map[string]string{"example.com/score": "7"}}
	if err := g.person.SubResource("binding").Create(t.Context(), pod.DeepCopy(), &corev1.Binding{ObjectMeta: meta, Target: node}); err != nil {
		t.Errorf("the scheduler binds the pod: %v", err)
	}
}

// An administrator of a namespace may request tokens of its accounts, by the role that Kubernetes brings along.
func TestATokenThatIsBoundToAMemberIsTheKubelets(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	pod := g.running("my-cluster-0")
	bound := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: pod.Name}}
	g.refusedByPolicy("an administrator", "Only the kubelet may request a token", g.person.SubResource("token").Create(t.Context(), account, bound.DeepCopy()))
	if err := g.kubelet().SubResource("token").Create(t.Context(), account, bound.DeepCopy()); err != nil {
		t.Errorf("the kubelet: %v", err)
	}
	if err := g.person.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{}); err != nil {
		t.Errorf("a token that is bound to no pod: %v", err)
	}
}

func TestOtherPodsAreLeftAlone(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	const pods = 1000
	names := make(chan string)
	problems := make(chan error, pods)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for name := range names {
				if err := g.live(name); err != nil {
					problems <- fmt.Errorf("pod %s: %w", name, err)
				}
			}
		})
	}
	for number := range pods {
		names <- fmt.Sprintf("other-%d", number)
	}
	close(names)
	workers.Wait()
	close(problems)
	for err := range problems {
		t.Error(err)
	}
}

// live does with a pod of others what happens to pods. A node of Kafka has the annotations of its agent, too.
func (g *guarded) live(name string) error {
	ctx := g.t.Context()
	pod := other(g.namespace, name)
	pod.Labels = map[string]string{model.ManagedByLabel: "keyturn", model.AppLabel: "etcd"}
	pod.Annotations = map[string]string{keyturnagent.PinAnnotation: "{}", keyturnagent.PublishedAnnotation: "1"}
	if err := g.person.Create(ctx, pod); err != nil {
		return err
	}
	return errors.Join(
		g.person.Patch(ctx, pod.DeepCopy(), annotating(keyturnagent.PinAnnotation, "other")),
		g.person.Status().Patch(ctx, pod.DeepCopy(), merge(`{"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}`)),
		g.person.Delete(ctx, pod, client.GracePeriodSeconds(0)),
	)
}

func TestWhatAMemberIsRefusedIsAllowedForAnotherPod(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: "shop"}}
	pod := other(g.namespace, "shop-0")
	pod.Spec.ServiceAccountName = account.Name
	for _, object := range []client.Object{account, pod} {
		if err := g.person.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	bound := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	meta := metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Annotations: map[string]string{"example.com/score": "7"}}
	node := corev1.ObjectReference{Kind: "Node", Name: "worker"}
	for what, err := range map[string]error{
		"a label":                g.person.Patch(t.Context(), pod.DeepCopy(), labelling("example.com/label", "a")),
		"an image":               g.person.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"containers": [{"name": "etcd", "image": "example.com/etcd:2"}]}}`))),
		"an ephemeral container": g.person.SubResource("ephemeralcontainers").Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.com/debug"}]}}`))),
		"a bound token":          g.person.SubResource("token").Create(t.Context(), account, bound),
		"a Binding":              g.person.SubResource("binding").Create(t.Context(), pod.DeepCopy(), &corev1.Binding{ObjectMeta: meta, Target: node}),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
