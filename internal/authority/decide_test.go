package authority_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/pki/pkitest"
)

func TestAFirstDeploymentCreatesBothSecrets(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind    authorities.Kind
		subject string
		key     string
		cert    string
	}{
		"cluster CA": {authorities.Cluster, "CN=cluster-ca v0,O=io.strimzi", "my-cluster-ca", "my-cluster-ca-cert"},
		"clients CA": {authorities.Clients, "CN=clients-ca v0,O=io.strimzi", "my-clients-ca", "my-clients-ca-cert"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.in.Names = tc.kind.Names("my")
			d := w.step()
			wantKinds(t, d, authority.Created)
			wantGenerations(t, d, 0, 0)
			if got := w.cert().Subject.String(); got != tc.subject {
				t.Errorf("subject %q, want %q", got, tc.subject)
			}
			if got := w.cert().MaxPathLen; got != pki.MaxCrosses {
				t.Errorf("path length %d, want %d", got, pki.MaxCrosses)
			}
			if tc.kind.KeySecret("my") != tc.key || tc.kind.CertSecret("my") != tc.cert {
				t.Errorf("Secrets %s and %s", tc.kind.KeySecret("my"), tc.kind.CertSecret("my"))
			}
			if diff := cmp.Diff([]string{"ca.key"}, slices.Sorted(maps.Keys(d.settled.Key.Data))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"ca.crt", "ca.p12", "ca.password"}, slices.Sorted(maps.Keys(d.settled.Cert.Data))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]string{"strimzi.io/ca-cert-generation": "0"}, d.settled.Cert.Annotations); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]string{"strimzi.io/ca-key-generation": "0"}, d.settled.Key.Annotations); diff != "" {
				t.Error(diff)
			}
			if !d.Authority.Key().Matches(w.cert()) || len(d.Authority.Presents()) != 0 {
				t.Error("the authority does not belong to the certificate, or presents more than the leaf")
			}
		})
	}
}

func TestASecondDecisionChangesNothing(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	before := w.in
	w.in.Now = noon().Add(day)
	d := w.step()
	wantKinds(t, d)
	wantSameData(t, before.KeySecret.Data, d.settled.Key.Data)
	wantSameData(t, before.CertSecret.Data, d.settled.Cert.Data)
	if diff := cmp.Diff(before.CertSecret.Annotations, w.in.CertSecret.Annotations); diff != "" {
		t.Error(diff)
	}
	if len(d.settled.Key.RemoveAnnotations)+len(d.settled.Cert.RemoveAnnotations)+len(d.Waiting)+len(d.Warnings)+len(d.NoCross) != 0 {
		t.Errorf("something is left to do: %+v", d)
	}
}

func TestAStoredBundleIsKeptAsItWasWritten(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	written := append([]byte("\n"), w.in.CertSecret.Data["ca.crt"]...)
	w.in.CertSecret.Data["ca.crt"] = written
	if got := w.settle(hold).settled.Cert.Data["ca.crt"]; !bytes.Equal(got, written) {
		t.Error("an unchanged certificate was written again")
	}
}

