package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/pki"
)

func TestAMintedCertificateIsOneOfTheClientsCA(t *testing.T) {
	t.Parallel()
	clients := newAuthority(t, "clients-ca v0")
	target, _ := cluster(t, caSecrets(newAuthority(t, "cluster-ca v0"), clients)...)
	credential, err := target.Mint(t.Context(), "keyturn-probe-r", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := credential(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leaf := certificate.Leaf
	anchors := []*x509.Certificate{clients.Certificate()}
	if err := pki.Verify([]*x509.Certificate{leaf}, anchors, time.Now(), pki.ClientAuth); err != nil {
		t.Errorf("the clients CA does not verify it: %v", err)
	}
	if leaf.Subject.CommonName != "keyturn-probe-r" || len(leaf.Subject.Organization) > 0 {
		t.Errorf("subject %s, want the common name alone", leaf.Subject)
	}
}

func TestMintingWithoutTheKeyNamesTheSecret(t *testing.T) {
	t.Parallel()
	secrets := caSecrets(newAuthority(t, "cluster-ca v0"), newAuthority(t, "clients-ca v0"))
	target, _ := cluster(t, secrets[:2]...)
	if _, err := target.Mint(t.Context(), "x", time.Now()); !apierrors.IsNotFound(err) {
		t.Errorf("error %v, want that the Secret is not found", err)
	}
}

// secretsOf is a clients CA that a test changes.
type secretsOf struct {
	version string
	minted  int
	err     error
}

func (s *secretsOf) minter(by *clocktesting.FakeClock) *minter {
	return &minter{
		clock: by, version: func() string { return s.version },
		mint: func(context.Context) (*tls.Certificate, error) {
			s.minted++
			return &tls.Certificate{Certificate: [][]byte{[]byte(s.version)}}, s.err
		},
	}
}

func presented(t *testing.T, m *minter) string {
	t.Helper()
	certificate, err := m.present(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(certificate.Certificate[0])
}

func TestACertificateIsMintedAnewWhenItsAuthorityChanges(t *testing.T) {
	t.Parallel()
	by, ca := clocktesting.NewFakeClock(time.Now()), &secretsOf{version: "1"}
	m := ca.minter(by)
	got := []string{presented(t, m), presented(t, m)}
	ca.version = "2"
	by.Step(mintPause)
	got = append(got, presented(t, m), presented(t, m))
	if want := []string{"1", "1", "2", "2"}; !slices.Equal(got, want) || ca.minted != 2 {
		t.Errorf("presented %q of %d, want %q of 2", got, ca.minted, want)
	}
}

func TestACertificateIsKeptWhileNothingCanBeMinted(t *testing.T) {
	t.Parallel()
	by, ca := clocktesting.NewFakeClock(time.Now()), &secretsOf{version: "1"}
	m := ca.minter(by)
	got := []string{presented(t, m)}
	ca.version, ca.err = "2", authority.ErrForeignKey
	by.Step(mintPause)
	got = append(got, presented(t, m), presented(t, m))
	if ca.minted != 2 {
		t.Errorf("%d attempts within one pause, want 2", ca.minted)
	}
	ca.version, ca.err = "3", nil
	by.Step(mintPause)
	got = append(got, presented(t, m))
	if want := []string{"1", "1", "1", "3"}; !slices.Equal(got, want) {
		t.Errorf("presented %q, want %q", got, want)
	}
}

func TestNothingIsPresentedBeforeTheFirstCertificate(t *testing.T) {
	t.Parallel()
	ca := &secretsOf{version: "1", err: authority.ErrForeignKey}
	if _, err := ca.minter(clocktesting.NewFakeClock(time.Now())).present(t.Context()); !errors.Is(err, authority.ErrForeignKey) {
		t.Errorf("error %v, want %v", err, authority.ErrForeignKey)
	}
}

func TestTheVersionOfASecretFollowsIt(t *testing.T) {
	t.Parallel()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	known := func(version string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", ResourceVersion: version},
		}
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, known("1"))
	version, err := watchVersion(t.Context(), client, "ns", "s")
	if err != nil {
		t.Fatal(err)
	}
	if got := version(); got != "1" {
		t.Errorf("version %q, want 1", got)
	}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	if err := client.Tracker().Update(secrets, known("2"), "ns"); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return version() == "2" })
	if err := client.Tracker().Delete(secrets, "ns", "s"); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return version() == "" })
}
