package certmanager

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keyturn/keyturn/internal/issuer"
	"github.com/keyturn/keyturn/internal/pki"
)

func inOwnSecret() *Options { return &Options{} }

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func newCA(t *testing.T, name string) pki.Authority {
	t.Helper()
	ca, err := pki.NewCA(pki.CASpec{
		Subject: pki.Subject{CommonName: name}, Key: pki.DefaultCAKey(pki.ECDSA), Validity: 365 * 24 * time.Hour, Now: noon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func aRequest() issuer.Request {
	return issuer.Request{
		Name: "node-0", Subject: pki.Subject{Organization: "io.strimzi", CommonName: "my-cluster-kafka"},
		SANs: pki.SANs{DNS: []string{"a.svc"}}, Usages: pki.BothUsages(), Validity: 48 * time.Hour, Renewal: time.Hour,
		Key: pki.DefaultLeafKey(pki.ECDSA), Now: noon(),
	}
}

// signed is the Secret of the request, signed by ca.
func signed(t *testing.T, ca pki.Authority, above ...*x509.Certificate) *corev1.Secret {
	t.Helper()
	r := aRequest()
	key, err := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), pki.LeafSpec{Subject: r.Subject, SANs: r.SANs, Usages: r.Usages, Validity: r.Validity, Now: r.Now})
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{
		corev1.TLSCertKey: pki.EncodeBundle(append([]*x509.Certificate{leaf}, above...)...), corev1.TLSPrivateKeyKey: key.PEM(),
		"ca.crt": pki.EncodeBundle(ca.Certificate()),
	}}
}

// ready is a Certificate that was issued as it is.
func ready() *state {
	s := &state{ObjectMeta: metav1.ObjectMeta{Namespace: "kafka", Name: "node-0", Generation: 3, CreationTimestamp: metav1.NewTime(noon())}}
	s.Status.Revision = 2
	s.Status.Conditions = []condition{{Type: "Ready", Status: "True", ObservedGeneration: 3}}
	return s
}

func TestOnlyAnAnswerToTheCurrentRequestIsIssued(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		certificate func(*state)
		secret      func(*corev1.Secret) *corev1.Secret
		now         time.Duration
		// want is a part of the reason, or nothing when it is issued.
		want string
	}{
		"it is issued": {},
		"an older generation was issued": {
			certificate: func(s *state) { s.Generation = 4 }, want: "since it was changed",
		},
		"it is not ready": {
			certificate: func(s *state) {
				s.Status.Conditions = []condition{{Type: "Ready", Status: "False", ObservedGeneration: 3, Message: "names differ."}}
			}, want: "not issued yet: names differ.",
		},
		"the first issuance is not over": {
			certificate: func(s *state) {
				s.Status.Revision = 0
				s.Status.Conditions = append(s.Status.Conditions, condition{Type: "Issuing", Status: "True", Message: "no Secret"})
			}, want: "not issued yet: no Secret.",
		},
		"it was changed, and its former request is gone": {
			certificate: func(s *state) {
				s.Status.Conditions = append(s.Status.Conditions, condition{Type: "Issuing", Status: "True", Reason: "RequestChanged", Message: "names differ"})
			}, want: "not issued yet: names differ.",
		},
		"it is being renewed": {
			certificate: func(s *state) {
				s.Status.Conditions = append(s.Status.Conditions, condition{Type: "Issuing", Status: "True"})
			},
		},
		"it was restored with its Secret": {certificate: func(s *state) { s.Status.Revision = 0 }},
		"it is being deleted": {
			certificate: func(s *state) { s.DeletionTimestamp = &metav1.Time{Time: noon()} }, want: "being deleted",
		},
		"there is no Secret": {
			secret: func(*corev1.Secret) *corev1.Secret { return nil }, want: "kafka/node-0-cm does not exist",
		},
		"the certificate was emptied": {
			secret: func(s *corev1.Secret) *corev1.Secret { s.Data[corev1.TLSCertKey] = nil; return s }, want: "tls.crt",
		},
		"the key was emptied": {
			secret: func(s *corev1.Secret) *corev1.Secret { s.Data[corev1.TLSPrivateKeyKey] = nil; return s }, want: "tls.key",
		},
		"the key is another one": {
			secret: func(s *corev1.Secret) *corev1.Secret {
				key, _ := pki.GenerateKey(pki.DefaultLeafKey(pki.ECDSA))
				s.Data[corev1.TLSPrivateKeyKey] = key.PEM()
				return s
			}, want: "do not belong together",
		},
		"it has expired":       {now: 49 * time.Hour, want: "expired at 2026-11-23T12:00:00Z"},
		"it is not valid, yet": {now: -time.Hour, want: "not used before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate, secret, request := ready(), signed(t, newCA(t, "ca")), aRequest()
			if c.certificate != nil {
				c.certificate(certificate)
			}
			if c.secret != nil {
				secret = c.secret(secret)
			}
			request.Now = noon().Add(c.now)

			outcome := inOwnSecret().answer(request, certificate, secret)

			switch outcome := outcome.(type) {
			case issuer.Issued:
				if c.want != "" {
					t.Errorf("it is issued, want %q", c.want)
				}
			case issuer.Pending:
				if c.want == "" || !strings.Contains(outcome.Why, c.want) || outcome.Since.IsZero() {
					t.Errorf("pending since %s: %q, want %q", outcome.Since, outcome.Why, c.want)
				}
			default:
				t.Errorf("got %T %+v", outcome, outcome)
			}
		})
	}
}

