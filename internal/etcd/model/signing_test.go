package model_test

import (
	"bytes"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// object is a CertificateSigningRequest of the peer CA.
func object(t *testing.T, key pki.PrivateKey, changes ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	request, err := peerCA().Request(key)
	if err != nil {
		t.Fatal(err)
	}
	made := peerCA().SigningRequestOf(&keyturnv1alpha1.EtcdPKI{}, request)
	for _, change := range changes {
		change(made)
	}
	return made
}

func TestWhatBecomesOfACAThatAnOutsidePKISigns(t *testing.T) {
	t.Parallel()
	key, root := ownKey(t), newOutside(t)
	chainOf := func(changes ...func(*x509.Certificate)) []byte {
		return pki.EncodeBundle(root.sign(key.Signer().Public(), changes...), root.Root)
	}
	good, other, refused := chainOf(), chainOf(), chainOf(func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = 0, true })
	short := chainOf(func(c *x509.Certificate) { c.NotAfter = noon().Add(time.Hour) })
	expired := chainOf(func(c *x509.Certificate) { c.NotAfter = noon().Add(-time.Minute) })
	early := chainOf(func(c *x509.Certificate) { c.NotBefore = noon().Add(time.Minute) })
	answered := func(with []byte) *certificatesv1.CertificateSigningRequest {
		return object(t, key, func(r *certificatesv1.CertificateSigningRequest) { r.Status.Certificate = with })
	}
	decided := func(kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequest {
		return object(t, key, func(r *certificatesv1.CertificateSigningRequest) {
			r.Status.Certificate = good
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: kind, Status: corev1.ConditionTrue}}
		})
	}
	for name, test := range map[string]struct {
		signing model.Signing
		chain   []byte
		isNew   bool
		publish bool
		reason  model.Reason
		says    string
	}{
		"nothing is there":                    {publish: true, reason: model.WaitingForSigner, says: "status.requests.peer"},
		"its request is published":            {signing: model.Signing{Object: object(t, key)}, reason: model.WaitingForSigner},
		"its request is approved":             {signing: model.Signing{Object: decided(certificatesv1.CertificateApproved)}, chain: good, isNew: true},
		"its request is answered":             {signing: model.Signing{Object: answered(good)}, chain: good, isNew: true},
		"its request is answered badly":       {signing: model.Signing{Object: answered(refused)}, reason: model.PathLengthTooShort, says: "Delete it to have the request published again"},
		"its request is denied":               {signing: model.Signing{Object: decided(certificatesv1.CertificateDenied)}, reason: model.SignerDenied, says: "Delete it"},
		"its signer has failed":               {signing: model.Signing{Object: decided(certificatesv1.CertificateFailed)}, reason: model.SignerDenied},
		"the request is for another signer":   {signing: model.Signing{Object: object(t, key, func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "example.com/any" })}, reason: model.ForeignObject},
		"the request is for another key":      {signing: model.Signing{Object: object(t, ownKey(t))}, reason: model.ForeignObject},
		"an answer is given":                  {signing: model.Signing{Given: string(good)}, chain: good, isNew: true},
		"an answer is given that is refused":  {signing: model.Signing{Given: string(refused)}, publish: true, reason: model.PathLengthTooShort, says: "spec.certificates.peer of EtcdPKI default is not used: its path length is 0"},
		"what is given is refused, the other": {signing: model.Signing{Given: string(refused), Object: answered(good)}, chain: good, isNew: true, reason: model.PathLengthTooShort},
		"what is given comes first":           {signing: model.Signing{Given: string(good), Object: answered(other)}, chain: good, isNew: true},
		"it is signed":                        {signing: model.Signing{Stored: good}, chain: good},
		"it is signed by what is given":       {signing: model.Signing{Stored: good, Given: string(good)}, chain: good},
		"it is signed again":                  {signing: model.Signing{Stored: good, Given: string(other)}, chain: other, isNew: true},
		"it is signed again badly":            {signing: model.Signing{Stored: good, Given: string(refused)}, chain: good, reason: model.PathLengthTooShort, says: "The previous certificate stays in use"},
		"an old request is answered":          {signing: model.Signing{Stored: good, Object: answered(other)}, chain: good},
		"it is self-signed":                   {signing: model.Signing{Stored: selfSigned(t, key)}, publish: true, reason: model.WaitingForSigner},
		"it has expired":                      {signing: model.Signing{Stored: expired, Given: string(expired)}, publish: true, reason: model.CertificateExpired},
		"it has expired and is signed again":  {signing: model.Signing{Stored: expired, Given: string(good)}, chain: good, isNew: true},
		"no cluster waits for a CA":           {signing: model.Signing{Stored: short}, chain: short},
		"a cluster waits for a longer one":    {signing: model.Signing{Stored: short, Shortest: fiveYears}, chain: short, publish: true, reason: model.ExpiresTooSoon},
		"what is given is too short":          {signing: model.Signing{Given: string(short), Shortest: fiveYears}, publish: true, reason: model.ExpiresTooSoon},
		"what is given is not yet valid":      {signing: model.Signing{Given: string(early)}, publish: true, reason: model.CertificateNotYetValid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := test.signing
			s.Key, s.Now = key, noon()
			got := peerCA().DecideSigned(s)
			if chain := pki.EncodeBundle(got.Chain...); !bytes.Equal(chain, test.chain) || got.IsNew != test.isNew || got.Publish != test.publish {
				t.Errorf("it signs with %d certificates, new: %t, published: %t", len(got.Chain), got.IsNew, got.Publish)
			}
			problem := model.Problem{}
			if got.Problem != nil {
				problem = *got.Problem
			}
			if problem.Reason != test.reason || !strings.Contains(problem.Message, test.says) {
				t.Errorf("the problem is %+v, want %s", problem, test.reason)
			}
		})
	}
}

