package scenarios

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/e2e/harness"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/report"
)

const (
	etcdPolicy = "keyturn-etcd-members"
	// administrator of the namespace, as people have them.
	administrator = "namespace-administrator"
	// attestationLimit is how long signing may go on without the policy, and a moment for the status to be written.
	attestationLimit = 62 * time.Second
)

// etcdAttested has others ask for the certificates of members: while the policy of the chart is in force it refuses
// them, and while it is not the operator signs nothing.
func etcdAttested(s *stage) {
	s.fromScratch()
	s.operatorForEtcd()
	etcd := harness.Etcd{Kube: s.kube, Namespace: s.kafka.Namespace, Name: clusterName}
	s.step("three members created", func() error {
		if err := etcd.Create(s.ctx, 3); err != nil {
			return err
		}
		return errors.Join(etcd.UntilReady(s.ctx), s.untilAttested(etcd, metav1.ConditionTrue))
	})
	members := s.allVote(etcd, 3)
	before := s.issuedTo(etcd)
	writes := s.serving(etcd, members)
	victim, other := s.podOf(etcd, members[0]), s.podOf(etcd, members[1])
	s.must(s.kube.GrantPods(s.ctx, etcd.Namespace,
		rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: administrator},
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: etcd.Namespace, Name: other.Spec.ServiceAccountName}))
	forged := s.forge()
	s.step("requests of others refused", func() error { return s.refusesOthers(victim, other, forged.request) })
	s.nothingIssued(etcd, before)

	policy, binding := s.policy()
	deleted := time.Now()
	s.step("the policy deleted", func() error {
		if err := errors.Join(s.kube.Delete(s.ctx, policy.DeepCopy()), s.kube.Delete(s.ctx, binding.DeepCopy())); err != nil {
			return err
		}
		return s.untilAttested(etcd, metav1.ConditionFalse)
	})
	s.figure(report.AtMost("noticed that the policy is gone", time.Since(deleted).Seconds(), attestationLimit.Seconds(), "s", "from its deletion until AttestationEnforced is False"))
	s.step("a forged request not signed", func() error {
		admin, err := s.kube.As(administrator)
		if err != nil {
			return err
		}
		if err := admin.Patch(s.ctx, victim.DeepCopy(), annotating(contract.PeerPlane.RequestAnnotation(), forged.request)); err != nil {
			return fmt.Errorf("forging a request while there is no policy: %w", err)
		}
		return harness.Let(s.ctx, harness.Quiet)
	})
	s.nothingIssued(etcd, before)
	s.step("the policy restored", func() error {
		if err := errors.Join(s.kube.Create(s.ctx, policy), s.kube.Create(s.ctx, binding)); err != nil {
			return err
		}
		return s.untilAttested(etcd, metav1.ConditionTrue)
	})
	s.step("the member asks again", func() error { return s.untilAsked(etcd, victim.Name, forged.request) })
	for serial, issued := range s.issuedTo(etcd) {
		if issued == forged.key {
			s.Errorf("certificate %s was issued for the forged request", serial)
		}
	}
	s.must(etcd.UntilReady(s.ctx))
	s.figure(report.AtLeast("writes while others asked for certificates", float64(writes()), 10, "rounds", "each member writes a key, and reads those of all"))
	s.step("deleted", func() error { return etcd.Delete(s.ctx) })
}

func (s *stage) untilAttested(etcd harness.Etcd, status metav1.ConditionStatus) error {
	_, err := etcd.UntilCondition(s.ctx, etcdv1beta2.ConditionAttestationEnforced, status)
	return err
}