// The rows of the decision table, first match wins.
func TestWhatHappensToAGeneratedAuthority(t *testing.T) {
	t.Parallel()
	closed := authority.Window{Next: noon().Add(7 * day)}
	tests := map[string]struct {
		change      func(w *world)
		transitions []authority.TransitionKind
		cert, key   authority.Generation
		waiting     []authority.Waiting
	}{
		"the key Secret is missing and nothing depends on it: it is created": {
			change: func(w *world) {
				w.in.KeySecret = authority.Stored{}
				w.in.Evidence, w.in.TrustedCerts = authority.Evidence{}, authority.Stored{}
			},
			transitions: []authority.TransitionKind{authority.Created}, cert: 1, key: 1,
		},
		"the certificate is missing: it is made again from the same key": {
			change: func(w *world) {
				delete(w.in.CertSecret.Data, "ca.crt")
				w.in.TrustedCerts = authority.Stored{}
			},
			transitions: []authority.TransitionKind{authority.Recreated}, cert: 1,
		},
		"the certificate is missing and pods trust it: it is taken back": {
			change:      func(w *world) { delete(w.in.CertSecret.Data, "ca.crt") },
			transitions: []authority.TransitionKind{authority.Restored},
		},
		"the certificate Secret is missing: it is made again from the same key": {
			change: func(w *world) {
				w.in.CertSecret = authority.Stored{}
				w.in.TrustedCerts = authority.Stored{}
			},
			transitions: []authority.TransitionKind{authority.Recreated}, cert: 1,
		},
		"the certificate Secret is missing and pods trust what was in it: it is taken back": {
			change:      func(w *world) { w.in.CertSecret = authority.Stored{} },
			transitions: []authority.TransitionKind{authority.Restored},
		},
		"the certificate Secret is missing and what pods trust has expired: it is made again": {
			change: func(w *world) {
				w.in.CertSecret = authority.Stored{}
				w.in.Now = noon().Add(400 * day)
			},
			transitions: []authority.TransitionKind{authority.Recreated}, cert: 1,
		},
		"renewal is asked for": {
			change:      func(w *world) { w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true" },
			transitions: []authority.TransitionKind{authority.Renewed}, cert: 1,
		},
		"renewal is asked for in other letters": {
			change:      func(w *world) { w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "True" },
			transitions: []authority.TransitionKind{authority.Renewed}, cert: 1,
		},
		"renewal is asked for outside of a maintenance window": {
			change: func(w *world) {
				w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true"
				w.in.Window = closed
			},
			waiting: []authority.Waiting{{Act: authority.RenewAct, Cause: authority.ByAnnotation, Obstacle: authority.WindowClosed, Until: closed.Next}},
		},
		"renewal is asked for on the key Secret, where it means nothing": {
			change: func(w *world) { w.in.KeySecret.Annotations["strimzi.io/force-renew"] = "true" },
		},
		"replacement is asked for on the certificate Secret, where it means nothing": {
			change: func(w *world) { w.in.CertSecret.Annotations["strimzi.io/force-replace"] = "true" },
		},
		"renewal is asked for with another word": {
			change: func(w *world) { w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "yes" },
		},
		"a new key is asked for": {
			change:      func(w *world) { w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true" },
			transitions: []authority.TransitionKind{authority.ReplacementStarted},
		},
		"a new key is asked for outside of a maintenance window": {
			change: func(w *world) {
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
				w.in.Window = closed
			},
			waiting: []authority.Waiting{{Act: authority.ReplaceAct, Cause: authority.ByAnnotation, Obstacle: authority.WindowClosed, Until: closed.Next}},
		},
		"a new key is asked for and the next window comes after the end": {
			change: func(w *world) {
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
				w.in.Window = authority.Window{Next: noon().Add(400 * day)}
			},
			waiting: []authority.Waiting{{Act: authority.ReplaceAct, Cause: authority.ByAnnotation, Obstacle: authority.WindowClosed, Until: noon().Add(400 * day)}},
		},
		"both are asked for: both happen": {
			change: func(w *world) {
				w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true"
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
			},
			transitions: []authority.TransitionKind{authority.Renewed, authority.ReplacementStarted}, cert: 1,
		},
		"both are asked for outside of a maintenance window": {
			change: func(w *world) {
				w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true"
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
				w.in.Window = closed
			},
			waiting: []authority.Waiting{
				{Act: authority.RenewAct, Cause: authority.ByAnnotation, Obstacle: authority.WindowClosed, Until: closed.Next},
				{Act: authority.ReplaceAct, Cause: authority.ByAnnotation, Obstacle: authority.WindowClosed, Until: closed.Next},
			},
		},
		"it is about to expire": {
			change:      func(w *world) { w.in.Now = noon().Add(336 * day) },
			transitions: []authority.TransitionKind{authority.Renewed}, cert: 1,
		},
		"it is about to expire outside of a maintenance window": {
			change: func(w *world) {
				w.in.Now = noon().Add(336 * day)
				w.in.Window = authority.Window{Next: noon().Add(343 * day)}
			},
			waiting: []authority.Waiting{{Act: authority.RenewAct, Cause: authority.ByExpiry, Obstacle: authority.WindowClosed, Until: noon().Add(343 * day)}},
		},
		"it would expire before the next maintenance window": {
			change: func(w *world) {
				w.in.Now = noon().Add(336 * day)
				w.in.Window = authority.Window{Next: noon().Add(366 * day)}
			},
			transitions: []authority.TransitionKind{authority.Renewed}, cert: 1,
		},
		"no maintenance window is in sight and it ends within a day": {
			change: func(w *world) {
				w.in.Now = noon().Add(364*day + time.Hour)
				w.in.Window = authority.Window{}
			},
			transitions: []authority.TransitionKind{authority.Renewed}, cert: 1,
		},
		"no maintenance window is in sight and there is time": {
			change: func(w *world) {
				w.in.Now = noon().Add(336 * day)
				w.in.Window = authority.Window{}
			},
			waiting: []authority.Waiting{{Act: authority.RenewAct, Cause: authority.ByExpiry, Obstacle: authority.WindowClosed, Until: noon().Add(364 * day)}},
		},
		"it has expired, and no window is open": {
			change: func(w *world) {
				w.in.Now = noon().Add(500 * day)
				w.in.Window = authority.Window{Next: noon().Add(501 * day)}
			},
			transitions: []authority.TransitionKind{authority.Renewed}, cert: 1,
		},
		"it is about to expire and the policy is to replace the key": {
			change: func(w *world) {
				w.in.Now = noon().Add(336 * day)
				w.in.Spec.Policy = authority.ReplaceKey
			},
			transitions: []authority.TransitionKind{authority.ReplacementStarted},
		},
		"it is about to expire, the policy is to replace the key, and no window is open": {
			change: func(w *world) {
				w.in.Now = noon().Add(336 * day)
				w.in.Spec.Policy = authority.ReplaceKey
				w.in.Window = authority.Window{Next: noon().Add(343 * day)}
			},
			waiting: []authority.Waiting{{Act: authority.ReplaceAct, Cause: authority.ByExpiry, Obstacle: authority.WindowClosed, Until: noon().Add(343 * day)}},
		},
		"a new key is asked for, is due as well, and no window is open": {
			change: func(w *world) {
				w.in.Now = noon().Add(336 * day)
				w.in.Spec.Policy = authority.ReplaceKey
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
				w.in.Window = authority.Window{Next: noon().Add(343 * day)}
			},
			waiting: []authority.Waiting{{Act: authority.ReplaceAct, Cause: authority.ByAnnotation, Obstacle: authority.WindowClosed, Until: noon().Add(343 * day)}},
		},
		"a new key is asked for and is due before the next window": {
			change: func(w *world) {
				w.in.Now = noon().Add(336 * day)
				w.in.Spec.Policy = authority.ReplaceKey
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
				w.in.Window = authority.Window{Next: noon().Add(366 * day)}
			},
			transitions: []authority.TransitionKind{authority.ReplacementStarted},
		},
		"a new key is asked for in a closed window because the old one is compromised": {
			change: func(w *world) {
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
				w.in.KeySecret.Annotations["keyturn.dev/distrust"] = "now"
				w.in.Window = closed
			},
			transitions: []authority.TransitionKind{authority.ReplacementStarted},
		},
		"a replacement runs and another one is asked for": {
			change: func(w *world) {
				w.starts()
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
			},
			waiting: []authority.Waiting{{Act: authority.ReplaceAct, Cause: authority.ByAnnotation, Obstacle: authority.ReplacementRunning}},
		},
		"a replacement runs and another one is asked for in a closed window": {
			change: func(w *world) {
				w.starts()
				w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
				w.in.Window = closed
			},
			waiting: []authority.Waiting{{Act: authority.ReplaceAct, Cause: authority.ByAnnotation, Obstacle: authority.ReplacementRunning}},
		},
		"a replacement runs and is due by the policy": {
			change: func(w *world) {
				w.starts()
				w.in.Now = noon().Add(336 * day)
				w.in.Spec.Policy = authority.ReplaceKey
			},
		},
		"a replacement runs and renewal is asked for": {
			change: func(w *world) {
				w.starts()
				w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true"
			},
			transitions: []authority.TransitionKind{authority.Renewed}, cert: 1,
		},
		"a replacement runs and the present certificate expires": {
			change: func(w *world) {
				w.in.Spec.ValidFor = 1000 * authority.Day
				w.starts()
				w.in.Now = noon().Add(500 * day)
				w.in.Window = closed
			},
			transitions: []authority.TransitionKind{authority.Renewed}, cert: 1,
		},
		"a replacement runs until all has expired": {
			change: func(w *world) {
				w.starts()
				w.in.Now = noon().Add(500 * day)
				w.in.Window = closed
			},
			transitions: []authority.TransitionKind{authority.Renewed, authority.ReplacementStarted}, cert: 1,
		},
		"the replacement of its key has not begun half-way to its end": {
			change: func(w *world) {
				w.in.Now = noon().Add(351 * day)
				w.in.Spec.Policy = authority.ReplaceKey
			},
			transitions: []authority.TransitionKind{authority.Renewed, authority.ReplacementStarted}, cert: 1,
		},
		"nothing is due": {change: func(*world) {}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			before := w.in
			tc.change(w)
			d := w.settle(hold)
			wantKinds(t, d, tc.transitions...)
			wantGenerations(t, d, tc.cert, tc.key)
			waiting := slices.Clone(d.Waiting)
			for i := range waiting {
				if waiting[i].Message == "" {
					t.Error("a wait without a message")
				}
				waiting[i].Message = ""
			}
			if diff := cmp.Diff(tc.waiting, waiting); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
			if !slices.Contains(tc.transitions, authority.Created) && !bytes.Equal(d.settled.Key.Data["ca.key"], before.KeySecret.Data["ca.key"]) {
				t.Error("the key changed")
			}
		})
	}
}

func TestARequestLeavesWhenItWasServedAndStaysWhileItWaits(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true"
	w.in.KeySecret.Annotations["strimzi.io/force-replace"] = "true"
	w.in.Window = authority.Window{Next: noon().Add(day)}
	w.step()
	if w.in.CertSecret.Annotations["strimzi.io/force-renew"] != "true" || w.in.KeySecret.Annotations["strimzi.io/force-replace"] != "true" {
		t.Error("a request that waits was removed")
	}
	w.in.Window = authority.Window{Open: true}
	d := w.step()
	wantKinds(t, d, authority.Renewed, authority.ReplacementStarted)
	if _, present := w.in.CertSecret.Annotations["strimzi.io/force-renew"]; present {
		t.Error("the renewal that was served is still asked for")
	}
	if _, present := w.in.KeySecret.Annotations["strimzi.io/force-replace"]; present {
		t.Error("the replacement that was started is still asked for")
	}
	wantKinds(t, w.step())
}

func TestARequestThatSaysFalseIsRemoved(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "false"
	if diff := cmp.Diff([]string{"strimzi.io/force-renew"}, w.settle(hold).settled.Cert.RemoveAnnotations); diff != "" {
		t.Error(diff)
	}
}

func TestRenewalKeepsKeySubjectAndPassword(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old, before := w.cert(), w.in.CertSecret
	w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true"
	d := w.step(turn)
	renewed := w.cert()
	if pki.KeyIDOf(old) != pki.KeyIDOf(renewed) || !bytes.Equal(old.RawSubject, renewed.RawSubject) {
		t.Error("key or subject changed")
	}
	if !bytes.Equal(before.Data["ca.password"], d.settled.Cert.Data["ca.password"]) {
		t.Error("the password of the store changed")
	}
	wantStore(t, d, old, renewed)
}

func TestRenewalDoesNotTouchWhatAReplacementKeeps(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	old := w.cert()
	w.starts()
	w.step(turn)
	dated := authority.DatedCertKey(old)
	w.in.CertSecret.Annotations["strimzi.io/force-renew"] = "true"
	d := w.step()
	wantKinds(t, d, authority.Renewed)
	if _, kept := d.settled.Cert.Data[dated]; !kept {
		t.Error("the retired certificate was dropped")
	}
	if _, kept := d.settled.Key.Data[authority.DatedKeyKey(old)]; !kept {
		t.Error("the retired key was dropped")
	}
	if len(d.plan.Application) != 3 {
		t.Fatalf("%d certificates are published, want the one before the renewal, too", len(d.plan.Application))
	}
	wantStore(t, d, d.plan.Application...)
}

func TestLongerValidityRenewsWhatIsThenDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.in.Spec.ValidFor, w.in.Spec.RenewBefore = 20*authority.Day, 15*authority.Day
	w.step()
	w.runs()
	w.in.Spec.ValidFor, w.in.Spec.RenewBefore = 200*authority.Day, 150*authority.Day
	d := w.step()
	wantKinds(t, d, authority.Renewed)
	if want := noon().Add(200 * day); !w.cert().NotAfter.Equal(want) {
		t.Errorf("ends at %s, want %s", w.cert().NotAfter, want)
	}
	wantKinds(t, w.step())
}

