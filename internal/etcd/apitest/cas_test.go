package apitest

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/kube/kubetest"
	"github.com/keyturn/keyturn/internal/pki"
)

func (w *world) clusterNames() model.Names {
	return model.Names{Namespace: w.namespace, Cluster: cluster}
}

// asks annotates a Secret in the operator's namespace as a person does.
func (w *world) asks(secret, annotation, value string) {
	w.t.Helper()
	stored := w.secret(w.private, secret)
	before := stored.DeepCopy()
	metav1.SetMetaDataAnnotation(&stored.ObjectMeta, annotation, value)
	if err := w.person.Patch(w.t.Context(), stored, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// anchors are the CAs of the client plane that members are to trust.
func (w *world) anchors() []authority.Anchor {
	w.t.Helper()
	return w.anchorsOf(contract.ClientPlane)
}

func (w *world) anchorsOf(plane contract.Plane) []authority.Anchor {
	w.t.Helper()
	return authority.StoredAnchors(authority.Stored{Exists: true, Data: w.secret(w.private, w.clusterNames().TrustedCertsSecret(plane)).Data})
}

// granted is the certificate of the application, and how many CAs it trusts.
func (w *world) granted() (issuer string, trusted int) {
	w.t.Helper()
	w.grants(w.namespace)
	anchors, err := pki.ParseBundle(w.secret(w.namespace, application).Data["ca.crt"])
	if err != nil {
		w.t.Fatal(err)
	}
	return w.clientLeaf(w.namespace).Issuer.CommonName, len(anchors)
}

// withApplication is a cluster whose agents report, with an application.
func withApplication(t *testing.T, size int32) *world {
	t.Helper()
	w := reporting(t, size)
	w.access(w.namespace, "")
	if issuer, trusted := w.granted(); issuer != "my-cluster client-ca v0" || trusted != 1 {
		t.Fatalf("the application has a certificate of %s, and trusts %d CAs", issuer, trusted)
	}
	return w
}

// comesTo plays kubelets, agents and the operator until a condition holds.
func (w *world) comesTo(what string, holds func() bool) {
	w.t.Helper()
	const most = 60
	for range most {
		if holds() {
			return
		}
		w.play()
		w.acceptEachOther()
		w.poll(time.Second)
		w.reconcile()
	}
	w.t.Fatalf("it does not come to pass that %s: %+v", what, w.status())
}

// Another CA may begin to sign at any moment of a reconcile, and the former one is then waited for by what is in the ledger.
func TestAnApplicationGetsNoCertificateOfACAThatHasCeasedToSign(t *testing.T) {
	t.Parallel()
	w := reporting(t, 1)
	w.access(w.namespace, "")
	stored := w.secret(w.private, w.clusterNames().CAKeySecret(contract.ClientPlane))
	other, err := pki.GenerateKey(pki.DefaultCAKey(pki.ECDSA))
	if err != nil {
		t.Fatal(err)
	}
	replace := func(key []byte) {
		changed := stored.DeepCopy()
		changed.ResourceVersion, changed.Data[authority.KeyKey] = "", key
		if err := w.person.Update(t.Context(), changed); err != nil {
			t.Fatal(err)
		}
	}
	isReplaced := false
	w.writer.After = func(write kubetest.Write) {
		if !isReplaced && strings.Contains(write.Target(), w.clusterNames().Ledger()) {
			isReplaced = true
			replace(other.PEM())
		}
	}
	if _, err := w.tryAccess(w.namespace); err == nil || !isReplaced {
		t.Errorf("the certificate is handed out, the CA was replaced: %t", isReplaced)
	}
	secret := &corev1.Secret{}
	if err := w.person.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: application}, secret); err == nil && len(secret.Data[corev1.TLSCertKey]) > 0 {
		t.Error("the Secret of the application has a certificate of a CA that signs no more")
	}
	replace(stored.Data[authority.KeyKey])
	if issuer, trusted := w.granted(); issuer != "my-cluster client-ca v0" || trusted != 1 {
		t.Errorf("the application has a certificate of %s, and trusts %d CAs", issuer, trusted)
	}
}

