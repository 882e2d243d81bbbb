package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	etcdagent "github.com/keyturn/keyturn/internal/etcd/agent"
	"github.com/keyturn/keyturn/internal/etcd/agent/agenttest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

func TestAMemberIsNotReadyBeforeItIsRecordedThatItHasJoined(t *testing.T) {
	t.Parallel()
	r := played(t, &health{})
	r.enrol(t)
	r.until(t, "not ready while nothing is recorded", func(ctx context.Context) bool {
		ready, body := r.ready(ctx)
		return !ready && strings.Contains(body, "has not recorded")
	})
	r.untilReady(t)
}

func TestEtcdStartsAsItIsRecorded(t *testing.T) {
	t.Parallel()
	members := map[string]string{podName: "https://a", "my-cluster-1": "https://b"}
	for name, c := range map[string]struct {
		start contract.Start
		told  []string
	}{
		"the first member":    {contract.Start{IsFirst: true, Members: map[string]string{podName: "https://a"}}, []string{"--initial-cluster=my-cluster-0=https://a", "--initial-cluster-state=new"}},
		"one that joins":      {contract.Start{Members: members}, []string{"--initial-cluster=my-cluster-0=https://a,my-cluster-1=https://b", "--initial-cluster-state=existing"}},
		"one that has joined": {contract.Start{HasJoined: true, Members: map[string]string{podName: "https://a"}}, []string{"--initial-cluster-state=existing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mounted(t, func(pod *agenttest.Pod) {
				pod.Start(t, c.start)
				writeLog(t, pod)
			})
			for _, flag := range c.told {
				r.until(t, flag, func(context.Context) bool { return strings.Contains(r.log.String(), "etcd was told "+flag+"\n") })
			}
		})
	}
}

func TestEtcdIsNotStartedWithoutTheDataOfItsMember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pod    func(tb testing.TB, pod *agenttest.Pod)
		result contract.StartFailure
		says   string
	}{
		"it has joined, and its volume is empty": {joins, contract.VolumeEmpty, "its volume has no data"},
		"its volume has everything but the log":  {joinsWith("member/snap/db", "member/wal/0.tmp"), contract.VolumeEmpty, "its volume has no data"},
		"it had data in this pod, and what is mounted is older than that": {
			func(tb testing.TB, pod *agenttest.Pod) {
				tb.Helper()
				write(tb, filepath.Join(pod.RunDir, "etcd-started"))
			}, contract.VolumeEmpty, "its volume has no data",
		},
		"the volume cannot be read":       {joinsWith("member/wal"), "", "looking for the data"},
		"what is recorded cannot be read": {recorded("{"), "", contract.StartAnnotation},
		"nothing is recorded":             {recorded(""), "", contract.StartAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, start := range map[string]func() *running{
				"mounted": func() *running { return mounted(t, func(pod *agenttest.Pod) { c.pod(t, pod) }) },
				"signed": func() *running {
					return startAs(t, etcdagent.Run, "", nil, func(pod *agenttest.Pod) []string { c.pod(t, pod); return self(t) })
				},
			} {
				r := start()
				err := <-r.ended
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: the agent ends with %v, want something about %q", kind, err, c.says)
				}
				message, _ := os.ReadFile(r.options.ResultPath)
				if got := contract.ParseStartFailure(string(message)); got != c.result {
					t.Errorf("%s: the result is %q, want %q", kind, got, c.result)
				}
				if strings.Contains(r.log.String(), "etcd runs") {
					t.Errorf("%s: etcd was started", kind)
				}
			}
		})
	}
}

func joins(tb testing.TB, pod *agenttest.Pod) {
	tb.Helper()
	pod.Join(tb)
}

// joinsWith is a member that has joined, with files on its volume.
func joinsWith(files ...string) func(testing.TB, *agenttest.Pod) {
	return func(tb testing.TB, pod *agenttest.Pod) {
		tb.Helper()
		pod.Join(tb)
		for _, file := range files {
			write(tb, filepath.Join(dataOf(pod), filepath.FromSlash(file)))
		}
	}
}

// recorded is a pod that says in its own way how etcd starts in it.
func recorded(text string) func(testing.TB, *agenttest.Pod) {
	return func(tb testing.TB, pod *agenttest.Pod) {
		tb.Helper()
		pod.Set(tb, map[string]string{contract.StartAnnotation: text})
	}
}

// mounted runs the agent of a cluster without certificates, with the played etcd.
func mounted(t *testing.T, prepare func(*agenttest.Pod)) *running {
	t.Helper()
	return startAs(t, etcdagent.RunMounted, "http://127.0.0.1:0", []string{etcdMode + "=played"}, func(pod *agenttest.Pod) []string {
		prepare(pod)
		return self(t)
	})
}

// self is the command of the played etcd.
func self(t *testing.T) []string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{program}
}

// writeLog gives a member data.
func writeLog(t *testing.T, pod *agenttest.Pod) {
	t.Helper()
	write(t, filepath.Join(dataOf(pod), "member", "wal", "0.wal"))
}

func write(tb testing.TB, path string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// startsNoMore empties the volume of a real member that has run, and runs its agent again in its pod.
func (m *member) startsNoMore(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(m.RunDir, "etcd-started")); err != nil {
		t.Errorf("that etcd has data is not recorded in the pod: %v", err)
	}
	empty := m.options
	empty.DataDir = t.TempDir()
	empty.SecureAddress, empty.ProbeAddress = free(t), free(t)
	if err := etcdagent.Run(t.Context(), empty); err == nil || !strings.Contains(err.Error(), "its volume has no data") {
		t.Errorf("the agent ends with %v", err)
	}
}
