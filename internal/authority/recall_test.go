package authority_test

import (
	"crypto/x509"
	"testing"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/authority/authoritytest"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

// losesTrust is the loss of the Secret that pods mount.
func losesTrust(w *world) { w.in.TrustedCerts = authority.Stored{} }

// told makes publications name certificates, and agents show them.
func (w *world) told(certs ...*x509.Certificate) {
	for _, cert := range certs {
		w.in.Evidence.Named = append(w.in.Evidence.Named, pki.FingerprintOf(cert))
	}
	w.in.Evidence.Reported = certs
}

func TestALostCertificateIsFoundInReportsByItsKey(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	losesCerts(w)
	losesTrust(w)
	w.in.Evidence.Reported = []*x509.Certificate{pkitest.CA(t, "stranger", noon()).Certificate(), old}

	o := w.step()

	wantKinds(t, o, authority.Restored)
	if !o.Certificate.Equal(old) || len(o.Published) != 1 {
		t.Errorf("%q is present, %d are published", o.Certificate.Subject, len(o.Published))
	}
}

func TestACertificateThatNobodyShowsIsMadeAnewAndLeadsWhatIsRead(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	incoming := w.starts().Target()
	losesCerts(w)
	losesTrust(w)

	d := w.decide()

	if len(d.Published) == 0 || !d.Published[0].Equal(d.Certificate) || d.Certificate.Equal(incoming) {
		t.Errorf("published are %d certificates, and not the present one first", len(d.Published))
	}
}

func TestWhatIsLostWithItsKeyIsFoundByItsNameAndPresentUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	losesBoth(w)
	losesTrust(w)
	w.told(old)
	stranger := pkitest.CA(t, "stranger", noon()).Certificate()
	w.in.Evidence.Reported = append(w.in.Evidence.Reported, stranger)

	o := w.step()

	wantKinds(t, o, authority.Restored, authority.ReplacementStarted)
	if !o.Certificate.Equal(old) || o.Pending == nil || containsCert(o.Published, stranger) {
		t.Errorf("%q is present, pending: %t", o.Certificate.Subject, o.Pending != nil)
	}
	if got := o.Target().Subject.CommonName; got != "cluster-ca v1" {
		t.Errorf("the next one is called %s", got)
	}
}

func TestOfSeveralLostAuthoritiesTheOneWhoseLeavesArePresentedIsPresent(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	used, incoming := pkitest.CA(t, "used", noon()), pkitest.CA(t, "incoming", noon().Add(day))
	losesBoth(w)
	losesTrust(w)
	w.told(used.Certificate(), incoming.Certificate())
	w.in.Evidence.Leaves = []*x509.Certificate{leafOf(t, used)}

	d := w.decide()

	if !d.Certificate.Equal(used.Certificate()) || !containsCert(d.Published, incoming.Certificate()) {
		t.Errorf("%q is present, %d are published", d.Certificate.Subject, len(d.Published))
	}
}

// Clients may still present certificates of each, and nodes may be silent then.
func TestOfSeveralLostAuthoritiesAllButThePresentOneAreRetired(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	used, former := pkitest.CA(t, "used", noon().Add(day)), pkitest.CA(t, "former", noon())
	ended := pkitest.CA(t, "ended", noon().AddDate(-2, 0, 0))
	losesBoth(w)
	losesTrust(w)
	w.told(certificatesOf(used, former, ended)...)
	w.in.Evidence.Leaves = []*x509.Certificate{leafOf(t, used)}

	if d := w.decide(); !same(d.Retired, certificatesOf(former)) {
		t.Errorf("%d CAs are retired, want the one that is not present and has not ended", len(d.Retired))
	}
}

func TestWhatIsToComeIsNotRetiredWhenWhatPodsMountIsLost(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	incoming := w.starts().Target()
	losesTrust(w)
	w.told(w.cert(), incoming)

	if d := w.decide(); len(d.Retired) > 0 || !d.Target().Equal(incoming) {
		t.Errorf("%d CAs are retired, and %q is to come", len(d.Retired), d.Target().Subject)
	}
}

func TestABundleIsUnderstoodByWhatNodesWereToldWhenKeyAndAnchorsAreLost(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	incoming := w.starts().Target()
	losesKeys(w)
	losesTrust(w)
	w.in.Evidence.Named = []pki.Fingerprint{pki.FingerprintOf(old)}

	d := w.decide()

	if !d.Certificate.Equal(old) || d.Pending == nil || d.Target().Equal(incoming) {
		t.Errorf("%q is present and %q to come", d.Certificate.Subject, d.Target().Subject)
	}
}

func TestNothingIsPutInThePlaceOfWhatNodesTrustAndNobodyShows(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	losesBoth(w)
	losesTrust(w)
	w.in.Evidence.Named = []pki.Fingerprint{pki.FingerprintOf(old)}

	_, err := authority.Decide(w.in)

	authoritytest.WantProblem(t, err, "my-cluster-ca-cert", "no agent can show it", pki.FingerprintOf(old).String(), "restore the Secret with ca.crt")
}

// Nothing is known of what is lost, nor that nobody depends on it.
func TestNothingBeginsWhileSecretsOfNodesAreUnread(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	losesBoth(w)
	losesTrust(w)
	w.in.Evidence = authority.Evidence{Dependants: []string{"my-x-0"}, Unread: []string{"my-x-0"}}

	_, err := authority.Decide(w.in)

	authoritytest.WantProblem(t, err, "my-cluster-ca-cert", "were not read: my-x-0", "restore the CA from a backup")
}

func TestWhatIsUnreadKeepsNothingFromBeingRestored(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	losesBoth(w)
	losesTrust(w)
	w.told(old)
	w.in.Evidence.Unread = []string{"my-x-0"}

	if o := w.step(); !o.Certificate.Equal(old) {
		t.Errorf("%q is present, want %q", o.Certificate.Subject, old.Subject)
	}
}

func TestANumberIsNotGivenTwiceWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Names = authorities.Clients.Names("my")
	w.in.Evidence = authority.Evidence{Dependants: []string{"Pod my-brk-0"}, CertGeneration: 3}
	losesBoth(w)
	losesTrust(w)

	if got := w.decide().Certificate.Subject.CommonName; got != "clients-ca v4" {
		t.Errorf("it is called %s, and pods bear generation 3", got)
	}
}

func TestACertificateThatIsNamedAndNotFoundMayBearTheNextNumber(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	incoming := w.starts().Target()
	losesBoth(w)
	losesTrust(w)
	w.told(old)
	w.in.Evidence.Named = append(w.in.Evidence.Named, pki.FingerprintOf(incoming))

	if got := w.decide().Target().Subject.CommonName; got != "cluster-ca v2" {
		t.Errorf("the next one is called %s, as is what nodes were told to trust", got)
	}
}

func TestWhatHasEndedIsNotReadAgainAfterALoss(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	ended := pkitest.CA(t, "ended", noon().AddDate(-2, 0, 0)).Certificate()
	w.told(w.cert(), ended)
	losesCerts(w)
	losesTrust(w)

	if d := w.decide(); containsCert(d.Published, ended) {
		t.Errorf("%d certificates are published, and one of them has ended", len(d.Published))
	}
}
