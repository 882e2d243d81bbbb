package apitest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keyturn/keyturn/api/condition"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
)

// What a node needs is its own: one that cannot be written stops the renewal and the restart of no other.
func TestANodeThatCannotBeWrittenStopsNoOther(t *testing.T) {
	t.Parallel()
	const first, second, third = "my-dual-0", "my-dual-1", "my-dual-2"
	for name, test := range map[string]struct {
		hinder func(w *world)
		named  string
		// restarted are the nodes that get a changed configuration.
		restarted []string
	}{
		"its Secret is immutable": {
			func(w *world) { w.patch(&corev1.Secret{}, first, map[string]any{"immutable": true}) },
			"Secret",
			[]string{second, third},
		},
		"its pod has 255 KiB of annotations": {
			func(w *world) {
				w.annotate(&corev1.Pod{}, first, map[string]any{"a": strings.Repeat("x", 255<<10)})
			},
			"Pod",
			[]string{first, second, third},
		},
		"its ConfigMap is rejected": {
			func(w *world) {
				w.refuses("ConfigMap " + first)
				w.configure("log.retention.hours", "11")
			},
			"ConfigMap",
			[]string{second, third},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.dualRole(3)
			w.settle()
			others := map[string]string{second: w.leafOf(second).SerialNumber.String(), third: w.leafOf(third).SerialNumber.String()}
			test.hinder(w)
			w.clock.SetTime(start().Add(340 * authority.Day))
			w.run(20)
			for node, serial := range others {
				if w.leafOf(node).SerialNumber.String() == serial {
					t.Errorf("the certificate of %s is not renewed", node)
				}
			}
			w.wantCondition(condition.NotReady, test.named, first)

			w.configure("log.retention.hours", "12")
			w.run(60)
			if got := slices.Compact(slices.Sorted(slices.Values(w.faulty.podsDeleted))); !slices.Equal(got, test.restarted) {
				t.Errorf("restarted were %q, want %q", got, test.restarted)
			}
		})
	}
}

var errRejected = errors.New("an admission policy rejects it")

// refuses has the API server reject what is written to an object.
func (w *world) refuses(name string) {
	w.faulty.refuses = func(write kubetest.Write) error {
		if write.Target() == name {
			return apierrors.NewForbidden(corev1.Resource("objects"), name, errRejected)
		}
		return nil
	}
}

func TestNothingIsRestartedWhileWhatAllNodesNeedCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dualRole(3)
	w.settle()
	before := w.leafOf("my-dual-0")
	w.refuses("ServiceAccount my-kafka")
	w.delete(&corev1.ServiceAccount{}, "my-kafka")
	w.clock.SetTime(start().Add(340 * authority.Day))
	w.configure("log.retention.hours", "12")
	w.run(20)

	if w.leafOf("my-dual-0").Equal(before) {
		t.Error("the certificate of my-dual-0 is not renewed")
	}
	w.wantCondition(condition.NotReady, "ServiceAccount", "my-kafka")
	if got := w.faulty.podsDeleted; len(got) > 0 {
		t.Errorf("restarted were %q, want none", got)
	}

	w.faulty.refuses = nil
	w.settle()
	if got := len(w.faulty.podsDeleted); got != 3 {
		t.Errorf("%d were restarted, want all three", got)
	}
}