func TestIntermediatesArePresentedAndRootsAreNot(t *testing.T) {
	t.Parallel()
	root, below := newCA(t, "root"), newCA(t, "issuing")
	intermediate, err := pki.CrossSign(root, below.Certificate(), noon())
	if err != nil {
		t.Fatal(err)
	}

	outcome := inOwnSecret().answer(aRequest(), ready(), signed(t, below, intermediate, root.Certificate()))

	issued, is := outcome.(issuer.Issued)
	if !is || len(issued.Chain) != 2 || !issued.Chain[1].Equal(intermediate) || !issued.Key.Matches(issued.Chain[0]) || !issued.Authority.IsZero() {
		t.Errorf("got %T %+v", outcome, outcome)
	}
}

func TestAPendingRequestSaysWhatCertManagerSays(t *testing.T) {
	t.Parallel()
	failure := metav1.NewTime(noon())
	for name, c := range map[string]struct {
		change func(*state)
		want   string
	}{
		"nothing yet": {func(*state) {}, "check that cert-manager runs"},
		"issuing": {
			func(s *state) {
				s.Status.Conditions = []condition{
					{Type: "Ready", Status: "False", Message: "Issuing certificate"},
					{Type: "Issuing", Status: "True", Message: "Fields on existing\n CertificateRequest resource differ"},
				}
			}, "not issued yet: Fields on existing CertificateRequest resource differ.",
		},
		"the first failure": {
			func(s *state) { s.Status.FailedIssuanceAttempts, s.Status.LastFailureTime = 1, &failure }, "retries about 2026-11-21T13:00:00Z",
		},
		"the third failure": {
			func(s *state) { s.Status.FailedIssuanceAttempts, s.Status.LastFailureTime = 3, &failure }, "retries about 2026-11-21T16:00:00Z",
		},
		"a failure after many": {
			func(s *state) { s.Status.FailedIssuanceAttempts, s.Status.LastFailureTime = 1000, &failure }, "retries about 2026-11-22T20:00:00Z",
		},
		"a long message": {
			func(s *state) {
				s.Status.Conditions = []condition{{Type: "Issuing", Status: "True", Message: strings.Repeat("ä", 1000)}}
			}, "…",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate := ready()
			certificate.Generation, certificate.Status.Conditions = 0, nil
			c.change(certificate)
			if why := certificate.waiting(); !strings.Contains(why, c.want) || len(why) > 2*maxMessage {
				t.Errorf("%q, want %q", why, c.want)
			}
		})
	}
}