func TestAnExpiredAuthorityThatWasThereBeforeTheClusterIsRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca := pkitest.CA(t, "ours before", noon().Add(-400*day))
	w.in.KeySecret = authority.Stored{Exists: true, Data: map[string][]byte{"ca.key": ca.Key().PEM()}}
	w.in.CertSecret = authority.Stored{Exists: true, Data: map[string][]byte{"ca.crt": pki.EncodeBundle(ca.Certificate())}}
	w.in.Window = authority.Window{Next: noon().Add(day)}
	d := w.step()
	wantKinds(t, d, authority.Renewed)
	wantGenerations(t, d, 1, 0)
	if !d.Authority.Key().Matches(ca.Certificate()) || !noon().Before(w.cert().NotAfter) {
		t.Error("it was not renewed with its key")
	}
}

func TestAnAuthorityThatWasThereBeforeTheClusterIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca := pkitest.CA(t, "ours before", noon())
	w.in.KeySecret = authority.Stored{Exists: true, Data: map[string][]byte{"ca.key": ca.Key().PEM()}}
	w.in.CertSecret = authority.Stored{Exists: true, Data: map[string][]byte{"ca.crt": pki.EncodeBundle(ca.Certificate())}}
	d := w.step()
	wantKinds(t, d)
	wantGenerations(t, d, 0, 0)
	if !d.Certificate.Equal(ca.Certificate()) || len(d.settled.Cert.Data["ca.p12"]) == 0 {
		t.Error("it was not adopted")
	}
	if len(d.Warnings) != 2 {
		t.Errorf("warnings %q, want one for each missing generation", d.Warnings)
	}
}