func TestTheClientCAIsReplacedAndWaitsForApplications(t *testing.T) {
	t.Parallel()
	w := withApplication(t, 3)
	key := w.clusterNames().CAKeySecret(contract.ClientPlane)
	w.asks(key, domains.ForceReplaceAnnotation, "true")
	w.comesTo("the application has a certificate of the new CA", func() bool {
		issuer, trusted := w.granted()
		return issuer == "my-cluster client-ca v1" && trusted == 2
	})
	w.comesTo("the application is waited for", func() bool {
		return strings.Contains(w.rotating(), "EtcdAccess "+w.namespace+"/"+application)
	})
	w.countsCAs(2, 1)
	if anchors := w.anchors(); len(anchors) != 2 {
		t.Fatalf("%d CAs are trusted while an application may use the old one", len(anchors))
	}
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	w.asks(key, domains.ClientsMovedAnnotation, w.clock.Now().Format(time.RFC3339))
	w.comesTo("the new CA is trusted alone", func() bool {
		_, trusted := w.granted()
		return len(w.anchors()) == 1 && w.anchors()[0].Certificate.Subject.CommonName == "my-cluster client-ca v1" && trusted == 1 && w.rotating() == ""
	})
	for _, member := range []string{first, second, third} {
		if starts := w.agentOf(member).starts; starts != 2 {
			t.Errorf("etcd of member %s was started %d times, want twice", member, starts)
		}
	}
	w.toldAll("CaKeyReplacementStarted", "CaKeyReplaced", "MemberRestarted", "CaCertRemoved")
	w.atRest()
}

// acceptEachOther fails the test unless each member accepts what the others and the operator present, by the CAs that its etcd has
// loaded, and the operator what members present.
func (w *world) acceptEachOther() {
	w.t.Helper()
	pods := w.pods()
	w.acceptOperator(pods)
	for i := range pods {
		for j := range pods {
			from, to := w.agents[pods[i].UID], w.agents[pods[j].UID]
			if from == nil || to == nil || from.loaded == nil || to.loaded == nil {
				continue
			}
			for _, plane := range contract.Planes() {
				chain := w.chain(&pods[i], plane)
				if err := pki.Verify(chain, to.loaded[plane], w.clock.Now(), model.Usages(plane)...); err != nil && w.clock.Now().Before(chain[0].NotAfter) && isValid(to.loaded[plane], w.clock.Now()) {
					w.t.Fatalf("member %s does not accept member %s in the %s plane: %v", pods[j].Name, pods[i].Name, plane, err)
				}
			}
		}
	}
}

func (w *world) acceptOperator(pods []corev1.Pod) {
	w.t.Helper()
	data := w.secret(w.private, w.clusterNames().OperatorSecret()).Data
	chain, err := pki.ParseChain(data[model.OperatorCertEntry])
	if err != nil {
		w.t.Fatal(err)
	}
	anchors, err := pki.ParseBundle(data[model.OperatorAnchorsEntry])
	if err != nil {
		w.t.Fatal(err)
	}
	now := w.clock.Now()
	for i := range pods {
		member := w.agents[pods[i].UID]
		if member == nil || member.loaded == nil {
			continue
		}
		loaded := member.loaded[contract.ClientPlane]
		if err := pki.Verify(chain, loaded, now, pki.ClientAuth); err != nil && now.Before(chain[0].NotAfter) && isValid(loaded, now) {
			w.t.Fatalf("member %s does not accept the operator: %v", pods[i].Name, err)
		}
		presented := w.chain(&pods[i], contract.ClientPlane)
		if err := pki.Verify(presented, anchors, now, pki.ServerAuth); err != nil && now.Before(presented[0].NotAfter) && isValid(anchors, now) {
			w.t.Fatalf("the operator does not accept member %s: %v", pods[i].Name, err)
		}
	}
}

// isValid reports whether any of these has not expired.
func isValid(anchors []*x509.Certificate, now time.Time) bool {
	return slices.ContainsFunc(anchors, func(ca *x509.Certificate) bool { return now.Before(ca.NotAfter) })
}

// turn is a change of both CAs in which the operator crashes.
type turn struct {
	// writes are more than it takes from its beginning on, and step is how many are between two crashes.
	writes, step int
	begin        func(w *world)
	// isOver reports whether it has ended, and starts is how often etcd is started at most.
	isOver func(w *world) bool
	starts int
}

func turns() map[string]turn {
	return map[string]turn{
		"replaced": {100, 12, (*world).replaceCAs, alone(" v1"), 2},
		"distrusted": {130, 24, func(w *world) {
			w.replaceCAs()
			w.asksKeys(authority.DistrustAnnotation, authority.DistrustNow)
		}, alone(" v1"), 2},
		"renewed": {76, 24, func(w *world) {
			for _, plane := range contract.Planes() {
				w.asks(w.clusterNames().CACertSecret(plane), domains.ForceRenewAnnotation, "true")
			}
		}, (*world).areRenewed, 1}, // what is loaded serves until it ends
		"aborted": {120, 24, func(w *world) {
			w.replaceCAs()
			w.comesTo("the new CA signs", func() bool { return w.isIssued(" v1") })
			w.asksKeys(authority.AbortReplaceAnnotation, "true")
		}, alone(" v0"), 3},
	}
}