func TestARequestBeginsWhenItIsAppliedOrWhatWasIssuedIsLost(t *testing.T) {
	t.Parallel()
	applied, lost := metav1.NewTime(noon().Add(time.Hour)), metav1.NewTime(noon().Add(2*time.Hour))
	entry := metav1.ManagedFieldsEntry{Manager: FieldOwner, Operation: metav1.ManagedFieldsOperationApply, Time: &applied}
	for name, c := range map[string]struct {
		change func(*state)
		want   time.Time
	}{
		"it was created": {func(*state) {}, noon()},
		"it was applied": {func(s *state) { s.ManagedFields = []metav1.ManagedFieldsEntry{entry} }, applied.Time},
		"its status was reported": {
			func(s *state) {
				theirs := entry
				theirs.Manager = "cert-manager"
				s.ManagedFields = []metav1.ManagedFieldsEntry{theirs}
			}, noon(),
		},
		"its Secret was lost": {
			func(s *state) {
				s.ManagedFields = []metav1.ManagedFieldsEntry{entry}
				s.Status.Conditions = []condition{{Type: "Ready", Status: "False", LastTransitionTime: lost}}
			}, lost.Time,
		},
		"it was never issued": {
			func(s *state) {
				s.Status.Revision = 0
				s.Status.Conditions = []condition{{Type: "Ready", Status: "False", LastTransitionTime: lost}}
			}, noon(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate := ready()
			c.change(certificate)
			if since := certificate.since(); !since.Equal(c.want) {
				t.Errorf("since %s, want %s", since, c.want)
			}
		})
	}
}

func TestALateRequestSaysWhereItIsStuck(t *testing.T) {
	t.Parallel()
	request := func(conditions ...condition) sought {
		s := sought{kind: "CertificateRequest", name: "kafka/node-0-3", resource: "certificaterequests.cert-manager.io", state: &state{}}
		s.state.Status.Conditions = conditions
		return s
	}
	approved := condition{Type: "Approved", Status: "True"}
	signer := func(conditions ...condition) sought {
		s := sought{kind: KindIssuer, name: "kafka/company", resource: "issuers.cert-manager.io", state: &state{}}
		s.state.Status.Conditions = conditions
		return s
	}
	healthy := condition{Type: "Ready", Status: "True"}
	for name, c := range map[string]struct {
		request, signer sought
		want            string
	}{
		"nothing is known":     {sought{}, sought{}, "why"},
		"it is not approved":   {request(), signer(healthy), "why No approver has approved CertificateRequest kafka/node-0-3: install an approver for this issuer, or run cmctl approve."},
		"it is not signed":     {request(approved), sought{}, "why CertificateRequest kafka/node-0-3 is approved and not signed: the controller of its issuer has not looked at it; check that it runs."},
		"the issuer says why":  {request(approved, condition{Type: "Ready", Status: "False", Message: "vault is sealed."}), signer(healthy), "why CertificateRequest kafka/node-0-3 is approved and not signed: vault is sealed."},
		"there is no issuer":   {request(approved), sought{kind: KindIssuer, name: "kafka/company"}, "why Issuer kafka/company does not exist: create it, or correct issuerRef."},
		"the issuer has fault": {request(approved), signer(condition{Type: "Ready", Status: "False", Message: "no key"}), "why Issuer kafka/company is not ready: no key."},
		"reading is forbidden": {
			sought{kind: "CertificateRequest", name: "kafka/node-0-3", resource: "certificaterequests.cert-manager.io", forbidden: true},
			signer(healthy),
			"why The reason in CertificateRequest kafka/node-0-3 is not known, because the operator must not read it: look at its conditions, or grant the operator get on certificaterequests.cert-manager.io.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome := explain(issuer.Pending{Since: noon(), Why: "why"}, c.request, c.signer)
			if pending, is := outcome.(issuer.Pending); !is || pending.Why != c.want || !pending.Since.Equal(noon()) {
				t.Errorf("got %T %+v, want %q", outcome, outcome, c.want)
			}
		})
	}
	denied, is := explain(issuer.Pending{}, request(approved, condition{Type: "Denied", Status: "True", Message: "O is reserved."}), signer()).(issuer.Denied)
	if !is || !strings.Contains(denied.Why, "CertificateRequest kafka/node-0-3 was denied: O is reserved. No certificate") {
		t.Errorf("a denied request: %+v", denied)
	}
}

