package apitest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

// programVariable names the folder with cert-manager's program and its definitions.
const programVariable = "KEYTURN_CERT_MANAGER"

// apiServer is the connection that all tests share. Each test has a namespace of its own.
var apiServer *rest.Config

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) == "" {
		fmt.Fprintf(os.Stderr, "%s names the folder with cert-manager and its crds; make api-test sets it\n", programVariable)
		os.Exit(1)
	}
	definitions := envtest.CRDInstallOptions{Paths: []string{definitions()}}
	os.Exit(kubetest.Shared(definitions, func(server *envtest.Environment) int { return run(m, server) }))
}

// run runs the tests while cert-manager runs beside the API server.
func run(m *testing.M, server *envtest.Environment) int {
	apiServer = server.Config
	var said bytes.Buffer
	stop, err := startCertManager(server, &said)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "cert-manager said:\n%s\n", said.Bytes())
	}
	return code
}

func startCertManager(server *envtest.Environment, said io.Writer) (stop func() error, err error) {
	user, err := server.AddUser(envtest.User{Name: "cert-manager", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, err
	}
	content, err := user.KubeConfig()
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(os.TempDir(), fmt.Sprintf("keyturn-cert-manager-%d", os.Getpid()))
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		return nil, err
	}
	stopProgram, err := kubetest.Run(said, filepath.Join(os.Getenv(programVariable), "certmanager"), "-kubeconfig", kubeconfig)
	if err != nil {
		return nil, errors.Join(err, os.Remove(kubeconfig))
	}
	return func() error {
		stopProgram()
		return os.Remove(kubeconfig)
	}, nil
}

// definitions is the folder of cert-manager's CustomResourceDefinitions.
func definitions() string { return filepath.Join(os.Getenv(programVariable), "crds") }

// patience is many times what cert-manager takes on a machine that has nothing else to do.
const patience = 2 * time.Minute

// traffic counts requests to the API server.
type traffic struct {
	next http.RoundTripper

	mu            sync.Mutex
	reads, writes []string
	// forbidden are the resources, and objects of them, that no request reaches.
	forbidden []string
	// loses is after how many writes more the answer to one gets lost, as when the operator crashes; 0 is never.
	loses int
	// before is done once, before the next write.
	before func()
}

var errLost = errors.New("the answer got lost")

func (c *traffic) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.forbids(request) {
		return &http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Header: http.Header{}, Request: request}, nil
	}
	if request.Method != http.MethodGet {
		c.interrupt()
	}
	response, err := c.next.RoundTrip(request)
	if err == nil && c.note(request) {
		return nil, errors.Join(errLost, response.Body.Close())
	}
	return response, err
}

func (c *traffic) forbids(request *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.forbidden, func(resource string) bool {
		return strings.Contains(request.URL.Path+"/", "/"+resource+"/")
	})
}

func (c *traffic) interrupt() {
	c.mu.Lock()
	before := c.before
	c.before = nil
	c.mu.Unlock()
	if before != nil {
		before()
	}
}

// note counts a request, and reports whether its answer gets lost.
func (c *traffic) note(request *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := request.Method + " " + request.URL.Path
	if request.Method == http.MethodGet {
		c.reads = append(c.reads, seen)
		return false
	}
	c.writes = append(c.writes, seen)
	c.loses--
	return c.loses == 0
}

// interject has something done before the next write.
func (c *traffic) interject(before func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = before
}

// lose has the answer to a write get lost.
func (c *traffic) lose(write int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loses = write
}

// since are the requests since it was asked last.
func (c *traffic) since() (reads, writes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reads, writes = c.reads, c.writes
	c.reads, c.writes = nil, nil
	return reads, writes
}

// world is a namespace with an issuer of kind CA, and an owner of Certificates.
type world struct {
	t         *testing.T
	namespace string
	person    client.Client
	server    dynamic.Interface
	traffic   *traffic
	ca        pki.Authority
	options   certmanager.Options
	// denies is whether the world acts as an approver that denies everything.
	denies bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := newWorldOn(t, apiServer)
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: "the company"}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 365 * 24 * time.Hour, Now: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.ca = ca
	w.create(&corev1.Secret{
		ObjectMeta: w.meta("company"), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: pki.EncodeBundle(ca.Certificate()), corev1.TLSPrivateKeyKey: ca.Key().PEM()},
	})
	w.create(w.object("Issuer", "company", map[string]any{"ca": map[string]any{"secretName": "company"}}))
	return w
}

