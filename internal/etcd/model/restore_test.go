package model_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
)

// beginning is a cluster that begins with a file.
func beginning(t *testing.T, source *etcdv1beta2.RestoreSource) model.Cluster {
	t.Helper()
	etcd := three(t)
	etcd.Spec.Restore = source
	cluster, findings := model.Resolve(etcd, settings())
	if findings.Problem != nil {
		t.Fatal(findings.Problem.Message)
	}
	return cluster
}

func fromBackup(path string) *etcdv1beta2.RestoreSource {
	return &etcdv1beta2.RestoreSource{Backup: &etcdv1beta2.RestoreBackup{Name: "nightly", Path: path}}
}

func fromVolume() *etcdv1beta2.RestoreSource {
	return &etcdv1beta2.RestoreSource{Volume: &etcdv1beta2.RestoreVolume{ClaimName: "data-lost-0", Path: "data/member/snap/db"}}
}

// verified has a file on the claim that it was once made for.
func verified(b *etcdv1beta2.EtcdBackup) {
	b.Status.Path, b.Status.SHA256, b.Status.ClaimName = "my-cluster/nightly/uid/70.db", "00ff", "earlier"
}

func TestTheFileThatAClusterBeginsWith(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		source *etcdv1beta2.RestoreSource
		backup *etcdv1beta2.EtcdBackup
		want   model.RestoreFile
		says   string
	}{
		"the last verified file of an EtcdBackup": {
			fromBackup(""), backupOf(verified).EtcdBackup,
			model.RestoreFile{Claim: "earlier", Path: "my-cluster/nightly/uid/70.db", SHA256: "00ff"},
			"",
		},
		"another file of an EtcdBackup":      {fromBackup("a/b.db"), backupOf(verified).EtcdBackup, model.RestoreFile{Claim: "earlier", Path: "a/b.db"}, ""},
		"a file of an EtcdBackup that waits": {fromBackup("a/b.db"), backupOf(nil).EtcdBackup, model.RestoreFile{Claim: "backups", Path: "a/b.db"}, ""},
		"a file of a volume":                 {fromVolume(), nil, model.RestoreFile{Claim: "data-lost-0", Path: "data/member/snap/db"}, ""},
		"an EtcdBackup that does not exist":  {fromBackup(""), nil, model.RestoreFile{}, "EtcdBackup nightly of spec.restore does not exist in namespace etcd"},
		"an EtcdBackup without a file":       {fromBackup(""), backupOf(nil).EtcdBackup, model.RestoreFile{}, "EtcdBackup nightly has no verified file"},
		"an EtcdBackup without a volume": {
			fromBackup("a/b.db"), backupOf(func(b *etcdv1beta2.EtcdBackup) { b.Spec.Volume = nil }).EtcdBackup, model.RestoreFile{}, "no verified file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problem := beginning(t, test.source).RestoreFile(test.backup)
			if got != test.want || (problem == nil) != (test.says == "") {
				t.Fatalf("the file is %+v and the problem %+v, want %+v", got, problem, test.want)
			}
			if problem != nil && (problem.Reason != "RestoreSourceMissing" || !strings.Contains(problem.Message, test.says)) {
				t.Errorf("the problem is %+v", problem)
			}
		})
	}
}

// restoringPod is the pod of the first member.
func restoringPod(t *testing.T, cluster model.Cluster, file model.RestoreFile) *corev1.Pod {
	t.Helper()
	name := cluster.Names.Member(0)
	pod, err := cluster.Pod(name, model.Start{Version: cluster.Version, IsFirst: true, Members: []string{name}}, "{}")
	if err != nil {
		t.Fatal(err)
	}
	cluster.AddRestore(pod, file)
	return pod
}

// Only the container that restores mounts the file, and cannot write to it.
func TestTheFirstMemberRestoresBeforeEtcdStarts(t *testing.T) {
	t.Parallel()
	pod := restoringPod(t, beginning(t, fromVolume()), model.RestoreFile{Claim: "data-lost-0", Path: "data/member/snap/db"})
	last := pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	text, err := yaml.Marshal(map[string]any{"container": last, "volume": pod.Spec.Volumes[len(pod.Spec.Volumes)-1]})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, filepath.Join("testdata", "restore.yaml"), text)
	for _, container := range append(pod.Spec.InitContainers[:len(pod.Spec.InitContainers)-1], pod.Spec.Containers...) {
		for _, mount := range container.VolumeMounts {
			if mount.Name == "restore" {
				t.Errorf("container %s mounts the file", container.Name)
			}
		}
	}
}

