package apitest

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/issuer/certmanager"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
)

// cert-manager writes into a Secret that is given to it, and that has entries of its owner.

const (
	userManager = "keyturn-user-operator"
	passwordKey = "user.password"
	user        = "my-user"
)

// givenWorld is a world whose owner has a Secret of its own for the certificate.
func givenWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.options.Placement, w.options.PasswordEntry = certmanager.InGivenSecret, passwordKey
	w.give(map[string][]byte{passwordKey: []byte("secret-password")})
	return w
}

// give applies the Secret as its owner does.
func (w *world) give(data map[string][]byte) {
	w.t.Helper()
	owner := w.options.Owner
	intent := coreac.Secret(user, w.namespace).WithType(corev1.SecretTypeOpaque).WithData(data).WithLabels(w.options.Selector).
		WithOwnerReferences(metaac.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).WithName(owner.Name).WithUID(owner.UID))
	if err := w.person.Apply(w.t.Context(), intent, client.FieldOwner(userManager), client.ForceOwnership); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) userRequest() issuer.Request {
	request := w.request(user)
	request.Subject, request.SANs, request.Usages = pki.Subject{CommonName: user}, pki.SANs{}, []pki.Usage{pki.ClientAuth}
	return request
}

func TestThreeRenewalsLoseNoEntryOfAGivenSecret(t *testing.T) {
	t.Parallel()
	w := givenWorld(t)
	issued := w.issued(w.userRequest())
	own := map[string][]byte{
		passwordKey: []byte("secret-password"), "user.crt": pki.EncodeBundle(issued.Chain[0]), "user.key": issued.Key.PEM(), "user.p12": []byte("store"),
	}
	w.give(own)
	w.until("the stores are written", func() bool { return len(w.secret(user).Data["truststore.p12"]) > 0 })
	entries := entriesOf(w.secret(user))
	for _, want := range []string{"ca.crt", "keystore.p12", "tls.crt", "tls.key", "truststore.p12", "user.crt", "user.key", "user.p12", passwordKey} {
		if !slices.Contains(entries, want) {
			t.Fatalf("entries are %q: %s is missing", entries, want)
		}
	}

	now := time.Now()
	for renewal := range 3 {
		before := issued
		now = now.Add(2 * issuer.RenewalPause)
		w.until("another certificate", func() bool {
			w.renew(user, before, now) // nothing is asked before the previous issuance is over
			issued = w.issued(w.userRequest())
			return !issued.Chain[0].Equal(before.Chain[0])
		})
		secret := w.secret(user)
		if got := entriesOf(secret); !slices.Equal(got, entries) {
			t.Errorf("after renewal %d entries are %q, want %q", renewal+1, got, entries)
		}
		own["user.crt"], own["user.key"] = pki.EncodeBundle(issued.Chain[0]), issued.Key.PEM()
		w.give(own)
		for entry, data := range own {
			if got := w.secret(user).Data[entry]; !bytes.Equal(got, data) {
				t.Errorf("after renewal %d entry %s differs", renewal+1, entry)
			}
		}
	}
	secret := w.secret(user)
	if secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("type is %s", secret.Type)
	}
	managers, err := kube.EntryManagers(secret)
	if err != nil {
		t.Fatal(err)
	}
	for entry, of := range managers {
		if isOwn := own[entry] != nil; len(of) != 1 || (of[0] == userManager) != isOwn {
			t.Errorf("entry %s is managed by %q", entry, of)
		}
	}
	w.traffic.since()
	w.issued(w.userRequest())
	if _, writes := w.traffic.since(); len(writes) > 0 {
		t.Errorf("at rest there were writes %q", writes)
	}
}

func TestNothingIsRequestedBeforeTheSecretIsGiven(t *testing.T) {
	t.Parallel()
	w := givenWorld(t)
	if err := w.person.Delete(t.Context(), &corev1.Secret{ObjectMeta: w.meta(user)}); err != nil {
		t.Fatal(err)
	}

	_, err := w.issuer().Issue(t.Context(), w.userRequest())

	if err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
	if list := w.list("Certificate"); len(list) > 0 {
		t.Errorf("Certificates are %v", list)
	}
}