// newWorldOn has no issuer.
func newWorldOn(t *testing.T, config *rest.Config) *world {
	t.Helper()
	w := &world{t: t, traffic: &traffic{}}
	var err error
	if w.person, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	w.namespace = kubetest.Namespace(t, w.person, "issuer-")
	t.Cleanup(w.tellAfterFailure)
	counted := rest.CopyConfig(config)
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.traffic.next = next
		return w.traffic
	})
	if w.server, err = dynamic.NewForConfig(counted); err != nil {
		t.Fatal(err)
	}
	reader, err := client.New(counted, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	live := certmanager.Live{Server: w.server, Client: reader}
	w.options = certmanager.Options{
		Server: w.server, Certificates: live, Secrets: live, Memory: certmanager.NewMemory(), Namespace: w.namespace,
		Issuer: certmanager.Reference{Name: "company", Kind: certmanager.KindIssuer},
		Owner:  w.owner("my-cluster"), References: certmanager.WithReferences,
		Labels:   map[string]string{"team": "checkout"},
		Selector: map[string]string{"strimzi.io/cluster": "my-cluster", "strimzi.io/kind": "Kafka"},
	}
	return w
}

// tellAfterFailure logs what cert-manager has said of the objects of a test that has failed. No key is among it.
func (w *world) tellAfterFailure() {
	if !w.t.Failed() {
		return
	}
	ctx := context.WithoutCancel(w.t.Context())
	for _, kind := range []string{"Certificate", "CertificateRequest"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: certmanager.Group, Version: "v1", Kind: kind + "List"})
		if err := w.person.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			w.t.Log(err)
		}
		for i := range list.Items {
			text, _ := json.Marshal(list.Items[i].Object) // it was read as JSON
			w.t.Logf("%s", text)
		}
	}
	secrets := &corev1.SecretList{}
	if err := w.person.List(ctx, secrets, client.InNamespace(w.namespace)); err != nil {
		w.t.Log(err)
	}
	for i := range secrets.Items {
		w.t.Logf("Secret %s (uid %s) of %s has %q, annotations %v, %s", secrets.Items[i].Name, secrets.Items[i].UID, secrets.Items[i].CreationTimestamp,
			entriesOf(&secrets.Items[i]), secrets.Items[i].Annotations, secrets.Items[i].Data[corev1.TLSCertKey])
	}
}

// owner creates an object that Certificates may be made for.
func (w *world) owner(name string) metav1.OwnerReference {
	w.t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: w.meta(name)}
	w.create(owner)
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID, BlockOwnerDeletion: new(true)}
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.person.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// object is one of cert-manager's.
func (w *world) object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: certmanager.Group, Version: "v1", Kind: kind})
	object.SetNamespace(w.namespace)
	object.SetName(name)
	return object
}

func (w *world) issuer() *certmanager.Issuer { return certmanager.New(w.options) }

func (w *world) request(name string) issuer.Request {
	w.t.Helper()
	sans, err := pki.NewSANs(name+".brokers.svc", "10.1.2.3")
	if err != nil {
		w.t.Fatal(err)
	}
	return issuer.Request{
		Name: name, Subject: pki.Subject{Organization: "io.strimzi", CommonName: "my-cluster-kafka"}, SANs: sans, Usages: pki.BothUsages(),
		Validity: 48 * time.Hour, Renewal: 12 * time.Hour, Key: pki.DefaultLeafKey(pki.ECDSA), Now: time.Now(),
	}
}

// ask asks once.
func (w *world) ask(request issuer.Request) issuer.Outcome {
	w.t.Helper()
	outcome, err := w.issuer().Issue(w.t.Context(), request)
	if err != nil {
		w.t.Fatal(err)
	}
	return outcome
}

// issued asks until the request is answered.
func (w *world) issued(request issuer.Request) issuer.Issued {
	w.t.Helper()
	var issued issuer.Issued
	var last issuer.Outcome
	if !w.within(patience, func() bool {
		request.Now = time.Now()
		last = w.ask(request)
		outcome, is := last.(issuer.Issued)
		issued = outcome
		return is
	}) {
		w.t.Fatalf("not issued within %s: %T %+v", patience, last, last)
	}
	return issued
}

