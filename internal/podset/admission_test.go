package podset

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	podsetv1 "github.com/keyturn/keyturn/api/core/v1"
)

// maker describes pods for ConfigMaps, which the tests have in place of the real owners.
// Of a description it takes the name alone, and none that begins with "evil".
func maker() Maker {
	account := func(owner string) string { return owner + "-account" }
	return Maker{
		FieldOwner: "maker", Owner: corev1.SchemeGroupVersion.WithKind("ConfigMap"), ServiceAccount: account,
		Render: func(_ context.Context, _ client.Reader, set *podsetv1.StrimziPodSet, owner string, described []corev1.Pod) (pods []corev1.Pod, why []string, err error) {
			for i := range described {
				if strings.HasPrefix(described[i].Name, "evil") {
					why = append(why, described[i].Name+" is none of "+owner)
					continue
				}
				pods = append(pods, corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Name: described[i].Name, Namespace: set.Namespace},
					Spec:       corev1.PodSpec{ServiceAccountName: account(owner)},
				})
			}
			return pods, why, nil
		},
	}
}

func ownerOfSets() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner", Namespace: "ns", UID: "the-owner"}}
}

func accountOfOwner(changes ...func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: maker().ServiceAccount(ownerOfSets().Name), Namespace: "ns",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: ownerOfSets().Name, UID: ownerOfSets().UID}},
	}}
	for _, change := range changes {
		change(account)
	}
	return account
}

func TestPodsAreMadeForSetsOfALivingOwnerAndForNoOthers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*podsetv1.StrimziPodSet)
		says   string
	}{
		"nobody owns it":                {func(s *podsetv1.StrimziPodSet) { s.OwnerReferences = nil }, "belongs to no ConfigMap: restore its owner reference"},
		"the owner is of another group": {func(s *podsetv1.StrimziPodSet) { s.OwnerReferences[0].APIVersion = "other/v1" }, "belongs to no ConfigMap"},
		"the owner is gone":             {func(s *podsetv1.StrimziPodSet) { s.OwnerReferences[0].Name = "gone" }, "gone"},
		"the owner was made again":      {func(s *podsetv1.StrimziPodSet) { s.OwnerReferences[0].UID = "before" }, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf(t, "a")
			c.change(set)
			s := newStore(t, set)

			refused, err := s.reconciler(s).apply(t.Context(), set, decidedOn(t, set))
			if err != nil {
				t.Fatal(err)
			}

			if s.created != 0 || !strings.Contains(strings.Join(refused, "; "), c.says) {
				t.Errorf("%d pods were made, refused with %q, want %q", s.created, refused, c.says)
			}
		})
	}
}

func TestASetThatTheMakerDidNotWriteIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*metav1.ManagedFieldsEntry){
		"somebody else has written it":        func(f *metav1.ManagedFieldsEntry) { f.Manager = "kubectl" },
		"the maker wrote no more than status": func(f *metav1.ManagedFieldsEntry) { f.Subresource = "status" },
		"the maker's name came by an update":  func(f *metav1.ManagedFieldsEntry) { f.Operation = metav1.ManagedFieldsOperationUpdate },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf(t, "a", "b")
			change(&set.ManagedFields[0])
			pod := podOf("b", inPhase(corev1.PodFailed))
			s := newStore(t, set, &pod)

			if _, err := s.reconciler(s).keep(t.Context(), set); err != nil {
				t.Fatal(err)
			}

			if s.created+s.deleted+s.statuses != 0 {
				t.Errorf("%d pods created, %d deleted, %d statuses written, want nothing", s.created, s.deleted, s.statuses)
			}
		})
	}
}

func TestAPodThatOverstepsIsNotMadeAndNeitherAreTheOthersOfItsSet(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Pod){
		"runs as service account":    func(p *corev1.Pod) { p.Spec.ServiceAccountName = "admin" },
		"namespace of its machine":   func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"asks for a namespace":       func(p *corev1.Pod) { p.Spec.HostPID = true },
		"a namespace of its machine": func(p *corev1.Pod) { p.Spec.HostIPC = true },
		"mounts a path of its machine": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
		"privileged container": func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		},
		"a privileged": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}}}
		},
		"ephemeral containers": func(p *corev1.Pod) { p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf(t, "good", "bad")
			const remedy = ": the operator rewrites the set by itself; if this lasts, check whether ConfigMap owner is paused or NotReady"
			rewrite(t, set, "bad", change)
			s := newStore(t, set)

			refused, err := s.reconciler(s).apply(t.Context(), set, decidedOn(t, set))
			if err != nil {
				t.Fatal(err)
			}

			if s.created != 0 || len(refused) != 1 || !strings.Contains(refused[0], "pod bad ") || !strings.Contains(refused[0], name) || !strings.HasSuffix(refused[0], remedy) {
				t.Errorf("%d pods were made, refused with %q", s.created, refused)
			}
		})
	}
}