func TestWhatARestoreReports(t *testing.T) {
	t.Parallel()
	const file = "File data/member/snap/db of PersistentVolumeClaim data-lost-0"
	failed := func(failure contract.RestoreFailure) string {
		text, err := contract.RestoreResult{Failure: failure, Message: "the cause", Path: "data/member/snap/db"}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, test := range map[string]struct {
		source   *etcdv1beta2.RestoreSource
		code     int32
		message  string
		restored *etcdv1beta2.RestoredStatus
		reason   model.Reason
		says     []string
	}{
		"the data are restored": {code: 0, message: `{"path": "data/member/snap/db", "revision": 70}`, restored: &etcdv1beta2.RestoredStatus{
			ClaimName: "data-lost-0", Path: "data/member/snap/db", Revision: 70, Date: at(0),
		}},
		"there was nothing to do": {code: 0, message: `{}`},
		"the file is missing": {
			code: 1, message: failed(contract.RestoreSourceMissing), reason: "RestoreSourceMissing", says: []string{file + " does not exist", "Put the file there"},
		},
		"the file of an EtcdBackup is missing": {
			source: fromBackup(""), code: 1, message: failed(contract.RestoreSourceMissing), reason: "RestoreSourceMissing",
			says: []string{"Delete pod my-cluster-0 to use the last verified file of EtcdBackup nightly"},
		},
		"the member runs":                  {code: 1, message: failed(contract.RestoreSourceInUse), reason: "RestoreSourceInUse", says: []string{file, "set spec.paused", "Keep the EtcdCluster"}},
		"the file is damaged":              {code: 1, message: failed(contract.RestoreNotVerified), reason: "RestoreNotVerified", says: []string{file, "the cause"}},
		"the volume is full":               {code: 1, message: failed(contract.RestoreFailed), reason: "RestoreFailed", says: []string{"the cause", "container keyturn-restore of pod my-cluster-0"}},
		"a failure that is not known":      {code: 1, message: failed("Other"), reason: "RestoreFailed", says: []string{"the cause"}},
		"the container was killed":         {code: 137, message: "", reason: "RestoreFailed", says: []string{"exit code 137", "OOMKilled"}},
		"the container claims a revision":  {code: 137, message: `{"revision": 70}`, reason: "RestoreFailed", says: []string{"exit code 137"}},
		"the container has not ended once": {code: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := test.source
			if source == nil {
				source = fromVolume()
			}
			cluster := beginning(t, source)
			ended := &corev1.ContainerStateTerminated{ExitCode: test.code, Message: test.message, Reason: "OOMKilled"}
			for state, status := range map[string]corev1.ContainerStatus{
				"it has ended":      {State: corev1.ContainerState{Terminated: ended}},
				"it is tried again": {State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: corev1.ContainerState{Terminated: ended}},
			} {
				pod := restoringPod(t, cluster, model.RestoreFile{Claim: "data-lost-0", Path: "data/member/snap/db"})
				if status.Name = "keyturn-restore"; test.code < 0 {
					status.State.Terminated, status.LastTerminationState.Terminated = nil, nil
				}
				pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "keyturn-init"}, status}
				restored, problem := cluster.RestoreSeen(pod, noon())
				if diff := cmp.Diff(test.restored, restored); diff != "" {
					t.Errorf("%s: restored (-want +got):\n%s", state, diff)
				}
				isProblem(t, problem, test.reason, test.says)
			}
		})
	}
}

func isProblem(t *testing.T, problem *model.Problem, reason model.Reason, says []string) {
	t.Helper()
	if (problem == nil) != (reason == "") {
		t.Fatalf("the problem is %+v, want %q", problem, reason)
	}
	if problem == nil {
		return
	}
	if problem.Reason != reason {
		t.Errorf("the reason is %s, want %s", problem.Reason, reason)
	}
	for _, text := range append(says, "etcd is not started, and the restore is tried again") {
		if !strings.Contains(problem.Message, text) {
			t.Errorf("%q does not say %q", problem.Message, text)
		}
	}
}

func TestWhatWasRestoredStaysInTheStatus(t *testing.T) {
	t.Parallel()
	cluster := beginning(t, nil)
	first, later := &etcdv1beta2.RestoredStatus{Revision: 70}, &etcdv1beta2.RestoredStatus{Revision: 71}
	for _, test := range []struct{ before, seen, want *etcdv1beta2.RestoredStatus }{{nil, nil, nil}, {nil, first, first}, {first, nil, first}, {first, later, first}} {
		status := cluster.Status(model.Seen{Before: etcdv1beta2.EtcdClusterStatus{Restored: test.before}, Restored: test.seen, Now: noon()})
		if status.Restored != test.want {
			t.Errorf("with %+v and %+v it is %+v", test.before, test.seen, status.Restored)
		}
	}
}