// alone reports whether etcd of each member has loaded CAs alone whose names end so, and nothing is left of a rotation.
func alone(name string) func(w *world) bool {
	return func(w *world) bool { return w.rotating() == "" && w.loadedAlone(name) }
}

// areRenewed reports whether both CAs have another certificate, and members are given it.
func (w *world) areRenewed() bool {
	w.t.Helper()
	for _, plane := range contract.Planes() {
		if len(w.anchorsOf(plane)) != 2 {
			return false
		}
		for _, name := range []string{first, second, third} {
			given, err := pki.ParseBundle(w.secret(w.namespace, name).Data[plane.AnchorsKey()])
			if err != nil || len(given) != 2 {
				return false
			}
		}
	}
	return true
}

func (w *world) replaceCAs() {
	w.t.Helper()
	w.asksKeys(domains.ForceReplaceAnnotation, "true")
}

// asksKeys annotates the key Secrets of both CAs.
func (w *world) asksKeys(annotation, value string) {
	w.t.Helper()
	for _, plane := range contract.Planes() {
		w.asks(w.clusterNames().CAKeySecret(plane), annotation, value)
	}
}

func TestWhereTheOperatorCrashesInARotationTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 4)
	for name, turn := range turns() {
		for _, crashAt := range crashes(1, turn.step, turn.writes) {
			t.Run(fmt.Sprintf("%s, %d", name, crashAt), func(t *testing.T) {
				t.Parallel()
				slots <- struct{}{}
				defer func() { <-slots }()
				w := reporting(t, 3)
				turn.begin(w)
				w.restart()
				if w.crashes(crashAt) && crashAt == turn.writes {
					t.Errorf("%d writes are not more than it takes", turn.writes)
				}
				w.restart()
				w.comesTo("the rotation is over", func() bool {
					return w.condition(etcdv1beta2.ConditionReady).Status == metav1.ConditionTrue && !w.isAsked() && turn.isOver(w)
				})
				for _, member := range []string{first, second, third} {
					if starts := w.agentOf(member).starts; starts > turn.starts {
						t.Errorf("etcd of member %s was started %d times, want at most %d", member, starts, turn.starts)
					}
				}
				w.atRest()
			})
		}
	}
}

// crashes plays a rotation until the operator crashes at a write, and reports whether it does.
func (w *world) crashes(at int) bool {
	w.t.Helper()
	w.writer.CrashAt = at
	for range 40 {
		w.play()
		w.acceptEachOther()
		w.clock.SetTime(w.clock.Now().Add(time.Second))
		w.operator.PollAgents(w.t.Context())
		if _, err := w.try(); err != nil {
			return true
		}
	}
	return false
}

// isAsked reports whether anything is asked of a CA.
func (w *world) isAsked() bool {
	w.t.Helper()
	for _, plane := range contract.Planes() {
		for _, secret := range []string{w.clusterNames().CAKeySecret(plane), w.clusterNames().CACertSecret(plane)} {
			annotations := w.secret(w.private, secret).Annotations
			for _, annotation := range []string{domains.ForceReplaceAnnotation, domains.ForceRenewAnnotation, authority.DistrustAnnotation, authority.AbortReplaceAnnotation} {
				if annotations[annotation] != "" {
					return true
				}
			}
		}
	}
	return false
}

// isIssued reports whether a member has a certificate of a client CA whose name ends so.
func (w *world) isIssued(name string) bool {
	w.t.Helper()
	pods := w.pods()
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return strings.HasSuffix(w.chain(&pod, contract.ClientPlane)[0].Issuer.CommonName, name)
	})
}

// loadedAlone reports whether etcd of each member has loaded one CA in each plane, whose name ends so.
func (w *world) loadedAlone(name string) bool {
	w.t.Helper()
	for _, member := range []string{first, second, third} {
		for _, plane := range contract.Planes() {
			loaded := w.agentOf(member).loaded[plane]
			if len(loaded) != 1 || !strings.HasSuffix(loaded[0].Subject.CommonName, name) {
				return false
			}
		}
	}
	return true
}

