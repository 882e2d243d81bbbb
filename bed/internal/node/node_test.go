package node

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/bed/internal/state"
)

const (
	memoryMount  = "35 30 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	unifiedMount = "36 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	aloneMount   = "36 30 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	boundMount   = "37 30 0:30 /a/pod /elsewhere rw - cgroup cgroup rw,memory\n"
	otherMount   = "38 30 0:33 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
)

func TestProcessesAreEnclosedWhereControllersAre(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mounts string
		want   []string
	}{
		"version 1 alone":                      {memoryMount, []string{"/sys/fs/cgroup/memory"}},
		"version 2 alone":                      {aloneMount, []string{"/sys/fs/cgroup"}},
		"version 2 beside 1 has no controller": {unifiedMount + memoryMount, []string{"/sys/fs/cgroup/memory"}},
		"a part of a hierarchy is none":        {boundMount + otherMount, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, h := range withControllers(hierarchies(test.mounts)) {
				got = append(got, h.root)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGroupsAreRemovedInEveryHierarchy(t *testing.T) {
	t.Parallel()
	if got := hierarchies(unifiedMount + memoryMount); len(got) != 2 {
		t.Errorf("hierarchies() = %v, want both", got)
	}
}

func TestRemoveGroupsTakesTheDeepestFirst(t *testing.T) {
	t.Parallel()
	group := filepath.Join(t.TempDir(), cgroup)
	if err := os.MkdirAll(filepath.Join(group, "kubepods", "pod"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeGroups(group); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(group); !errors.Is(err, os.ErrNotExist) {
		t.Error("the group is still there")
	}
	if err := removeGroups(group); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

func TestInnermostPID(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status string
		want   int
		found  bool
	}{
		"a process of the node":    {"Name:\tetcd\nNSpid:\t1887\t9\n", 9, true},
		"a process of the machine": {"NSpid:\t1887\n", 1887, true},
		"an old kernel":            {"Name:\tetcd\n", 0, false},
		"an empty line":            {"NSpid:\n", 0, false},
		"no number":                {"NSpid:\tx\n", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, found := innermostPID(test.status); got != test.want || found != test.found {
				t.Errorf("innermostPID() = %d, %t, want %d, %t", got, found, test.want, test.found)
			}
		})
	}
}

func TestDescribeTellsHowAProgramEnded(t *testing.T) {
	t.Parallel()
	for want, status := range map[string]syscall.WaitStatus{
		"exit code 3":                  3 << 8,
		"killed by signal 9 (killed)":  9,
		"killed by signal 6 (aborted)": 6,
	} {
		if got := describe(status); got != want {
			t.Errorf("describe(%d) = %q, want %q", status, got, want)
		}
	}
}

func TestEveryCertificateOfTheKeyringHolds(t *testing.T) {
	t.Parallel()
	keys := keyring{state.Folder(t.TempDir())}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := keys.write(now); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(readCertificate(t, keys.Cert("ca")))
	for _, id := range identities() {
		certificate := readCertificate(t, keys.Cert(id.name))
		options := x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{id.usage}}
		if _, err := certificate.Verify(options); err != nil {
			t.Errorf("%s: %v", id.name, err)
		}
		if id.user != "" && certificate.Subject.CommonName != id.user {
			t.Errorf("%s names %s, want %s", id.name, certificate.Subject.CommonName, id.user)
		}
	}
	if err := readCertificate(t, keys.Cert("apiserver")).VerifyHostname(NodeIP); err != nil {
		t.Error(err)
	}
}

func TestKubeconfigsHoldTheirKeysThemselves(t *testing.T) {
	t.Parallel()
	keys := keyring{state.Folder(t.TempDir())}
	if err := keys.write(time.Now()); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", keys.Kubeconfig("admin"))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != APIURL() || len(config.KeyData) == 0 || len(config.CAData) == 0 || config.KeyFile != "" {
		t.Errorf("the administrator's kubeconfig leads to %s and needs other files", config.Host)
	}
}

func TestConfigurationFilesParse(t *testing.T) {
	t.Parallel()
	folder := state.Folder(t.TempDir())
	programs := Programs{Kubernetes: "/k", Runtime: "/r", CNI: "/c"}
	if err := writeConfig(folder, programs); err != nil {
		t.Fatal(err)
	}
	kubelet := map[string]any{}
	if err := yaml.UnmarshalStrict(read(t, folder.Run("kubelet.yaml")), &kubelet); err != nil {
		t.Errorf("kubelet.yaml: %v", err)
	}
	if kubelet["cgroupRoot"] != "/"+cgroup {
		t.Errorf("pods are put into the group %v, which Down does not remove", kubelet["cgroupRoot"])
	}
	network := map[string]any{}
	if err := json.Unmarshal(read(t, folder.Run("cni", "10-bed.conflist")), &network); err != nil {
		t.Errorf("10-bed.conflist: %v", err)
	}
	for _, want := range []string{`"/r/runc"`, `"/c"`, PauseImage, folder.ContainerdSocket(), "restrict_oom_score_adj = true"} {
		if text := string(read(t, folder.Run("containerd.toml"))); !strings.Contains(text, want) {
			t.Errorf("containerd.toml does not hold %s", want)
		}
	}
}

func TestEveryProbedComponentIsStarted(t *testing.T) {
	t.Parallel()
	folder := state.Folder(t.TempDir())
	started := map[string]bool{}
	for _, stage := range stages(folder, Programs{}) {
		for _, c := range stage {
			if started[c.Name] {
				t.Errorf("%s is started twice", c.Name)
			}
			started[c.Name] = true
		}
	}
	for name := range probes(folder) {
		if !started[name] {
			t.Errorf("%s is asked but never started", name)
		}
	}
}

func TestAliveTellsWhyNot(t *testing.T) {
	t.Parallel()
	folder := state.Folder(t.TempDir())
	if err := Alive(folder); !errors.Is(err, state.ErrNoRecord) {
		t.Errorf("Alive() of nothing = %v", err)
	}
	if err := os.MkdirAll(folder.Run(), 0o755); err != nil {
		t.Fatal(err)
	}
	own, err := state.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	own.Start++ // the pid was given to another process since
	if err := folder.Remember(own); err != nil {
		t.Fatal(err)
	}
	if err := Alive(folder); !errors.Is(err, ErrDown) {
		t.Errorf("Alive() of a reused pid = %v, want ErrDown", err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readCertificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(read(t, path))
	if block == nil {
		t.Fatalf("%s is no PEM", path)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
