package ownpod_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/keyturn/keyturn/internal/etcd/agent/ownpod"
)

// played is an API server with one pod.
type played struct {
	uid     string
	patches []string
	kinds   []string
}

func (p *played) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.patches = append(p.patches, r.Method+" "+r.URL.Path+" "+string(body))
	p.kinds = append(p.kinds, r.Header.Get("Content-Type"))
	var patch struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.Unmarshal(body, &patch); err != nil || patch.Metadata.UID != p.uid {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"metadata.uid: field is immutable"}`)
		return
	}
	_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"my-cluster-0"}}`)
}

func annotator(t *testing.T, api *played, pod ownpod.Pod) *ownpod.Annotator {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	own, err := ownpod.New(&rest.Config{Host: server.URL}, pod)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func TestOnlyTheAnnotationsOfThePodOfThatUIDArePatched(t *testing.T) {
	t.Parallel()
	api := &played{uid: "a-uid"}
	own := annotator(t, api, ownpod.Pod{Namespace: "etcd", Name: "my-cluster-0", UID: "a-uid"})
	if err := own.Annotate(t.Context(), map[string]string{"kubeEtcdCSR-peer": "request"}); err != nil {
		t.Fatal(err)
	}
	want := []string{`PATCH /api/v1/namespaces/etcd/pods/my-cluster-0 {"metadata":{"annotations":{"kubeEtcdCSR-peer":"request"},"uid":"a-uid"}}`}
	if diff := cmp.Diff(want, api.patches); diff != "" || api.kinds[0] != "application/merge-patch+json" {
		t.Errorf("content type %s, writes (-want +got):\n%s", api.kinds, diff)
	}
}

func TestAnotherPodOfTheNameIsNotAnnotated(t *testing.T) {
	t.Parallel()
	own := annotator(t, &played{uid: "another-uid"}, ownpod.Pod{Namespace: "etcd", Name: "my-cluster-0", UID: "a-uid"})
	err := own.Annotate(t.Context(), map[string]string{"kubeEtcdCSR-peer": "request"})
	if err == nil || !strings.Contains(err.Error(), "etcd/my-cluster-0 of UID a-uid") {
		t.Errorf("error %v, want one that names the pod and its UID", err)
	}
}

func TestAPodWithoutUIDIsNotAnnotated(t *testing.T) {
	t.Parallel()
	if _, err := ownpod.New(&rest.Config{}, ownpod.Pod{Namespace: "etcd", Name: "my-cluster-0"}); err == nil {
		t.Error("no error, want that the UID is needed")
	}
}
