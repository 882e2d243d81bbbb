package agent

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/etcd/agent/agenttest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

const podName = "my-cluster-0"

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// member is an enroller without a process around it.
type member struct {
	*agenttest.Pod

	enroller *enroller
	observer *observer
	clock    *clocktesting.FakeClock
	log      *strings.Builder
}

func newMember(t *testing.T) *member {
	t.Helper()
	m := &member{Pod: agenttest.NewPod(t, podName, noon()), clock: clocktesting.NewFakeClock(noon().Add(time.Minute)), log: &strings.Builder{}}
	m.start(t)
	return m
}

// start makes the enroller of another container of the pod.
func (m *member) start(t *testing.T) {
	t.Helper()
	var err error
	m.observer = &observer{}
	m.enroller, err = newEnroller(Options{
		PodName: podName, Key: pki.DefaultLeafKey(pki.ECDSA), Annotate: m.API(t), NodeDir: m.NodeDir, PodDir: m.PodDir, RunDir: m.RunDir,
		Clock: m.clock, Log: slog.New(slog.NewTextHandler(m.log, nil)),
	}, m.observer)
	if err != nil {
		t.Fatal(err)
	}
}

func (m *member) step(t *testing.T) error {
	t.Helper()
	_, err := m.enroller.step(t.Context())
	return err
}

