package agenttest

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/mount/mounttest"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
	"github.com/keyturn/keyturn/internal/publication"
)

// Pod is a member's pod with what is mounted into it. It is safe for concurrent use.
type Pod struct {
	// Name is the pod's.
	Name string
	// NodeDir and PodDir are the mounted directories, RunDir the memory-backed one.
	NodeDir, PodDir, RunDir string
	// CAs sign the certificates of each plane. They are published and pinned.
	CAs map[contract.Plane]pki.Authority

	mu          sync.Mutex
	annotations map[string]string
	patches     int
	lagging     bool
	failing     error
}

// NewPod makes a pod whose CAs are valid from a time on. Its publication has revision 1.
func NewPod(tb testing.TB, name string, now time.Time) *Pod {
	tb.Helper()
	dir := tb.TempDir()
	p := &Pod{
		Name: name, NodeDir: filepath.Join(dir, "node"), PodDir: filepath.Join(dir, "pod"), RunDir: filepath.Join(dir, "run"),
		CAs: map[contract.Plane]pki.Authority{}, annotations: map[string]string{},
	}
	for _, plane := range contract.Planes() {
		p.CAs[plane] = pkitest.CA(tb, "my-cluster-"+string(plane)+"-ca", now)
	}
	anchors := p.Anchors()
	p.Publish(tb, 1, anchors)
	p.Pin(tb, 1, anchors)
	p.Start(tb, contract.Start{IsFirst: true, Members: map[string]string{name: "https://" + name}})
	return p
}

// Start tells the pod how etcd starts in it.
func (p *Pod) Start(tb testing.TB, start contract.Start) {
	tb.Helper()
	told, err := start.Encode()
	if err != nil {
		tb.Fatal(err)
	}
	p.Set(tb, map[string]string{contract.StartAnnotation: told})
}

// Join tells the pod that its member has joined.
func (p *Pod) Join(tb testing.TB) {
	tb.Helper()
	p.Start(tb, contract.Start{HasJoined: true, Members: map[string]string{p.Name: "https://" + p.Name}})
}

// Anchors are the certificates of the CAs.
func (p *Pod) Anchors() map[contract.Plane][]*x509.Certificate {
	anchors := map[contract.Plane][]*x509.Certificate{}
	for plane, ca := range p.CAs {
		anchors[plane] = []*x509.Certificate{ca.Certificate()}
	}
	return anchors
}

func trusting(revision int64, anchors map[contract.Plane][]*x509.Certificate) publication.Publication {
	published := publication.Publication{Revision: revision, Trust: map[publication.Role][]string{}}
	for plane, certificates := range anchors {
		for _, certificate := range certificates {
			published.Trust[plane.Role()] = append(published.Trust[plane.Role()], pki.FingerprintOf(certificate).String())
		}
		slices.Sort(published.Trust[plane.Role()])
	}
	return published
}

// Publish mounts a publication of the anchors with the anchors.
func (p *Pod) Publish(tb testing.TB, revision int64, anchors map[contract.Plane][]*x509.Certificate) {
	tb.Helper()
	data, err := trusting(revision, anchors).Encode()
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string][]byte{agent.PublicationKey: data}
	for plane, certificates := range anchors {
		files[plane.AnchorsKey()] = pki.EncodeBundle(certificates...)
	}
	mounttest.WriteVolume(tb, p.NodeDir, files)
}

// Pin lets the pod accept exactly the anchors.
func (p *Pod) Pin(tb testing.TB, revision int64, anchors map[contract.Plane][]*x509.Certificate) {
	tb.Helper()
	data, err := trusting(revision, anchors).Encode()
	if err != nil {
		tb.Fatal(err)
	}
	p.Set(tb, map[string]string{agent.PinAnnotation: string(data)})
}

// Set gives the pod annotations and mounts them.
func (p *Pod) Set(tb testing.TB, annotations map[string]string) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.annotations, annotations)
	p.mount(tb)
}

func (p *Pod) mount(tb testing.TB) {
	tb.Helper()
	var lines strings.Builder
	for _, key := range slices.Sorted(maps.Keys(p.annotations)) {
		fmt.Fprintf(&lines, "%s=%s\n", key, strconv.Quote(p.annotations[key]))
	}
	mounttest.WriteVolume(tb, p.PodDir, map[string][]byte{agent.AnnotationsFile: []byte(lines.String())})
}

// API returns the API server as the agent knows it. What the agent writes is mounted
// immediately, unless the kubelet lags.
func (p *Pod) API(tb testing.TB) func(ctx context.Context, annotations map[string]string) error {
	tb.Helper()
	return func(_ context.Context, annotations map[string]string) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.patches++
		if p.failing != nil {
			return p.failing
		}
		maps.Copy(p.annotations, annotations)
		if !p.lagging {
			p.mount(tb)
		}
		return nil
	}
}

// Fail lets the API server refuse everything with an error; nil ends that.
func (p *Pod) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing = err
}

// Lag lets the kubelet mount nothing of what the agent writes from now on.
func (p *Pod) Lag() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lagging = true
}

// Patches counts the writes of the agent, refused ones included.
func (p *Pod) Patches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.patches
}

// Annotation returns a value as it is stored.
func (p *Pod) Annotation(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.annotations[key]
}

// Request reads the request of a plane; nil when there is none.
func (p *Pod) Request(tb testing.TB, plane contract.Plane) *x509.CertificateRequest {
	tb.Helper()
	value := p.Annotation(plane.RequestAnnotation())
	if value == "" {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		tb.Fatal(err)
	}
	request, err := pki.ParseRequest(text)
	if err != nil {
		tb.Fatal(err)
	}
	return request
}

// Answer stores a chain as the operator does.
func (p *Pod) Answer(tb testing.TB, plane contract.Plane, chain ...*x509.Certificate) {
	tb.Helper()
	p.Set(tb, map[string]string{plane.CertificateAnnotation(): base64.StdEncoding.EncodeToString(pki.EncodeBundle(chain...))})
}

// Spec is what the operator signs in a plane.
func (p *Pod) Spec(tb testing.TB, plane contract.Plane, now time.Time) pki.LeafSpec {
	tb.Helper()
	sans, err := pki.NewSANs(p.Name, "localhost", "127.0.0.1")
	if err != nil {
		tb.Fatal(err)
	}
	spec := pki.LeafSpec{
		Subject: pki.Subject{CommonName: p.Name}, SANs: sans, Usages: []pki.Usage{pki.ServerAuth}, Validity: time.Hour, Now: now,
	}
	if plane == contract.PeerPlane {
		spec.Usages = pki.BothUsages()
	}
	return spec
}

// Sign answers the request of a plane, and returns the certificate.
func (p *Pod) Sign(tb testing.TB, plane contract.Plane, now time.Time) *x509.Certificate {
	tb.Helper()
	leaf, err := p.CAs[plane].Issue(p.Request(tb, plane).PublicKey, p.Spec(tb, plane, now))
	if err != nil {
		tb.Fatal(err)
	}
	p.Answer(tb, plane, leaf)
	return leaf
}