func TestTimeAloneChangesWhatAnAnswerIsWorth(t *testing.T) {
	t.Parallel()
	key, root := ownKey(t), newOutside(t)
	begin, end := noon().Add(time.Minute), noon().Add(time.Hour)
	answer := pki.EncodeBundle(root.sign(key.Signer().Public(), func(c *x509.Certificate) { c.NotBefore, c.NotAfter = begin, end }), root.Root)
	s := model.Signing{Key: key, Given: string(answer), Now: noon()}
	if wake := peerCA().DecideSigned(s).Wake; !wake.Equal(begin) {
		t.Errorf("the next look is at %s, want when the answer becomes valid", wake)
	}
	s.Now = begin
	if got := peerCA().DecideSigned(s); !got.IsNew || !got.Wake.Equal(end.Add(time.Second)) {
		t.Errorf("the next look is at %s, want after its end", got.Wake)
	}
	s.Stored, s.Now = answer, end.Add(time.Second)
	if got := peerCA().DecideSigned(s); got.Chain != nil || got.Problem == nil || got.Problem.Reason != model.CertificateExpired {
		t.Errorf("after its end: %+v", got.Problem)
	}
}

func TestAnExpiredCertificateThatNoPathNeedsIsNamedAndKeepsNothing(t *testing.T) {
	t.Parallel()
	key, root := ownKey(t), newOutside(t)
	end := noon().Add(time.Hour)
	old := root.Version(t, root.Outside, func(c *x509.Certificate) { c.NotAfter = end })
	answer := root.sign(key.Signer().Public())
	text := pki.EncodeBundle(answer, root.Root, old)
	s := model.Signing{Key: key, Given: string(text), Shortest: fiveYears, Now: noon()}
	if got := peerCA().DecideSigned(s); !got.IsNew || len(got.Remarks) > 0 || !got.Wake.Equal(end.Add(time.Second)) {
		t.Errorf("before its end: %+v, remarks %q, the next look is at %s", got.Problem, got.Remarks, got.Wake)
	}
	s.Stored, s.Now = text, end.Add(time.Second)
	got := peerCA().DecideSigned(s)
	if got.Problem != nil || got.IsNew || got.Publish || !got.Wake.Equal(answer.NotAfter.Add(time.Second)) {
		t.Errorf("after its end: %+v, the next look is at %s", got.Problem, got.Wake)
	}
	if len(got.Remarks) != 1 || !strings.Contains(got.Remarks[0], `"CN=company root" expired at 2026-05-01T13:00:00Z`) ||
		!strings.Contains(got.Remarks[0], "Put the chain without it into spec.certificates.peer") {
		t.Errorf("the remarks are %q", got.Remarks)
	}
	s.Given = string(pki.EncodeBundle(answer, root.Root))
	if got := peerCA().DecideSigned(s); !got.IsNew || len(got.Remarks) > 0 {
		t.Errorf("without it: new is %t, remarks %q", got.IsNew, got.Remarks)
	}
}

func TestAClusterGetsACAOnlyFromOneThatIsSignedOutside(t *testing.T) {
	t.Parallel()
	key, root := ownKey(t), newOutside(t)
	keySecret := map[string][]byte{authority.KeyKey: key.PEM()}
	good := pki.EncodeBundle(root.sign(key.Signer().Public()), root.Root)
	for name, test := range map[string]struct {
		stored  model.StoredCA
		longest time.Duration
		want    model.Reason
	}{
		"it is signed":             {stored: model.StoredCA{Key: keySecret, Cert: map[string][]byte{authority.CertKey: good}}},
		"there is none":            {want: model.WaitingForSigner},
		"it has no certificate":    {stored: model.StoredCA{Key: keySecret}, want: model.WaitingForSigner},
		"it is self-signed":        {stored: model.StoredCA{Key: keySecret, Cert: map[string][]byte{authority.CertKey: selfSigned(t, key)}}, want: model.WaitingForSigner},
		"it would expire earlier":  {stored: model.StoredCA{Key: keySecret, Cert: map[string][]byte{authority.CertKey: good}}, longest: 87800 * time.Hour, want: model.WaitingForSigner},
		"its key is lost":          {stored: model.StoredCA{Cert: map[string][]byte{authority.CertKey: good}}, want: model.CALost},
		"its key cannot be read":   {stored: model.StoredCA{Key: map[string][]byte{}, Cert: map[string][]byte{authority.CertKey: good}}, want: model.CAUnusable},
		"its key is another's now": {stored: model.StoredCA{Key: map[string][]byte{authority.KeyKey: ownKey(t).PEM()}, Cert: map[string][]byte{authority.CertKey: good}}, want: model.WaitingForSigner},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			act := peerCA().DecideSignedOutside(test.stored, max(test.longest, fiveYears), noon())
			used, isUsed := act.(model.UseCA)
			held, isHeld := act.(model.HoldCA)
			switch {
			case test.want == "" && (!isUsed || used.CA.Certificate().Issuer.CommonName != "company root"):
				t.Errorf("it is not used: %+v", act)
			case test.want != "" && (!isHeld || held.Problem.Reason != test.want || held.Problem.Message == ""):
				t.Errorf("got %+v, want %s", act, test.want)
			}
		})
	}
}

