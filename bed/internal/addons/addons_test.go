package addons

import (
	"bytes"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestManifestsAreWholeObjects(t *testing.T) {
	t.Parallel()
	values := Values{CoreDNS: "dns-image", CertManager: "cm-image", DNSService: "10.0.0.10", VolumeProvisioner: "volumes"}
	stream, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{values.CoreDNS, values.CertManager, values.DNSService, values.VolumeProvisioner} {
		if !bytes.Contains(stream, []byte(want)) {
			t.Errorf("no manifest holds %s", want)
		}
	}
	workloads := map[string]bool{}
	for document := range strings.SplitSeq(string(stream), "---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind == "Deployment" {
			workloads[object.Metadata.Namespace+"/"+object.Metadata.Name] = true
		}
	}
	for _, w := range waitedFor() {
		if !workloads[w.namespace+"/"+w.name] {
			t.Errorf("%s/%s is waited for but not installed", w.namespace, w.name)
		}
	}
}
