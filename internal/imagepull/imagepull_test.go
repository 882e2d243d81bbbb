package imagepull_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/imagepull"
)

func secrets(names ...string) []corev1.LocalObjectReference {
	var list []corev1.LocalObjectReference
	for _, name := range names {
		list = append(list, corev1.LocalObjectReference{Name: name})
	}
	return list
}

func TestNamesThatNoPodCanBeGivenAreLeftOutAndNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given, usable []string
		wrong         string
	}{
		"none":                 {},
		"several":              {given: []string{"b", "a.example.org"}, usable: []string{"b", "a.example.org"}},
		"two alike":            {given: []string{"a", "b", "a"}, usable: []string{"a", "b"}, wrong: `"a" is there twice`},
		"one without a name":   {given: []string{"a", ""}, usable: []string{"a"}, wrong: "one has no name"},
		"one that is no name":  {given: []string{"A_b", "c"}, usable: []string{"c"}, wrong: `"A_b" cannot be the name of a Secret`},
		"one that is too long": {given: []string{strings.Repeat("a", 254)}, wrong: "cannot be the name of a Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			usable, wrong := imagepull.Usable(secrets(test.given...))
			if diff := cmp.Diff(secrets(test.usable...), usable); diff != "" {
				t.Errorf("usable (-want +got):\n%s", diff)
			}
			parsed, err := imagepull.Parse(test.given)
			if test.wrong == "" {
				if len(wrong) > 0 || err != nil || len(parsed) != len(test.given) {
					t.Errorf("wrong is %q, parsed are %v with error %v", wrong, parsed, err)
				}
				return
			}
			if len(wrong) != 1 || !strings.Contains(wrong[0], test.wrong) {
				t.Errorf("wrong is %q, want %q", wrong, test.wrong)
			}
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("the error is %v, want %q", err, test.wrong)
			}
		})
	}
}

// waiting is a pod of which a container waits.
func waiting(reason string, pulledWith ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "kafka"},
		Spec:       corev1.PodSpec{ImagePullSecrets: secrets(pulledWith...)},
		Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		}}},
	}
}

// running adds a container that was created.
func running(pod *corev1.Pod) *corev1.Pod {
	pod.Status.ContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{ContainerID: "containerd://1"})
	pod.Status.InitContainerStatuses = nil
	return pod
}

func TestAPodLacksASecretOnlyWhileItWaitsForItsImage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		now  []string
		want bool
	}{
		"it has none":                                   {waiting("ImagePullBackOff"), []string{"a"}, true},
		"it has another":                                {waiting("ErrImagePull", "b"), []string{"a"}, true},
		"it has one of two":                             {waiting("ErrImagePull", "b"), []string{"a", "b"}, true},
		"it has that and one that others added":         {waiting("ErrImagePull", "b", "a"), []string{"a"}, false},
		"it has more than are set now":                  {waiting("ErrImagePull", "a"), nil, false},
		"it waits for something else":                   {waiting("CreateContainerConfigError"), []string{"a"}, false},
		"it runs":                                       {&corev1.Pod{}, []string{"a"}, false},
		"its server runs beside a container that waits": {running(waiting("ImagePullBackOff")), []string{"a"}, false},
	} {
		if got := imagepull.Lacks(test.pod, secrets(test.now...)); got != test.want {
			t.Errorf("%s: lacks one is %t, want %t", name, got, test.want)
		}
	}
}

func TestTheCauseNamesThePullSecrets(t *testing.T) {
	t.Parallel()
	for says, pod := range map[string]*corev1.Pod{
		"it has no pull Secret":                  waiting("ErrImagePull"),
		"pull Secret registry-credentials: ":     waiting("ErrImagePull", "registry-credentials"),
		"pull Secret a, b, c and 2 more: ":       waiting("ErrImagePull", "a", "b", "c", "d", "e"),
		"namespace kafka has the Secret":         waiting("ErrImagePull", "a"),
		"set one if the registry requires crede": waiting("ErrImagePull"),
	} {
		if got := imagepull.Cause(pod); !strings.Contains(got, says) {
			t.Errorf("the cause is %q, want one with %q", got, says)
		}
	}
}