func (w *world) pending(request issuer.Request) issuer.Pending {
	w.t.Helper()
	outcome := w.ask(request)
	pending, is := outcome.(issuer.Pending)
	if !is {
		w.t.Fatalf("got %T %+v, want Pending", outcome, outcome)
	}
	return pending
}

func (w *world) denied(request issuer.Request, mentions ...string) {
	w.t.Helper()
	outcome := w.ask(request)
	denied, is := outcome.(issuer.Denied)
	if !is {
		w.t.Fatalf("got %T %+v, want Denied", outcome, outcome)
	}
	w.mentions(denied.Why, mentions...)
}

func (w *world) mentions(why string, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		if !strings.Contains(why, part) {
			w.t.Errorf("%q does not mention %q", why, part)
		}
	}
}

// until waits until something holds.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	if !w.within(patience, holds) {
		w.t.Fatalf("%s: not within %s", what, patience)
	}
}

func (w *world) within(limit time.Duration, holds func() bool) bool {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}

// list lists a kind of cert-manager's in the namespace.
func (w *world) list(kind string) []unstructured.Unstructured {
	w.t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: certmanager.Group, Version: "v1", Kind: kind + "List"})
	if err := w.person.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// find reads an object by name, and whether it exists.
func (w *world) find(object client.Object, name string) bool {
	w.t.Helper()
	err := w.person.Get(w.t.Context(), types.NamespacedName{Namespace: w.namespace, Name: name}, object)
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

func (w *world) certificate(name string) *unstructured.Unstructured {
	w.t.Helper()
	certificate := w.object("Certificate", name, nil)
	if !w.find(certificate, name) {
		w.t.Fatalf("Certificate %s does not exist", name)
	}
	return certificate
}

func (w *world) secret(name string) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if !w.find(secret, name) {
		w.t.Fatalf("Secret %s does not exist", name)
	}
	return secret
}

func (w *world) patch(object client.Object, patch string) {
	w.t.Helper()
	if err := w.person.Patch(w.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

// advance lets cert-manager and the garbage collector work for a while.
func (w *world) advance(t *testing.T) {
	t.Helper()
	w.collect()
	w.within(10*time.Second, func() bool {
		if w.denies {
			return w.deny()
		}
		for _, certificate := range w.list("Certificate") {
			if !isReady(&certificate) {
				return false
			}
		}
		return true
	})
}

// isReady reports whether cert-manager has nothing more to do for a Certificate.
func isReady(certificate *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	isReady, isIssuing := false, false
	for _, element := range conditions {
		condition, _ := element.(map[string]any)
		isTrue := condition["status"] == "True"
		isReady = isReady || isTrue && condition["type"] == "Ready" && condition["observedGeneration"] == certificate.GetGeneration()
		isIssuing = isIssuing || isTrue && condition["type"] == "Issuing"
	}
	return isReady && !isIssuing
}

// collect deletes CertificateRequests whose Certificates are gone, as the garbage collector does in a cluster.
func (w *world) collect() {
	w.t.Helper()
	exists := map[types.UID]bool{}
	for _, certificate := range w.list("Certificate") {
		exists[certificate.GetUID()] = true
	}
	for _, request := range w.list("CertificateRequest") {
		if owners := request.GetOwnerReferences(); len(owners) == 1 && !exists[owners[0].UID] {
			if err := client.IgnoreNotFound(w.person.Delete(w.t.Context(), &request)); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// deny denies all CertificateRequests, and reports whether there are any.
func (w *world) deny() bool {
	w.t.Helper()
	requests := w.list("CertificateRequest")
	for _, request := range requests {
		patch := fmt.Sprintf(`{"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "Policy",
			"message": "O=io.strimzi is reserved", "lastTransitionTime": %q}]}}`, time.Now().UTC().Format(time.RFC3339))
		err := w.person.Status().Patch(w.t.Context(), &request, client.RawPatch(types.MergePatchType, []byte(patch)))
		if err := client.IgnoreNotFound(err); err != nil {
			w.t.Fatal(err)
		}
	}
	return len(requests) > 0
}

func (w *world) anchors() []*x509.Certificate { return []*x509.Certificate{w.ca.Certificate()} }
