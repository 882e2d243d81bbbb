package ownpod_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/etcd/agent/ownpod"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// played is an API server with one pod.
type played struct {
	uid     string
	patches []string
	kinds   []string
	tokens  []string
	// answer replaces the API server's own refusal.
	answer string
}

func (p *played) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.patches = append(p.patches, r.Method+" "+r.URL.String()+" "+string(body))
	p.kinds = append(p.kinds, r.Header.Get("Content-Type"))
	p.tokens = append(p.tokens, r.Header.Get("Authorization"))
	var patch struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.Unmarshal(body, &patch); err != nil || patch.Metadata.UID != p.uid {
		w.WriteHeader(http.StatusUnprocessableEntity)
		if p.answer == "" {
			p.answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"metadata.uid: field is immutable"}`
		}
		_, _ = io.WriteString(w, p.answer)
		return
	}
	_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"my-cluster-0"}}`)
}

// account is what a kubelet mounts.
type account struct{ dir string }

func (a account) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func annotator(t *testing.T, api *played, pod ownpod.Pod) (*ownpod.Annotator, account) {
	t.Helper()
	server := httptest.NewTLSServer(api)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	mounted := account{t.TempDir()}
	mounted.write(t, "token", "first\n")
	mounted.write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	own, err := ownpod.New(ownpod.API{URL: *address, Transport: ownpod.Account{Dir: mounted.dir}}, pod)
	if err != nil {
		t.Fatal(err)
	}
	return own, mounted
}

func thePod() ownpod.Pod {
	return ownpod.Pod{Namespace: "etcd", Name: "my-cluster-0", UID: "a-uid"}
}

func TestOnlyTheAnnotationsOfThePodOfThatUIDArePatched(t *testing.T) {
	t.Parallel()
	api := &played{uid: "a-uid"}
	own, _ := annotator(t, api, thePod())
	if err := own.Annotate(t.Context(), map[string]string{"kubeEtcdCSR-peer": "request"}); err != nil {
		t.Fatal(err)
	}
	want := []string{`PATCH /api/v1/namespaces/etcd/pods/my-cluster-0?fieldManager=keyturn-agent {"metadata":{"annotations":{"kubeEtcdCSR-peer":"request"},"uid":"a-uid"}}`}
	if diff := cmp.Diff(want, api.patches); diff != "" || api.kinds[0] != "application/merge-patch+json" {
		t.Errorf("content type %s, writes (-want +got):\n%s", api.kinds, diff)
	}
}

func TestAnotherPodOfTheNameIsNotAnnotated(t *testing.T) {
	t.Parallel()
	own, _ := annotator(t, &played{uid: "another-uid"}, thePod())
	err := own.Annotate(t.Context(), map[string]string{"kubeEtcdCSR-peer": "request"})
	want := "annotating pod etcd/my-cluster-0 of UID a-uid: the API server answered 422 Unprocessable Entity: metadata.uid: field is immutable"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestAPodWithoutUIDIsNotAnnotated(t *testing.T) {
	t.Parallel()
	if _, err := ownpod.New(ownpod.API{}, ownpod.Pod{Namespace: "etcd", Name: "my-cluster-0"}); err == nil {
		t.Error("no error, want that the UID is needed")
	}
}

func TestAnAnswerThatIsNotOfTheAPIServerIsARefusal(t *testing.T) {
	t.Parallel()
	own, _ := annotator(t, &played{uid: "another-uid", answer: "<html>"}, thePod())
	err := own.Annotate(t.Context(), nil)
	if err == nil || !strings.HasSuffix(err.Error(), "the API server answered 422 Unprocessable Entity") {
		t.Errorf("error %v, want one with the status of the answer", err)
	}
}

func TestTheTokenThatIsMountedNowIsSent(t *testing.T) {
	t.Parallel()
	api := &played{uid: "a-uid"}
	own, mounted := annotator(t, api, thePod())
	for _, token := range []string{"first", "second"} {
		mounted.write(t, "token", token)
		if err := own.Annotate(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"Bearer first", "Bearer second"}, api.tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

func TestAServerThatTheMountedCADoesNotVerifyReceivesNoToken(t *testing.T) {
	t.Parallel()
	api := &played{uid: "a-uid"}
	own, mounted := annotator(t, api, thePod())
	another := pkitest.CA(t, "another", time.Now())
	mounted.write(t, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: another.Certificate().Raw})))
	if err := own.Annotate(t.Context(), nil); err == nil || len(api.tokens) > 0 {
		t.Errorf("error %v, tokens %v; want an error and none", err, api.tokens)
	}
}

func TestAnAccountThatIsNotMountedIsAnError(t *testing.T) {
	t.Parallel()
	own, err := ownpod.New(ownpod.API{URL: url.URL{Scheme: "https", Host: "192.0.2.1"}, Transport: ownpod.Account{Dir: t.TempDir()}}, thePod())
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Annotate(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "reading the token") {
		t.Errorf("error %v, want one about the token", err)
	}
}