// enrol brings the member to the point at which etcd is started.
func (m *member) enrol(t *testing.T) {
	t.Helper()
	if err := m.step(t); err == nil {
		t.Fatal("etcd would start before its requests were answered")
	}
	for _, plane := range contract.Planes() {
		m.Sign(t, plane, m.clock.Now())
	}
	grant, err := m.enroller.step(t.Context())
	if err == nil {
		err = m.enroller.begin(grant)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (m *member) file(t *testing.T, plane contract.Plane, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(m.RunDir, string(plane), name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func TestMemberAsksOnceForEachPlaneWithAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	for range 3 {
		_ = m.step(t)
		m.clock.Step(time.Minute)
	}
	if m.Patches() != 1 {
		t.Errorf("%d patches, want one for both planes", m.Patches())
	}
	spki := map[string]bool{}
	for _, plane := range contract.Planes() {
		request := m.Request(t, plane)
		if request == nil || request.Subject.CommonName != podName {
			t.Fatalf("request of the %s plane: %+v, want the pod's name", plane, request)
		}
		spki[string(request.RawSubjectPublicKeyInfo)] = true
		info, err := os.Stat(filepath.Join(m.RunDir, string(plane), contract.KeyFile))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("key of the %s plane: %v, %v; want mode 0600", plane, info, err)
		}
	}
	if len(spki) != 2 {
		t.Error("both planes ask for the same key")
	}
}

func TestARequestThatTheKubeletHasNotMountedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.Lag()
	for range 60 {
		_ = m.step(t)
		m.clock.Step(time.Second)
	}
	if m.Patches() != 1 {
		t.Errorf("%d patches, want one", m.Patches())
	}
	m.clock.Step(mountPatience)
	_ = m.step(t)
	if m.Patches() != 2 {
		t.Errorf("%d patches, want a second when no kubelet takes that long", m.Patches())
	}
}

func TestAnotherContainerOfThePodKeepsKeyAndRequest(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.enrol(t)
	key, request, patches := m.file(t, contract.PeerPlane, contract.KeyFile), m.Annotation(contract.PeerPlane.RequestAnnotation()), m.Patches()
	m.start(t)
	if err := m.step(t); err != nil {
		t.Errorf("waiting for %v, want that etcd can start", err)
	}
	if m.file(t, contract.PeerPlane, contract.KeyFile) != key || m.Annotation(contract.PeerPlane.RequestAnnotation()) != request || m.Patches() != patches {
		t.Error("another key, request or write")
	}
}

func TestAnotherContainerStartsOnWhatTheFirstHadWhenTheAnswerIsDamaged(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.enrol(t)
	m.Set(t, map[string]string{contract.PeerPlane.CertificateAnnotation(): "%"})
	m.start(t)
	if err := m.step(t); err != nil {
		t.Errorf("waiting for %v, want that etcd can start", err)
	}
	m.clock.Step(2 * time.Hour)
	m.start(t)
	if err := m.step(t); err == nil {
		t.Error("etcd would start on an expired certificate")
	}
}

func TestAnUnreadableKeyIsNotReplaced(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	path := filepath.Join(m.RunDir, string(contract.PeerPlane), contract.KeyFile)
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newEnroller(m.enroller.Options, m.observer)
	if err == nil || !strings.Contains(err.Error(), "delete the pod") || m.file(t, contract.PeerPlane, contract.KeyFile) != "damaged" {
		t.Errorf("error %v, want one that says what to do", err)
	}
}

func TestARequestThatIsRefusedIsSentAgainMoreAndMoreRarely(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.Fail(errors.New("pod my-cluster-0 has another UID"))
	for range 60 {
		_ = m.step(t)
		m.clock.Step(time.Second)
	}
	if got := m.Patches(); got < 4 || got > 8 {
		t.Errorf("%d attempts within a minute, want a few", got)
	}
	if waiting := strings.Join(m.observer.Readiness().WaitingFor, "; "); !strings.Contains(waiting, "another UID") {
		t.Errorf("waiting for %q, want the reason of the refusal", waiting)
	}
	m.Fail(nil)
	m.clock.Step(lastRetry)
	_ = m.step(t)
	if m.Request(t, contract.PeerPlane) == nil {
		t.Error("no request, want it sent when the API server takes it")
	}
}

func TestAnOverwrittenRequestIsRestored(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.enrol(t)
	want := m.Annotation(contract.ClientPlane.RequestAnnotation())
	m.Set(t, map[string]string{contract.ClientPlane.RequestAnnotation(): "another"})
	m.clock.Step(time.Minute)
	if err := m.step(t); err != nil {
		t.Error(err)
	}
	if got := m.Annotation(contract.ClientPlane.RequestAnnotation()); got != want {
		t.Errorf("request %.20q, want the member's", got)
	}
}

// badAnswers are values of the annotation of the client plane that no member may use,
// with a part of what is said about them.
func badAnswers(t *testing.T, m *member) map[string]struct{ value, why string } {
	t.Helper()
	now, plane := m.clock.Now(), contract.ClientPlane
	public := m.Request(t, plane).PublicKey
	issue := func(by pki.Authority, key any, change func(*pki.LeafSpec)) string {
		spec := m.Spec(t, plane, now)
		change(&spec)
		leaf, err := by.Issue(key, spec)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(pki.EncodeBundle(leaf))
	}
	asIs := func(*pki.LeafSpec) {}
	ca := m.CAs[plane]
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	good := issue(ca, public, asIs)
	return map[string]struct{ value, why string }{
		"for another key":           {issue(ca, key.Signer().Public(), asIs), "another key"},
		"for the other plane's key": {issue(ca, m.Request(t, contract.PeerPlane).PublicKey, asIs), "another key"},
		"by a CA of the same name":  {issue(pkitest.CA(t, "my-cluster-client-ca", noon()), public, asIs), "verifying"},
		"by the other plane's CA":   {issue(m.CAs[contract.PeerPlane], public, asIs), "verifying"},
		"expired":                   {issue(ca, public, func(s *pki.LeafSpec) { s.Now, s.Validity = now.Add(-30*time.Second), time.Second }), "expired"},
		"not valid yet":             {issue(ca, public, func(s *pki.LeafSpec) { s.Now = now.Add(24 * time.Hour) }), "not valid before"},
		"for clients":               {issue(ca, public, func(s *pki.LeafSpec) { s.Usages = []pki.Usage{pki.ClientAuth} }), "verifying"},
		"garbage":                   {"%%%", "not base64"},
		"no PEM":                    {base64.StdEncoding.EncodeToString([]byte("hello")), "parsing certificates"},
		"a private key":             {base64.StdEncoding.EncodeToString(key.PEM()), "parsing certificates"},
		"cut off":                   {good[:len(good)/2/4*4], "parsing certificates"},
		"of 200 KiB":                {strings.Repeat("QUFB", 50<<10), "at most"},
	}
}

func TestBadAnswersStartNothing(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	_ = m.step(t)
	m.Sign(t, contract.PeerPlane, m.clock.Now())
	m.clock.Step(time.Minute)
	for name, bad := range badAnswers(t, m) {
		m.Set(t, map[string]string{contract.ClientPlane.CertificateAnnotation(): bad.value})
		err := m.step(t)
		if err == nil || !strings.Contains(err.Error(), bad.why) || strings.Contains(err.Error(), "PRIVATE KEY-") {
			t.Errorf("%s: waiting for %v, want something about %q", name, err, bad.why)
		}
		if text := m.file(t, contract.ClientPlane, contract.CertificateFile); text != "" {
			t.Errorf("%s: it is presented", name)
		}
		if readiness := m.observer.Readiness(); len(readiness.WaitingFor) != 1 {
			t.Errorf("%s: readiness %+v, want that one thing is missing", name, readiness)
		}
	}
}

func TestBadAnswersLeaveTheCertificateInUse(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.enrol(t)
	m.clock.Step(time.Minute)
	before := m.file(t, contract.ClientPlane, contract.CertificateFile)
	presented := m.observer.TLS().Roles[contract.ClientPlane.Role()].Presents
	for name, bad := range badAnswers(t, m) {
		m.Set(t, map[string]string{contract.ClientPlane.CertificateAnnotation(): bad.value})
		_ = m.step(t)
		if m.file(t, contract.ClientPlane, contract.CertificateFile) != before {
			t.Fatalf("%s: another certificate is presented", name)
		}
		report := m.observer.TLS()
		if !strings.Contains(report.Reload.Failure, bad.why) || report.Roles[contract.ClientPlane.Role()].Presents != presented {
			t.Errorf("%s: report %+v, want the reason %q and what is in use", name, report.Reload, bad.why)
		}
	}
	renewed := m.Sign(t, contract.ClientPlane, m.clock.Now())
	if err := m.step(t); err != nil || m.observer.TLS().Reload.Failure != "" {
		t.Errorf("%v, report %+v; want that a good answer ends the failure", err, m.observer.TLS().Reload)
	}
	if got := m.observer.TLS().Roles[contract.ClientPlane.Role()].Presents; got != pki.FingerprintOf(renewed).String() {
		t.Errorf("%s is reported as presented, want the renewed certificate", got)
	}
}

func TestOnlyPinnedAnchorsAreTrusted(t *testing.T) {
	t.Parallel()
	other := pkitest.CA(t, "my-cluster-client-ca", noon()).Certificate()
	client := contract.ClientPlane
	type anchors = map[contract.Plane][]*x509.Certificate
	for name, c := range map[string]struct {
		publish func(anchors)
		pinned  int64
		why     string
	}{
		"another one is published": {
			func(a anchors) { a[client] = []*x509.Certificate{other} }, 1,
			"to accept CA " + pki.FingerprintOf(other).String() + " for the client plane",
		},
		"another one is published beside it": {
			func(a anchors) { a[client] = append(a[client], other) }, 1, "to accept CA " + pki.FingerprintOf(other).String(),
		},
		"that of the other plane is published":  {func(a anchors) { a[client] = a[contract.PeerPlane] }, 1, "for the client plane"},
		"none is published":                     {func(a anchors) { a[client] = nil }, 1, "client-ca.crt"},
		"the publication is older than the pin": {func(anchors) {}, 3, "revision 3 or newer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waiting, running := newMember(t), newMember(t)
			running.enrol(t)
			before := running.file(t, client, contract.AnchorsFile)
			for _, m := range []*member{waiting, running} {
				published := m.Anchors()
				c.publish(published)
				m.Publish(t, 2, published)
				m.Pin(t, c.pinned, m.Anchors())
				if err := m.step(t); err == nil || !strings.Contains(err.Error(), c.why) {
					t.Errorf("waiting for %v, want something about %q", err, c.why)
				}
			}
			if report := running.observer.TLS(); !strings.Contains(report.Reload.Failure, c.why) || report.Mounted != nil {
				t.Errorf("report %+v, want the reason", report)
			}
			if running.file(t, client, contract.AnchorsFile) != before {
				t.Error("etcd would load other anchors")
			}
			if waiting.Request(t, client) == nil {
				t.Error("the member has not even asked")
			}
		})
	}
}