func TestTheCertificateThatIsMadeAnewHasTheSubjectThatPodsTrust(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ca := pkitest.CA(t, "ours before", noon())
	w.in.KeySecret = authority.Stored{Exists: true, Data: map[string][]byte{"ca.key": ca.Key().PEM()}}
	w.in.Evidence = authority.Evidence{Dependants: []string{"Pod my-brk-0"}, CertGeneration: 3}
	w.trusts(ca.Certificate())
	w.in.Now = noon().Add(366 * day)
	d := w.step()
	wantKinds(t, d, authority.Recreated)
	wantGenerations(t, d, 4, 0)
	if !bytes.Equal(w.cert().RawSubject, ca.Certificate().RawSubject) {
		t.Errorf("subject %q", w.cert().Subject)
	}
}

func TestAnotherAuthorityIsTakenOverWhileNothingRuns(t *testing.T) {
	t.Parallel()
	w := runningWorld(t)
	w.in.Evidence = authority.Evidence{}
	ca := pkitest.CA(t, "restored", noon())
	w.in.KeySecret.Data["ca.key"] = ca.Key().PEM()
	w.in.CertSecret.Data["ca.crt"] = pki.EncodeBundle(ca.Certificate())
	if d := w.step(); !d.Certificate.Equal(ca.Certificate()) {
		t.Error("it was not taken over")
	}
}

func TestGenerationsNeverGoBackwards(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change    func(w *world)
		cert, key authority.Generation
	}{
		"both numbers were lowered": {func(*world) {}, 5, 2},
		"the number of the certificate is lost": {func(w *world) {
			delete(w.in.CertSecret.Annotations, authorities.CertGenerationAnnotation)
		}, 5, 2},
		"both numbers are lost": {func(w *world) {
			delete(w.in.CertSecret.Annotations, authorities.CertGenerationAnnotation)
			delete(w.in.KeySecret.Annotations, authorities.KeyGenerationAnnotation)
		}, 5, 2},
		"the number of the certificate is lost and nobody bears it": {func(w *world) {
			delete(w.in.CertSecret.Annotations, authorities.CertGenerationAnnotation)
			w.in.KeySecret.Annotations[authorities.KeyGenerationAnnotation] = "3"
			w.in.Evidence.CertGeneration = 0
		}, 3, 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := runningWorld(t)
			w.in.Evidence.CertGeneration, w.in.Evidence.KeyGeneration = 5, 2
			tc.change(w)
			wantGenerations(t, w.settle(hold), tc.cert, tc.key)
		})
	}
}