func TestARequestIsKeptWhileItIsForTheKeyAndTheName(t *testing.T) {
	t.Parallel()
	key := ownKey(t)
	first, err := peerCA().Request(key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := peerCA().Request(key, []byte("?"), first)
	if err != nil || !bytes.Equal(first, again) {
		t.Errorf("it is another request: %v", err)
	}
	moved := peerCA()
	moved.Namespace = "elsewhere"
	for name, other := range map[string]struct {
		ca  model.OperatorCA
		key pki.PrivateKey
	}{"another key": {peerCA(), ownKey(t)}, "another name": {moved, key}} {
		if request, err := other.ca.Request(other.key, first); err != nil || bytes.Equal(first, request) {
			t.Errorf("%s: the same request: %v", name, err)
		}
	}
	status := keyturnv1alpha1.EtcdPKIStatus{Requests: keyturnv1alpha1.PKIRequests{Peer: string(first)}}
	if peerCA().BelongsToAnother(status) != nil || peerCA().BelongsToAnother(keyturnv1alpha1.EtcdPKIStatus{}) != nil {
		t.Error("the operator's own request is taken for another's")
	}
	if problem := moved.BelongsToAnother(status); problem == nil || !strings.Contains(problem.Message, "etcd.pki.enabled") {
		t.Errorf("the problem is %+v", problem)
	}
}

func TestTheStatusOfAnEtcdPKISaysWhatIsLacking(t *testing.T) {
	t.Parallel()
	key, root := ownKey(t), newOutside(t)
	ready := model.Signed{Chain: []*x509.Certificate{root.sign(key.Signer().Public()), root.Root}}
	lacking := model.Signed{Problem: &model.Problem{Reason: model.KeyMismatch, Message: "It is for another key."}}
	etcdPKI := func(mode keyturnv1alpha1.PKIMode) *keyturnv1alpha1.EtcdPKI {
		return &keyturnv1alpha1.EtcdPKI{ObjectMeta: metav1.ObjectMeta{Generation: 7}, Spec: keyturnv1alpha1.EtcdPKISpec{Mode: mode}}
	}
	planes := func(peer, client model.Signed) map[contract.Plane]model.Signed {
		return map[contract.Plane]model.Signed{contract.PeerPlane: peer, contract.ClientPlane: client}
	}
	for name, test := range map[string]struct {
		seen    model.PKISeen
		want    model.Reason
		isReady metav1.ConditionStatus
		says    []string
	}{
		"self-signed":         {model.PKISeen{PKI: etcdPKI(keyturnv1alpha1.SelfSigned)}, model.SelfSigned, metav1.ConditionTrue, nil},
		"both are signed":     {model.PKISeen{PKI: etcdPKI(keyturnv1alpha1.Outside), CAs: planes(ready, ready)}, model.SignedOutside, metav1.ConditionTrue, []string{"The peer CA", "The client CA", "CN=company root", "2036-05-01"}},
		"one is not":          {model.PKISeen{PKI: etcdPKI(keyturnv1alpha1.Outside), CAs: planes(ready, lacking)}, model.KeyMismatch, metav1.ConditionFalse, []string{"another key"}},
		"its key is lost":     {model.PKISeen{PKI: etcdPKI(keyturnv1alpha1.Outside), Problem: &model.Problem{Reason: model.CALost, Message: "It is lost."}}, model.CALost, metav1.ConditionFalse, []string{"lost"}},
		"both are not signed": {model.PKISeen{PKI: etcdPKI(keyturnv1alpha1.Outside), CAs: planes(model.Signed{Problem: &model.Problem{Reason: model.WaitingForSigner, Message: "First."}}, lacking)}, model.WaitingForSigner, metav1.ConditionFalse, []string{"First. It is for another key."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.seen.Now = noon()
			status := model.PKIStatus(test.seen)
			got := status.Conditions[0]
			if got.Type != "Ready" || got.Reason != string(test.want) || got.Status != test.isReady || got.ObservedGeneration != 7 || status.ObservedGeneration != 7 {
				t.Errorf("the condition is %+v", got)
			}
			if slices.ContainsFunc(test.says, func(text string) bool { return !strings.Contains(got.Message, text) }) {
				t.Errorf("the message is %q, want %q in it", got.Message, test.says)
			}
		})
	}
}
