package apitest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

func ofVersion(size int32, version string) etcdv1beta2.EtcdClusterSpec {
	spec := of(size)
	spec.Version = version
	return spec
}

// versions are those of the pods, by name.
func (w *world) versions() map[string]string {
	w.t.Helper()
	versions := map[string]string{}
	pods := w.pods()
	for i := range pods {
		pod := &pods[i]
		_, tag, _ := strings.Cut(pod.Spec.Containers[0].Image, ":v")
		if versions[pod.Name] = tag; tag != pod.Annotations[model.VersionAnnotation] {
			w.t.Errorf("pod %s has the image of %s and the annotation of %s", pod.Name, tag, pod.Annotations[model.VersionAnnotation])
		}
	}
	return versions
}

func TestAVersionIsChangedOneMemberAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ofVersion(3, "3.5.35"))
	w.bring()
	before, order := w.ids(), []string{}
	w.change(`{"spec": {"version": "3.6.16"}}`)
	for range 60 {
		w.reconcile()
		upgraded := with(w.versions(), "3.6.16")
		for _, name := range upgraded {
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
		if status := w.status(); len(w.pods()) < 2 || len(upgraded) < 3 && (status.CurrentVersion != "3.5.35" || status.TargetVersion != "3.6.16") {
			t.Fatalf("%d pods, %s to %s", len(w.pods()), status.CurrentVersion, status.TargetVersion)
		}
		w.play()
		if !w.etcd.HasQuorum() {
			t.Fatal("etcd has no quorum")
		}
		if status := w.status(); status.CurrentVersion == "3.6.16" {
			break
		}
	}
	w.bringSafely()
	if status := w.status(); status.CurrentVersion != "3.6.16" || status.TargetVersion != "" || !maps.Equal(w.ids(), before) {
		t.Errorf("the status is %+v", status)
	}
	if len(order) != 3 || order[2] != first || w.etcd.Moves() != 1 {
		t.Errorf("members got the version in the order %v and the leader was moved %d times, want the leader %s last", order, w.etcd.Moves(), first)
	}
	w.atRest()
}

// with are the names of the pods with a version.
func with(versions map[string]string, wanted string) []string {
	var names []string
	for name, version := range versions {
		if version == wanted {
			names = append(names, name)
		}
	}
	return names
}

func TestAVersionThatCannotBeReachedStopsNoRepair(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ version, says string }{
		"a downgrade":        {"3.5.35", "Set spec.version to a version of 3.6."},
		"an unknown version": {"3.9.0", "Set spec.version to 3.5.33, 3.6.14 or a later patch of it."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ofVersion(3, "3.6.16"))
			w.bring()
			w.change(`{"spec": {"version": "` + test.version + `"}}`)
			if message := w.until("NotSupported"); !strings.Contains(message, test.says) {
				t.Errorf("the message is %q", message)
			}
			w.delete(w.pod(second))
			w.play()
			w.until("NotSupported")
			if versions := w.versions(); len(versions) != 3 || versions[second] != "3.6.16" {
				t.Errorf("the pods have versions %v", versions)
			}
			w.atRest()
			w.change(`{"spec": {"version": "3.6.16"}}`)
			w.bringSafely()
		})
	}
}

func TestAVersionThatDoesNotStartIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ofVersion(3, "3.5.35"))
	w.bring()
	before := w.ids()
	w.change(`{"spec": {"version": "3.6.99"}}`)
	for range 20 { // nobody plays: there is no image
		w.reconcile()
	}
	w.stopOthers(w.pods())
	if got := with(w.versions(), "3.6.99"); len(got) != 1 {
		t.Errorf("pods %v have the version that does not start, want one", got)
	}
	w.change(`{"spec": {"version": "3.5.35"}}`)
	w.bringSafely()
	if !maps.Equal(w.ids(), before) || len(with(w.versions(), "3.6.99")) > 0 {
		t.Errorf("members are %v in versions %v", w.ids(), w.versions())
	}
}