func TestACertificateThatIsToBeReissuedSaysSinceWhenAndWhy(t *testing.T) {
	t.Parallel()
	moment := metav1.NewTime(noon().Add(time.Minute))
	for name, c := range map[string]struct {
		change   func(*state)
		mentions string
	}{
		"at rest": {func(*state) {}, ""},
		"it was requested": {func(s *state) {
			s.Status.Conditions = append(s.Status.Conditions, condition{Type: "Issuing", Status: "True", Message: "Renewal was scheduled.", LastTransitionTime: moment})
		}, "has not been reissued since it was requested at 2026-11-21T12:01:00Z: Renewal was scheduled."},
		"it has failed": {func(s *state) {
			s.Status.FailedIssuanceAttempts, s.Status.LastFailureTime = 1, &moment
			s.Status.Conditions = append(s.Status.Conditions, condition{Type: "Issuing", Status: "False", Message: "The issuer is sealed."})
		}, "could not issue Certificate kafka/node-0: The issuer is sealed. Attempts: 1, last 2026-11-21T12:01:00Z."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate := ready()
			c.change(certificate)
			next := certificate.next()
			switch {
			case c.mentions == "":
				if next != nil {
					t.Errorf("got %+v, want none", next)
				}
			case next == nil || !next.Since.Equal(moment.Time) || !strings.Contains(next.Why, c.mentions):
				t.Errorf("got %+v, want %q since %s", next, c.mentions, moment)
			}
		})
	}
}

func TestAFormerCertificateIsNotRefusedWhileAnotherIsIssued(t *testing.T) {
	t.Parallel()
	request, certificate := aRequest(), ready()
	request.SANs = pki.SANs{DNS: []string{"b.svc"}}
	secret := signed(t, newCA(t, "company"))
	if outcome, is := inOwnSecret().answer(request, certificate, secret).(issuer.Denied); !is {
		t.Fatalf("at rest: %T %+v, want Denied", outcome, outcome)
	}
	certificate.Status.Conditions = append(certificate.Status.Conditions, condition{Type: "Issuing", Status: "True", Message: "by hand"})
	outcome, is := inOwnSecret().answer(request, certificate, secret).(issuer.Pending)
	if !is || !strings.Contains(outcome.Why, "has not been reissued since it was requested") {
		t.Errorf("got %+v, want Pending", outcome)
	}
}

func TestAReasonIsLookedForOnlyWhenARequestIsLateOrHasFailed(t *testing.T) {
	t.Parallel()
	failure := metav1.NewTime(noon())
	for name, c := range map[string]struct {
		change func(*state)
		after  time.Duration
		want   bool
	}{
		"early":             {func(*state) {}, issuer.Patience - time.Second, false},
		"late":              {func(*state) {}, issuer.Patience, true},
		"early, but failed": {func(s *state) { s.Status.FailedIssuanceAttempts, s.Status.LastFailureTime = 1, &failure }, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate := ready()
			certificate.Status.Conditions = nil
			c.change(certificate)
			if late := isLate(certificate, issuer.Pending{Since: certificate.since()}, noon().Add(c.after)); late != c.want {
				t.Errorf("it is late: %t", late)
			}
		})
	}
}