func TestAnotherPinAcceptsAnotherAnchor(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.enrol(t)
	loaded := m.observer.TLS().Roles[contract.ClientPlane.Role()].Trusts
	anchors := m.Anchors()
	anchors[contract.ClientPlane] = append(anchors[contract.ClientPlane], pkitest.CA(t, "new", noon()).Certificate())
	m.Publish(t, 2, anchors)
	m.Pin(t, 2, anchors)
	if err := m.step(t); err != nil {
		t.Fatal(err)
	}
	report := m.observer.TLS()
	if got := report.Roles[contract.ClientPlane.Role()].Trusts; len(got) != 1 || got[0] != loaded[0] || report.Revision != 1 {
		t.Errorf("etcd trusts %v of revision %d, want what it was started with", got, report.Revision)
	}
	if report.Mounted == nil || report.Mounted.Revision != 2 {
		t.Errorf("mounted %+v, want revision 2", report.Mounted)
	}
	m.Publish(t, 3, m.Anchors())
	if err := m.step(t); err != nil || m.observer.TLS().Revision != 3 {
		t.Errorf("%v, revision %d; want that etcd has loaded what revision 3 publishes", err, m.observer.TLS().Revision)
	}
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.enrol(t)
	if err := m.step(t); err != nil {
		t.Fatal(err)
	}
	patches, log := m.Patches(), m.log.String()
	for range 100 {
		m.clock.Step(time.Second)
		if err := m.step(t); err != nil {
			t.Fatal(err)
		}
	}
	if m.Patches() != patches || m.log.String() != log {
		t.Errorf("%d patches, want %d; the log grew by %q", m.Patches(), patches, strings.TrimPrefix(m.log.String(), log))
	}
}

func TestNoKeyIsInTheLog(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	m.enrol(t)
	for _, plane := range contract.Planes() {
		for _, text := range []string{m.log.String(), m.Annotation(plane.RequestAnnotation()), m.Annotation(plane.CertificateAnnotation())} {
			if strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIV"))) {
				t.Errorf("a private key is in %.60q", text)
			}
		}
	}
}