func TestAGivenSecretThatIsDeletedIsFilledOnceItIsGivenAgain(t *testing.T) {
	t.Parallel()
	w := givenWorld(t)
	w.issued(w.userRequest())
	if err := w.person.Delete(t.Context(), &corev1.Secret{ObjectMeta: w.meta(user)}); err != nil {
		t.Fatal(err)
	}

	w.give(map[string][]byte{passwordKey: []byte("another-password")})

	w.until("there is a certificate in it", func() bool { // cert-manager may write the former one once more
		_, is := w.ask(w.userRequest()).(issuer.Issued)
		return is && len(w.secret(user).Data[corev1.TLSCertKey]) > 0
	})
	if secret := w.secret(user); secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("type is %s", secret.Type)
	}
}

func TestAGivenSecretThatCertManagerCreatesAgainHasTheLabelsOfItsOwner(t *testing.T) {
	t.Parallel()
	w := givenWorld(t)
	w.options.PasswordEntry = ""
	w.issued(w.userRequest())
	if err := w.person.Delete(t.Context(), &corev1.Secret{ObjectMeta: w.meta(user)}); err != nil {
		t.Fatal(err)
	}

	var secret corev1.Secret
	w.until("cert-manager has created it", func() bool { return w.find(&secret, user) })

	for label, value := range w.options.Selector {
		if secret.Labels[label] != value {
			t.Errorf("labels are %v, want %s=%s", secret.Labels, label, value)
		}
	}
	w.issued(w.userRequest())
}

func TestAReleasedSecretHasTheEntriesOfItsOwnerAlone(t *testing.T) {
	t.Parallel()
	w := givenWorld(t)
	w.issued(w.userRequest())
	w.give(map[string][]byte{passwordKey: []byte("secret-password"), "user.crt": []byte("certificate")})
	certificate := w.certificate(user)
	secret := w.secret(user)
	secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{
		APIVersion: "cert-manager.io/v1", Kind: "Certificate", Name: user, UID: certificate.GetUID(),
	})
	if err := w.person.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}

	w.traffic.since()
	if err := w.issuer().Release(t.Context(), user); err != nil {
		t.Fatal(err)
	}
	_, writes := w.traffic.since()
	certificates, secrets := "DELETE /apis/cert-manager.io/v1/namespaces/"+w.namespace+"/certificates/"+user, "PATCH /api/v1/namespaces/"+w.namespace+"/secrets/"+user
	if want := []string{certificates, secrets, certificates}; !slices.Equal(writes, want) {
		t.Errorf("writes are %q, want a dry run, the Secret, and then the Certificate: %q", writes, want)
	}
	w.until("nothing is left of cert-manager", func() bool {
		if err := w.issuer().Release(t.Context(), user); err != nil {
			t.Fatal(err)
		}
		return !w.find(w.object("Certificate", user, nil), user) && !certmanager.Fills(w.secret(user))
	})

	secret = w.secret(user)
	if got := entriesOf(secret); !slices.Equal(got, []string{"user.crt", passwordKey}) {
		t.Errorf("entries are %q", got)
	}
	if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != w.options.Owner.UID {
		t.Errorf("owners are %v", secret.OwnerReferences)
	}
	for key := range secret.Annotations {
		t.Errorf("annotation %s is left", key)
	}
}

func TestASecretWhoseCertificateCannotBeDeletedIsNotReleased(t *testing.T) {
	t.Parallel()
	w := givenWorld(t)
	w.issued(w.userRequest())
	w.traffic.forbidden = []string{"certificates"}

	if err := w.issuer().Release(t.Context(), user); err == nil {
		t.Error("it was released")
	}

	if len(w.secret(user).Data["tls.crt"]) == 0 {
		t.Error("the Secret was cleared, and cert-manager fills it again")
	}
}

func TestAGivenSecretStaysWhenItsRequestIsWithdrawn(t *testing.T) {
	t.Parallel()
	w := givenWorld(t)
	w.issued(w.userRequest())

	if err := w.issuer().Withdraw(t.Context(), nil); err != nil {
		t.Fatal(err)
	}

	if w.find(w.object("Certificate", user, nil), user) || !w.find(&corev1.Secret{}, user) {
		t.Error("want the Secret and no Certificate")
	}
}

func entriesOf(secret *corev1.Secret) []string {
	entries := make([]string, 0, len(secret.Data))
	for entry := range secret.Data {
		entries = append(entries, entry)
	}
	slices.Sort(entries)
	return entries
}
