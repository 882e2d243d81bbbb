package apitest

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
)

// sharing is a cluster whose pods may ask by one request.
func sharing(size int32) etcdv1beta2.EtcdClusterSpec {
	spec := of(size)
	spec.TLS = &etcdv1beta2.TLSPolicy{Dynamic: &etcdv1beta2.DynamicTLS{Attestation: etcdv1beta2.AttestationAnnotation}}
	return spec
}

// created is the first member's pod with an address, before it has asked for anything.
func (w *world) created() *corev1.Pod {
	w.t.Helper()
	w.reconcile()
	w.reconcile() // is due to the event of the pod
	pod := w.pod(first)
	w.setAddress(pod, "10.0.0.1")
	return pod
}

// proxy lets a program without credentials reach the API server.
func proxy(t *testing.T) string {
	t.Helper()
	target, err := url.Parse(apiServer.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(apiServer)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
	})
	t.Cleanup(server.Close)
	return server.URL
}

func TestAScriptThatKnowsTwoAnnotationsEnrols(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sharing(1))
	w.clock.SetTime(time.Now()) // OpenSSL has no other
	pod := w.created()
	dir := t.TempDir()
	for _, plane := range contract.Planes() { // are mounted into the pod
		anchors := w.secret(w.namespace, first).Data[plane.AnchorsKey()]
		if err := os.WriteFile(filepath.Join(dir, string(plane)+"-ca.crt"), anchors, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := exec.CommandContext(ctx, "sh", filepath.Join("testdata", "enrol.sh"))
	script.Env = append(os.Environ(), "DIR="+dir, "NAME="+first, "HOST="+first+".my-cluster-peer."+w.namespace+".svc",
		"POD="+proxy(t)+"/api/v1/namespaces/"+w.namespace+"/pods/"+first)
	output := &strings.Builder{}
	script.Stdout, script.Stderr = output, output
	if err := script.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- script.Wait() }()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for running := true; running; {
		select {
		case err := <-ended:
			running = false
			if err != nil {
				t.Fatalf("the script: %v\n%s", err, output)
			}
		case <-ticker.C:
			w.reconcile()
		}
	}
	w.etcd.Start(t, first, flagOf(pod, "--initial-advertise-peer-urls"))
	w.reconcile()
	w.setReady(w.pod(first))
	w.reconcile()
	w.reconcile()
	if ready := w.condition(etcdv1beta2.ConditionReady); ready.Status != metav1.ConditionTrue {
		t.Errorf("the cluster is not ready: %+v", ready)
	}
	if annotations := w.pod(first).Annotations; annotations[contract.PeerPlane.CertificateAnnotation()] != "" {
		t.Error("the pod has an answer that it did not ask for")
	}
	w.atRest()
}

// The certificate names the pod, whatever the request says.
func TestARequestUnderAnotherNameIsSignedForItsPodAndTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	pod := w.created()
	sender := w.start(pod)
	sender.name = "other-cluster-0"
	w.annotateAs(w.ofPod(pod), first, contract.PeerPlane.RequestAnnotation(), sender.request(t, contract.PeerPlane))
	w.told("")
	w.reconcile()
	if leaf := w.chain(w.pod(first), contract.PeerPlane)[0]; leaf.Subject.CommonName != first {
		t.Errorf("the certificate is for %s", leaf.Subject)
	}
	if !w.told(`RequestNameIgnored The peer request of pod my-cluster-0 has the common name "other-cluster-0"`) {
		t.Error("there is no event")
	}
	w.reconcile()
	if w.told("RequestNameIgnored") {
		t.Error("the event is repeated")
	}
}

func TestOneRequestForBothPlanesIsDeniedByDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, of(1))
	w.created()
	w.annotate(first, contract.RequestAnnotation, w.newRequest())
	if message := w.until("RequestDenied"); !strings.Contains(message, "KeyUsedForBothPlanes") || !strings.Contains(message, "attestation") {
		t.Errorf("the message is %q", message)
	}
	if answer := w.pod(first).Annotations[contract.CertificateAnnotation]; answer != "" {
		t.Error("the request is answered")
	}
}
