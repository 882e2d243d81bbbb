package apitest

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/pki"
)

// external is an issuer that another controller serves, which cert-manager's approver leaves alone.
func external() certmanager.Reference {
	return certmanager.Reference{Name: "vault", Kind: "VaultLikeIssuer", Group: "example.com"}
}

func TestALateRequestIsExplained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare  func(w *world)
		mentions []string
	}{
		"the issuer does not exist": {
			func(w *world) { w.options.Issuer.Name = "typo" }, []string{"Issuer ", "/typo does not exist", "correct issuerRef"},
		},
		"a ClusterIssuer does not exist": {
			func(w *world) {
				w.options.Issuer = certmanager.Reference{Name: "typo", Kind: certmanager.KindClusterIssuer}
			}, []string{"ClusterIssuer typo does not exist"},
		},
		"the issuer is not ready": {
			func(w *world) {
				w.create(w.object("Issuer", "empty", map[string]any{"ca": map[string]any{"secretName": "nowhere"}}))
				w.options.Issuer.Name = "empty"
			}, []string{"/empty is not ready", "nowhere"},
		},
		"no controller serves the issuer": {
			func(w *world) { w.options.Issuer = external() }, []string{"CertificateRequest", node + "-1 is approved and not signed", "check that it runs"},
		},
		"the reason must not be read": {
			func(w *world) {
				w.options.Issuer.Name = "typo"
				w.traffic.forbidden = []string{"certificaterequests", "issuers"}
			}, []string{"grant the operator get on certificaterequests.cert-manager.io", "grant the operator get on issuers.cert-manager.io"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.prepare(w)
			early := w.request(node)
			early.Now = w.pending(early).Since
			w.until("cert-manager has made a CertificateRequest", func() bool { return len(w.list("CertificateRequest")) == 1 })
			w.traffic.since()
			w.pending(early)
			if reads, _ := w.traffic.since(); len(reads) != 2 {
				t.Errorf("early reads are %q, want the Certificate and its Secret", reads)
			}

			late := early
			late.Now = early.Now.Add(issuer.Patience)
			w.until("the reason is known", func() bool { // an issuer has no conditions for a moment
				pending, is := w.ask(late).(issuer.Pending)
				return is && contains(pending.Why, c.mentions)
			})
		})
	}
}

// sign answers all CertificateRequests as an external issuer does that changes what it is asked for.
func (w *world) sign(change func(*pki.LeafSpec)) {
	w.t.Helper()
	w.until("a CertificateRequest is signed", func() bool {
		signed := false
		for _, request := range w.list("CertificateRequest") {
			encoded, _, _ := unstructuredBytes(request.Object, "spec", "request")
			block, _ := pem.Decode(encoded)
			if block == nil {
				continue
			}
			parsed, err := x509.ParseCertificateRequest(block.Bytes)
			if err != nil {
				w.t.Fatal(err)
			}
			wanted := w.request(node)
			spec := pki.LeafSpec{Subject: wanted.Subject, SANs: wanted.SANs, Usages: wanted.Usages, Validity: wanted.Validity, Now: time.Now()}
			change(&spec)
			leaf, err := w.ca.Issue(parsed.PublicKey, spec)
			if err != nil {
				w.t.Fatal(err)
			}
			now := time.Now().UTC().Format(time.RFC3339)
			patch := fmt.Sprintf(`{"status": {"certificate": %q, "conditions": [
				{"type": "Approved", "status": "True", "reason": "Policy", "lastTransitionTime": %q},
				{"type": "Ready", "status": "True", "reason": "Issued", "lastTransitionTime": %q}]}}`, base64(pki.EncodeBundle(leaf)), now, now)
			err = w.person.Status().Patch(w.t.Context(), &request, client.RawPatch("application/merge-patch+json", []byte(patch)))
			signed = signed || client.IgnoreNotFound(err) == nil
		}
		return signed
	})
}

func TestALeafThatIsNotTheRequestedOneIsNeverOffered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(*pki.LeafSpec)
		mentions []string
	}{
		"the organization is dropped": {func(s *pki.LeafSpec) { s.Subject.Organization = "" }, []string{"subject", "Vault"}},
		"one usage is dropped":        {func(s *pki.LeafSpec) { s.Usages = []pki.Usage{pki.ServerAuth} }, []string{"usages", "client_flag"}},
		"a name is added":             {func(s *pki.LeafSpec) { s.SANs.DNS = append(s.SANs.DNS, "intruder.example.com") }, []string{"intruder.example.com"}},
		"an address is dropped":       {func(s *pki.LeafSpec) { s.SANs.IPs = nil }, []string{"10.1.2.3", "allowed_domains"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.options.Issuer = external()
			w.ask(w.request(node))
			w.sign(c.change)

			w.until("the leaf is denied", func() bool {
				denied, is := w.ask(w.request(node)).(issuer.Denied)
				return is && contains(denied.Why, append(c.mentions, "Secret "+w.namespace+"/"+node+"-cm"))
			})
		})
	}
}

func TestAShorterLifeThanRequestedIsOffered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.options.Issuer = external()
	w.ask(w.request(node))
	w.sign(func(s *pki.LeafSpec) { s.Validity = 36 * time.Hour })

	leaf := w.issued(w.request(node)).Chain[0]

	if short := w.request(node).Shortfall(leaf); short < 11*time.Hour || short > 12*time.Hour {
		t.Errorf("it is %s shorter than requested", short)
	}
}

func TestASelfSignedIssuerIsDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(w.object("Issuer", "self", map[string]any{"selfSigned": map[string]any{}}))
	w.options.Issuer.Name = "self"
	w.ask(w.request(node))

	w.until("the leaf is denied", func() bool {
		denied, is := w.ask(w.request(node)).(issuer.Denied)
		return is && contains(denied.Why, []string{"SelfSigned"})
	})
}