// toldAll fails the test unless there is an event of each reason.
func (w *world) toldAll(reasons ...string) {
	w.t.Helper()
	var events strings.Builder
	for len(w.events.Events) > 0 {
		events.WriteString(<-w.events.Events + "\n")
	}
	for _, reason := range reasons {
		if !strings.Contains(events.String(), reason) {
			w.t.Errorf("no event has the reason %s:\n%s", reason, events.String())
		}
	}
}

// rotating is what the status says of CAs that are being renewed or replaced.
func (w *world) rotating() string {
	w.t.Helper()
	for _, condition := range w.status().Conditions {
		if condition.Type == etcdv1beta2.ConditionRotatingCAs {
			return condition.Message
		}
	}
	return ""
}

// A request stays while the operator's CA cannot sign, and is served when it can.
func TestAReplacementWaitsForTheOperatorsCA(t *testing.T) {
	t.Parallel()
	w := withApplication(t, 1)
	lost := w.secret(w.private, "keyturn-etcd-operator-client-ca")
	if err := w.person.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	key := w.clusterNames().CAKeySecret(contract.ClientPlane)
	w.asks(key, domains.ForceReplaceAnnotation, "true")
	w.reconcile()
	if ready := w.condition(etcdv1beta2.ConditionReady); ready.Reason != "CALost" || w.secret(w.private, key).Annotations[domains.ForceReplaceAnnotation] == "" {
		t.Errorf("Ready is %+v, and the request is gone", ready)
	}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: lost.Namespace, Name: lost.Name, Labels: lost.Labels}, Data: lost.Data})
	w.comesTo("there is another CA", func() bool { return len(w.anchors()) == 2 })
}

func TestACAIsRenewedAndLoadedBeforeTheOldOneEnds(t *testing.T) {
	t.Parallel()
	w := withApplication(t, 1)
	former := w.anchors()[0].Certificate
	w.clock.SetTime(former.NotAfter.Add(-14599 * time.Hour))
	w.comesTo("the CA is renewed, and certificates are", func() bool {
		w.grants(w.namespace)
		return len(w.anchors()) == 2 && w.clientLeaf(w.namespace).NotAfter.After(w.clock.Now())
	})
	for _, anchor := range w.anchors() {
		if pki.KeyIDOf(anchor.Certificate) != pki.KeyIDOf(former) {
			t.Error("the renewed CA has another key")
		}
	}
	if starts := w.agentOf(first).starts; starts != 1 {
		t.Errorf("etcd was started %d times long before the old CA ends", starts)
	}
	w.clock.SetTime(former.NotAfter.Add(-7299 * time.Hour))
	w.comesTo("etcd has loaded the renewed CA alone", func() bool { return w.agentOf(first).starts == 2 && len(w.anchors()) == 1 && w.rotating() == "" })
	w.toldAll("CaCertRenewed", "MemberRestarted")
}

// The CAs of a member end at different times, and etcd loads both when it starts.
func TestEachRenewedCAIsLoadedBeforeTheOldOneEnds(t *testing.T) {
	t.Parallel()
	const life = 21900 * time.Hour // half of what is not set
	for _, plane := range contract.Planes() {
		t.Run(string(plane), func(t *testing.T) {
			t.Parallel()
			spec, shorter := of(1), &etcdv1beta2.CertificateLife{Validity: metav1.Duration{Duration: life}}
			spec.TLS = &etcdv1beta2.TLSPolicy{Dynamic: &etcdv1beta2.DynamicTLS{ClientCA: shorter}}
			if plane == contract.PeerPlane {
				spec.TLS.Dynamic = &etcdv1beta2.DynamicTLS{PeerCA: shorter}
			}
			w := reportingAs(t, spec)
			former := w.anchorsOf(plane)[0].Certificate
			w.clock.SetTime(former.NotAfter.Add(time.Hour - life/3))
			w.comesTo("the CA is renewed", func() bool { return len(w.anchorsOf(plane)) == 2 })
			w.clock.SetTime(former.NotAfter.Add(time.Hour - life/6))
			w.comesTo("etcd has loaded the renewed CA alone", func() bool { return w.agentOf(first).starts == 2 && len(w.anchorsOf(plane)) == 1 })
		})
	}
}

// Members reject each other until etcd has loaded the renewed CA.
func TestACAThatHasExpiredIsRenewed(t *testing.T) {
	t.Parallel()
	w := withApplication(t, 1)
	w.clock.SetTime(w.anchors()[0].Certificate.NotAfter.Add(time.Hour))
	w.comesTo("etcd has loaded the renewed CA alone", func() bool {
		return w.agentOf(first).starts == 2 && len(w.anchors()) == 1 && w.anchors()[0].Certificate.NotAfter.After(w.clock.Now())
	})
}