// refusesOthers holds that the policy refuses everything by which others could get the certificate of a member.
func (s *stage) refusesOthers(victim, other *corev1.Pod, request string) error {
	admin, err := s.kube.As(administrator)
	if err != nil {
		return err
	}
	member, err := s.kube.AsPod(s.ctx, other)
	if err != nil {
		return err
	}
	kubelet, err := s.kube.AsKubelet(victim.Spec.NodeName)
	if err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Name: victim.Spec.ServiceAccountName}}
	ask := annotating(contract.PeerPlane.RequestAnnotation(), request)
	answer := annotating(contract.PeerPlane.CertificateAnnotation(), request)
	forgedPod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: victim.Namespace, Name: clusterName + "-3", Labels: victim.Labels, OwnerReferences: victim.OwnerReferences,
			Annotations: map[string]string{contract.PeerPlane.RequestAnnotation(): request},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: victim.Spec.Containers[0].Image}}},
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: victim.Namespace, Name: victim.Name, Annotations: map[string]string{contract.PeerPlane.RequestAnnotation(): request}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: victim.Spec.NodeName},
	}
	address := client.RawPatch(types.MergePatchType, []byte(`{"status": {"podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}]}}`))
	debug := client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, `{"spec": {"ephemeralContainers": [{"name": "debug", "image": %q}]}}`, victim.Spec.Containers[0].Image))
	refused := 0
	for what, attempt := range map[string]func() error{
		"another member":                              func() error { return member.Patch(s.ctx, victim.DeepCopy(), ask) },
		"another member by the status":                func() error { return member.Status().Patch(s.ctx, victim.DeepCopy(), ask) },
		"a member about its own labels":               func() error { return member.Patch(s.ctx, other.DeepCopy(), labelling("example.com/changed", "yes")) },
		"an administrator":                            func() error { return admin.Patch(s.ctx, victim.DeepCopy(), ask) },
		"an administrator by the status":              func() error { return admin.Status().Patch(s.ctx, victim.DeepCopy(), ask) },
		"an administrator about a certificate":        func() error { return admin.Patch(s.ctx, victim.DeepCopy(), answer) },
		"an administrator about an address":           func() error { return admin.Status().Patch(s.ctx, victim.DeepCopy(), address) },
		"an administrator with a debugging container": func() error { return admin.SubResource("ephemeralcontainers").Patch(s.ctx, victim.DeepCopy(), debug) },
		"an administrator with a Binding":             func() error { return admin.Create(s.ctx, binding.DeepCopy()) },
		"an administrator with a token of the pod": func() error {
			return admin.SubResource("token").Create(s.ctx, account.DeepCopy(), harness.TokenFor(victim))
		},
		"an administrator with a forged pod": func() error { return admin.Create(s.ctx, forgedPod.DeepCopy()) },
		"a kubelet by the status":            func() error { return kubelet.Status().Patch(s.ctx, victim.DeepCopy(), ask) },
		"the administrator of everything":    func() error { return s.kube.Patch(s.ctx, victim.DeepCopy(), ask) },
	} {
		if err := attempt(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), etcdPolicy) {
			s.Errorf("%s: %v, to be is a refusal by policy %s", what, err, etcdPolicy)
			continue
		}
		refused++
	}
	s.figure(report.AtLeast("attempts refused", float64(refused), 13, "attempts", "by the admission policy, with rights that RBAC grants"))
	return nil
}

func annotating(key, value string) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, key, value))
}

func labelling(key, value string) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata": {"labels": {%q: %q}}}`, key, value))
}

// forgery is a request that no member has made.
type forgery struct{ request, key string }

func (s *stage) forge() forgery {
	s.Helper()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	s.must(err)
	request, err := pki.NewRequest(key, pki.Subject{CommonName: "forged"}, pki.SANs{})
	s.must(err)
	return forgery{base64.StdEncoding.EncodeToString(request), key.ID().String()}
}

func (s *stage) podOf(etcd harness.Etcd, member string) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{}
	s.must(s.kube.Get(s.ctx, types.NamespacedName{Namespace: etcd.Namespace, Name: member}, pod))
	return pod
}

// policy reads the policy and its binding, to be created again.
func (s *stage) policy() (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	s.Helper()
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, object := range []client.Object{policy, binding} {
		s.must(s.kube.Get(s.ctx, types.NamespacedName{Name: etcdPolicy}, object))
		object.SetResourceVersion("")
		object.SetUID("")
		object.SetManagedFields(nil)
	}
	for _, warning := range warnings(policy) {
		s.Errorf("an expression of the policy: %s", warning)
	}
	return policy, binding
}

func warnings(policy *admissionv1.ValidatingAdmissionPolicy) []string {
	var found []string
	if checked := policy.Status.TypeChecking; checked != nil {
		for _, warning := range checked.ExpressionWarnings {
			found = append(found, warning.FieldRef+": "+warning.Warning)
		}
	}
	return found
}

// issuedTo are the keys of the certificates that were issued to members, by serial number.
func (s *stage) issuedTo(etcd harness.Etcd) map[string]string {
	s.Helper()
	ledger, err := etcd.Issued(s.ctx)
	s.must(err)
	keys := map[string]string{}
	for serial, issued := range ledger {
		keys[serial] = issued.SPKI
	}
	return keys
}

// nothingIssued holds that no certificate was issued since the record was read.
func (s *stage) nothingIssued(etcd harness.Etcd, before map[string]string) {
	s.Helper()
	if now := s.issuedTo(etcd); !maps.Equal(before, now) {
		s.Errorf("certificates were issued: %v, before it were %v", now, before)
	}
}

// untilAsked waits until a pod has a request that is not the forged one.
func (s *stage) untilAsked(etcd harness.Etcd, member, forged string) error {
	return s.kube.Follow(s.ctx, &corev1.PodList{}, func(pods harness.Objects) (bool, error) {
		pod, found := pods[member].(*corev1.Pod)
		if !found {
			return false, nil
		}
		request := pod.Annotations[contract.PeerPlane.RequestAnnotation()]
		return request != "" && request != forged, nil
	}, client.InNamespace(etcd.Namespace))
}

// serving has each member write and read until the result is called, which returns how many times all of them did. A
// failed round fails the scenario.
func (s *stage) serving(etcd harness.Etcd, members []string) func() int {
	s.Helper()
	ctx, stop := context.WithCancel(s.ctx)
	rounds := 0
	var loop sync.WaitGroup
	loop.Go(func() {
		for ctx.Err() == nil {
			err := serve(ctx, etcd, members)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				s.Errorf("the cluster does not serve: %v", err)
				return
			}
			rounds++
		}
	})
	end := func() int {
		stop()
		loop.Wait()
		return rounds
	}
	s.Cleanup(func() { end() })
	return end
}
