package apitest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/pki"
)

// With the feature gate off the chart grants no rights on Certificates.

func TestAnOperatorWithTheGateOffOffersWhatCertManagerRenews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.issued(w.request(node))
	w.takesRights()

	w.reissue(node)
	after := w.issued(w.request(node))

	if after.Chain[0].Equal(before.Chain[0]) {
		t.Error("the certificate that cert-manager has issued last is not offered")
	}
	if owners := w.secret(node + "-cm").OwnerReferences; len(owners) != 1 || owners[0].UID != w.options.Owner.UID {
		t.Errorf("the Secret with the key refers to %v", owners)
	}
}

func TestAnOperatorWithTheGateOffSaysThatItRequestsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.issued(w.request(node))
	w.takesRights()

	w.mentions(w.pending(w.request("my-cluster-dual-role-1")).Why, "no rights on certificates.cert-manager.io", "featureGates=[+CertManagerCaType]")
	changed := w.request(node)
	changed.Subject.CommonName = "another"
	w.denied(changed, "its subject is", "no rights on certificates.cert-manager.io")
}

func TestAnOperatorWithTheGateOffOffersNoSecretThatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.issued(w.request(node))
	w.takesRights()
	w.options.Owner = w.owner("another")

	w.pending(w.request(node))
}

// takesRights leaves the operator the rights that are installed with the gate off.
func (w *world) takesRights() {
	w.t.Helper()
	name := "operator-of-" + w.namespace
	role := w.installedRole()
	role.Name = name
	w.create(role)
	w.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}},
	})
	config := rest.CopyConfig(apiServer)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	server, err := dynamic.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	reader, err := client.New(config, client.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	live := certmanager.Live{Server: server, Client: reader}
	w.options.Server, w.options.Secrets = server, live
	w.options.Certificates = certmanager.NewWatch(certmanager.WatchOptions{Live: live}) // it is not started with the gate off
	w.until("the rights are in effect", func() bool {
		_, err := live.Secret(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: node + "-cm"})
		return err == nil
	})
}

// installedRole is that of the operator in the manifest for all namespaces.
func (w *world) installedRole() *rbacv1.ClusterRole {
	w.t.Helper()
	manifest, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "config", "install", "keyturn.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		role := &rbacv1.ClusterRole{}
		if yaml.Unmarshal(document, role) == nil && role.Kind == "ClusterRole" {
			return role
		}
	}
	w.t.Fatal("the manifest has no ClusterRole")
	return nil
}

// reissue has cert-manager issue a certificate again, and waits until it has.
func (w *world) reissue(name string) {
	w.t.Helper()
	secret := w.secret(name + "-cm")
	before := secret.Data[corev1.TLSCertKey]
	if err := w.person.Delete(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
	w.until("another certificate is issued", func() bool {
		again := &corev1.Secret{}
		if !w.find(again, name+"-cm") {
			return false
		}
		chain, err := pki.ParseChain(again.Data[corev1.TLSCertKey])
		return err == nil && len(chain) > 0 && !bytes.Equal(again.Data[corev1.TLSCertKey], before)
	})
}