func TestPodsThatSomebodyElseWroteIntoTheMakersSetAreNotMade(t *testing.T) {
	t.Parallel()
	mallory := metav1.ManagedFieldsEntry{
		Manager: "mallory", Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: podsetv1.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:pods":{}}}`),
	}
	const says = `not written by maker, but by "mallory": the operator rewrites the set by itself; if this lasts, check whether ConfigMap owner is paused or NotReady`
	set := setOf(t, "a", "b")
	set.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:selector":{}}}`)
	set.ManagedFields = append(set.ManagedFields, mallory)
	s := newStore(t, set)

	refused, err := s.reconciler(s).apply(t.Context(), set, decidedOn(t, set))
	if err != nil {
		t.Fatal(err)
	}

	if s.created != 0 || len(refused) != 1 || !strings.Contains(refused[0], says) {
		t.Errorf("%d pods were made, refused with %q", s.created, refused)
	}
}

func TestPodsAreMadeWithAServiceAccountOfTheirOwnersOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*corev1.ServiceAccount)
		says   string
	}{
		"somebody else has made it":                {func(a *corev1.ServiceAccount) { a.OwnerReferences = nil }, "owner-account does not belong to ConfigMap owner: delete it, and the operator creates its own"},
		"it belongs to an owner of the same name":  {func(a *corev1.ServiceAccount) { a.OwnerReferences[0].UID = "before" }, "owner-account does not belong to ConfigMap owner: delete it, and the operator creates its own"},
		"there is none under the name that it has": {func(a *corev1.ServiceAccount) { a.Name = "another" }, "owner-account does not exist: the operator creates it; if this lasts, check whether ConfigMap owner is paused or NotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := setOf(t, "a")
			s := newStore(t, set)
			if err := s.Delete(t.Context(), accountOfOwner()); err != nil {
				t.Fatal(err)
			}
			if err := s.Create(t.Context(), accountOfOwner(c.change)); err != nil {
				t.Fatal(err)
			}
			s.created = 0

			refused, err := s.reconciler(s).apply(t.Context(), set, decidedOn(t, set))
			if err != nil {
				t.Fatal(err)
			}

			if s.created != 0 || len(refused) != 1 || !strings.Contains(refused[0], c.says) {
				t.Errorf("%d pods were made, refused with %q, want %q", s.created, refused, c.says)
			}
		})
	}
}

func TestPodsAreMadeAsTheirMakerRendersThemAndNotAsTheSetDescribesThem(t *testing.T) {
	t.Parallel()
	set := setOf(t, "a")
	rewrite(t, set, "a", func(p *corev1.Pod) {
		p.Labels, p.Spec.NodeName = map[string]string{"any": "any"}, "control-plane"
	})
	s := newStore(t, set)

	if _, err := s.reconciler(s).keep(t.Context(), set); err != nil {
		t.Fatal(err)
	}

	var pod corev1.Pod
	if err := s.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "a"}, &pod); err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName != "" || len(pod.Labels) != 0 {
		t.Errorf("the pod has labels %v and node %q", pod.Labels, pod.Spec.NodeName)
	}
}

func TestAPodThatItsMakerDoesNotRenderIsNotMadeAndTheOthersOfItsSetAre(t *testing.T) {
	t.Parallel()
	set := setOf(t, "a", "evil")
	s := newStore(t, set)

	refused, err := s.reconciler(s).apply(t.Context(), set, decidedOn(t, set))
	if err != nil {
		t.Fatal(err)
	}

	if s.created != 1 || !slices.Equal(refused, []string{"evil is none of owner"}) {
		t.Errorf("%d pods were made, refused with %q", s.created, refused)
	}
}

func TestARefusedSetIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	set := setOf(t, "evil")
	s := newStore(t, set)

	result, err := s.reconciler(s).keep(t.Context(), set)
	if err != nil {
		t.Fatal(err)
	}

	if result.RequeueAfter == 0 {
		t.Error("nobody looks again, and nobody tells when what was wrong is put right")
	}
}

func TestARefusedSetSaysSoSinceItWasFirstRefused(t *testing.T) {
	t.Parallel()
	before := refusal([]string{"pod a runs as somebody"}, nil)
	before[0].LastTransitionTime = "then"

	after := refusal([]string{"pod b runs as somebody"}, before)

	if len(after) != 1 || after[0].Reason != reasonRefused || after[0].LastTransitionTime != "then" || !strings.Contains(after[0].Message, "pod b") {
		t.Errorf("the condition is %+v", after)
	}
	if none := refusal(nil, before); none != nil {
		t.Errorf("nothing is refused, and the condition is %+v", none)
	}
}

func decidedOn(t *testing.T, set *podsetv1.StrimziPodSet) plan {
	t.Helper()
	decided, err := decide(set, nil)
	if err != nil {
		t.Fatal(err)
	}
	return decided
}

// rewrite changes the description of a pod.
func rewrite(t *testing.T, set *podsetv1.StrimziPodSet, name string, change func(*corev1.Pod)) {
	t.Helper()
	pods, err := describedPods(set)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Name == name })
	change(&pods[i])
	raw, err := json.Marshal(pods[i])
	if err != nil {
		t.Fatal(err)
	}
	set.Spec.Pods[i] = runtime.RawExtension{Raw: raw}
}
