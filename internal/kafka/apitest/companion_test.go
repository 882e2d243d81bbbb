package apitest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/agent"
	agentclient "github.com/keyturn/keyturn/internal/agent/client"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/companion"
	"github.com/keyturn/keyturn/internal/kafka/controller"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/publication"
)

// What runs beside the nodes: a Deployment whose pods talk to brokers, and tell the
// operator what they have loaded.

const exporterName = clusterName + "-exporter"

func exporter(namespace string, loading publication.Loading) companion.Companion {
	return companion.Companion{
		Name: exporterName, Type: "exporter", Secret: exporterName + "-certs", CommonName: exporterName, Certificate: "exporter",
		Host: exporterName + "." + namespace + ".svc", Loading: loading, Replicas: 1,
		Pod: coreac.PodSpec().WithContainers(coreac.Container().WithName("exporter").WithImage("exporter:test")),
	}
}

// addressAnnotation is where a pod of a companion answers.
const addressAnnotation = "test/address"

// partner is the process of a companion in a pod, which others may share.
type partner struct {
	// pod is its name, and in is the pod that it runs in.
	pod       string
	in        types.UID
	companion companion.Companion
	// address is where it answers, with its port.
	address   string
	startedAt time.Time
	published publication.Publication
	loaded    stores
}

// accompany lets companions run beside the nodes.
func (w *world) accompany(companions ...companion.Companion) {
	w.t.Helper()
	w.companions = companions
	w.startOperator()
}

// runBeside is what an operator is told of who runs beside the nodes.
func (w *world) runBeside(options *controller.Options) {
	switch {
	case w.besides != nil:
		options.Companions = w.besides
	case len(w.companions) > 0:
		options.Companions = func(model.Cluster) []companion.Companion { return w.companions }
	}
}

// runCompanions is what the controller of Deployments, kubelets and the programs do. It
// reports whether anything changed.
func (w *world) runCompanions(ctx context.Context) bool {
	if w.partners == nil && len(w.companions) == 0 {
		return false
	}
	var deployments appsv1.DeploymentList
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&deployments, &pods} {
		if err := w.api.List(ctx, list, client.InNamespace(w.namespace)); err != nil {
			w.t.Fatal(err)
		}
	}
	changed := w.endPartners(ctx, deployments.Items, pods.Items)
	for i := range deployments.Items {
		changed = w.roll(ctx, &deployments.Items[i], pods.Items) || changed
	}
	for _, p := range w.partners {
		changed = w.reloadPartner(p) || changed
	}
	return changed
}

// endPartners takes away the pods whose Deployment is gone.
func (w *world) endPartners(ctx context.Context, deployments []appsv1.Deployment, pods []corev1.Pod) bool {
	changed := false
	for i := range pods {
		pod := &pods[i]
		inPod := w.partnersIn(pod)
		if len(inPod) == 0 || slices.ContainsFunc(deployments, func(d appsv1.Deployment) bool { return d.Name == inPod[0].companion.Name }) {
			continue
		}
		w.endPartner(ctx, pod)
		changed = true
	}
	return changed
}

func (w *world) endPartner(ctx context.Context, pod *corev1.Pod) {
	if err := w.api.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	maps.DeleteFunc(w.partners, func(_ types.UID, p *partner) bool { return p.in == pod.UID })
	w.trace("%s has ended", pod.Name)
}

// partnersIn are the processes of companions that run in a pod.
func (w *world) partnersIn(pod *corev1.Pod) []*partner {
	var inPod []*partner
	for _, p := range w.partners {
		if p.in == pod.UID {
			inPod = append(inPod, p)
		}
	}
	return inPod
}

// companionsOf are those that share a Deployment.
func (w *world) companionsOf(deployment string) []companion.Companion {
	var sharing []companion.Companion
	for _, c := range w.companions {
		if c.Name == deployment {
			sharing = append(sharing, c)
		}
	}
	return sharing
}

// roll makes a pod from the newest template, and ends the others when it runs.
func (w *world) roll(ctx context.Context, deployment *appsv1.Deployment, pods []corev1.Pod) bool {
	template := deployment.Spec.Template
	isOfTemplate := func(pod *corev1.Pod) bool {
		pinnedOtherwise := func(c companion.Companion) bool {
			return pod.Annotations[c.PinAnnotation()] != template.Annotations[c.PinAnnotation()]
		}
		return len(pod.Spec.Containers) == len(template.Spec.Containers) && !slices.ContainsFunc(w.companionsOf(deployment.Name), pinnedOtherwise)
	}
	var newest *corev1.Pod
	var others []*corev1.Pod
	for i := range pods {
		switch pod := &pods[i]; {
		case pod.Labels[model.NameLabel] != deployment.Name:
		case isOfTemplate(pod):
			newest = pod
		default:
			others = append(others, pod)
		}
	}
	if newest == nil {
		w.createPartner(ctx, deployment)
		return true
	}
	if len(w.partnersIn(newest)) == 0 {
		return w.startPartners(ctx, newest)
	}
	for _, pod := range others {
		w.endPartner(ctx, pod)
	}
	return len(others) > 0
}

func (w *world) createPartner(ctx context.Context, deployment *appsv1.Deployment) {
	template := deployment.Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	w.pairs++
	pod.Name, pod.Namespace = fmt.Sprintf("%s-%d", deployment.Name, w.pairs), w.namespace
	pod.Annotations[addressAnnotation] = fmt.Sprintf("192.0.2.%d", 100+w.pairs)
	if err := w.api.Create(ctx, pod); err != nil {
		w.t.Fatal(err)
	}
	w.trace("%s was made", pod.Name)
}

// startPartners starts the programs of a pod on what is stored, which has to be as new as
// the pod's pins.
func (w *world) startPartners(ctx context.Context, pod *corev1.Pod) bool {
	w.bind(ctx, pod)
	started := map[types.UID]*partner{}
	for _, c := range w.companionsOf(pod.Labels[model.NameLabel]) {
		own, runs := c.PodOf(pod)
		if !runs {
			continue
		}
		p := &partner{
			pod: own.Name, in: pod.UID, companion: c, startedAt: w.clock.Now(),
			address: fmt.Sprintf("%s:%d", pod.Annotations[addressAnnotation], c.AgentPort()),
		}
		if !w.loadPartner(p, pinOf(own)) {
			w.trace("%s cannot start", own.Name)
			return false
		}
		started[own.UID] = p
	}
	if len(started) == 0 {
		return false
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: pod.Annotations[addressAnnotation],
		Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}},
	}
	if err := w.api.Status().Update(ctx, pod); err != nil {
		w.t.Fatal(err)
	}
	if w.partners == nil {
		w.partners = map[types.UID]*partner{}
	}
	maps.Copy(w.partners, started)
	w.trace("%s has started", pod.Name)
	w.watch()
	return true
}

// loadPartner loads what is stored, if it belongs together and is new enough.
func (w *world) loadPartner(p *partner, oldest int64) bool {
	published, loaded, err := w.storedFor(p.companion)
	if err != nil || published.Revision < oldest {
		return false
	}
	p.published, p.loaded = published, loaded
	return true
}

// storedFor is what a pod of the companion would load now.
func (w *world) storedFor(c companion.Companion) (publication.Publication, stores, error) {
	v := volumes{pod: c.Certificate, certs: w.certs, files: map[volume]files{
		nodeVolume:    w.stored.secrets[c.Secret],
		clusterVolume: w.stored.secrets[authorities.Cluster.TrustedCertsSecret(clusterName)],
	}}
	published, err := publication.ParsePublication(v.files[nodeVolume][agent.PublicationKey])
	if err != nil {
		return publication.Publication{}, stores{}, between("%v", err)
	}
	loaded, err := v.storesOf(companion.Stores()[0], published)
	return published, loaded, err
}

// reloadPartner takes over what is published, if the program can.
func (w *world) reloadPartner(p *partner) bool {
	before := p.published.Revision
	if published, _, err := w.storedFor(p.companion); err != nil || published.Loading == publication.LoadByRestart {
		return false
	}
	if !w.loadPartner(p, before) || p.published.Revision == before {
		return false
	}
	w.trace("%s has reloaded", p.pod)
	w.watch()
	return true
}

// partnerReport is what the program tells the operator.
func (w *world) partnerReport(p *partner) publication.Report {
	mounted, _, err := w.storedFor(p.companion)
	report := publication.Report{
		Revision: p.published.Revision, StartedAt: p.startedAt, Reload: publication.ReloadReport{Revision: p.published.Revision},
		Roles: map[publication.Role]publication.RoleReport{publication.AgentRole: {
			Trusts: slices.Sorted(slices.Values(fingerprints(p.loaded.trust))), Presents: fingerprint(p.loaded.chain[0]),
			Chain: fingerprints(p.loaded.chain[1:]), NotAfter: firstEnd(p.loaded.chain).UTC(),
		}},
		Certificates: map[string][]byte{},
	}
	if err == nil {
		report.Mounted = &mounted
	}
	for _, cert := range slices.Concat(p.loaded.chain, p.loaded.trust) {
		report.Certificates[fingerprint(cert)] = cert.Raw
	}
	return report
}

// partnerSays is the program's answer, if it and the operator accept each other.
func (w *world) partnerSays(p *partner, access controller.Access, node agentclient.Node) (publication.Report, error) {
	if w.silent[p.companion.Member()] {
		return publication.Report{}, errSilent
	}
	if node.Name != p.companion.Host {
		return publication.Report{}, errRefused // it is somebody else
	}
	access.Leaves = func(string) []string { return node.Leaves }
	if err := w.understands(access, node.Name, holding{chain: p.loaded.chain, trust: p.loaded.trust, known: p.published.Operators}); err != nil {
		return publication.Report{}, err
	}
	return w.partnerReport(p), nil
}

// partnerAt is the program that answers at an address.
func (w *world) partnerAt(address string) (*partner, bool) {
	for _, p := range w.partners {
		if address == p.address {
			return p, true
		}
	}
	return nil, false
}

// partnerTalks are the talks of companions with brokers and with the operator.
func (w *world) partnerTalks(nodes []node, both func(client, server talker)) {
	for _, p := range w.partners {
		t := talker{name: p.pod, process: p.pod, holdings: []holding{{moment: atPresent, chain: p.loaded.chain, trust: p.loaded.trust}}}
		if _, fresh, err := w.storedFor(p.companion); err == nil {
			t.holdings = append(t.holdings, holding{moment: ifMadeNew, chain: fresh.chain, trust: fresh.trust})
		}
		for _, n := range nodes {
			if n.listens(contract.ReplicationListener) {
				both(t, n.talker(contract.ReplicationListener))
			}
		}
		both(w.operatorAt(p.companion.Host), t)
	}
}

// partnerPods are the pods of companions by name.
func (w *world) partnerPods() []string {
	var names []string
	for _, p := range w.partners {
		names = append(names, p.pod)
	}
	slices.Sort(names)
	return names
}

// nodeUIDs are the pods of nodes.
func (w *world) nodeUIDs() map[string]string {
	w.t.Helper()
	uids := w.podUIDs()
	maps.DeleteFunc(uids, func(name, _ string) bool {
		return strings.HasPrefix(name, exporterName) || strings.HasPrefix(name, entityOperatorName)
	})
	return uids
}

// besideTurning is a cluster at rest with a companion.
func besideTurning(t *testing.T, loading publication.Loading) *world {
	t.Helper()
	w := newWorld(t)
	w.accompany(exporter(w.namespace, loading))
	w.dualRole(2)
	w.settle()
	w.pin()
	return w
}

// wantPartnersOf fails the test unless all companions present a leaf of the CA, and
// trust it alone.
func (w *world) wantPartnersOf(ca string) {
	w.t.Helper()
	if len(w.partners) == 0 {
		w.t.Error("no companion runs")
	}
	for _, p := range w.partners {
		if got, want := said(p.loaded), said(stores{chain: p.loaded.chain, trust: bundle(w.caCertificate(authorities.Cluster))}); got != want || p.loaded.chain[0].Issuer.CommonName != ca {
			w.t.Errorf("%s %s of %s; want it to trust %s alone", p.pod, got, p.loaded.chain[0].Issuer.CommonName, ca)
		}
	}
}

func TestACompanionIsGivenACertificateAndRuns(t *testing.T) {
	t.Parallel()
	w := besideTurning(t, publication.LoadByReload)
	var deployment appsv1.Deployment
	w.get(exporterName, &deployment)
	if owners := deployment.OwnerReferences; len(owners) != 1 || owners[0].Name != clusterName {
		t.Errorf("the Deployment belongs to %+v, want the Kafka", owners)
	}
	w.wantPartnersOf(firstV)
	before := w.faulty.Written
	w.run(5)
	if w.faulty.Written != before {
		t.Errorf("%d writes at rest, want none", w.faulty.Written-before)
	}
}

func TestACompanionFollowsAReplacementByItself(t *testing.T) {
	t.Parallel()
	w := besideTurning(t, publication.LoadByReload)
	pods, nodes := w.partnerPods(), w.nodeUIDs()

	w.replace(authorities.Cluster)
	w.settle()

	w.wantPartnersOf(nextV)
	if got := w.partnerPods(); !slices.Equal(got, pods) {
		t.Errorf("pods %v became %v, want the same", pods, got)
	}
	if got := w.nodeUIDs(); !maps.Equal(got, nodes) {
		t.Error("a node was restarted")
	}
}

func TestACompanionThatLoadsAtItsStartIsMadeAnewForItsOwnSakeOnly(t *testing.T) {
	t.Parallel()
	w := besideTurning(t, publication.LoadByRestart)
	nodes := w.nodeUIDs()

	w.replace(authorities.Cluster)
	w.settle()

	w.wantPartnersOf(nextV)
	// One pod to begin with, one with the new leaf, and one without the old anchor.
	if w.pairs > 3 {
		t.Errorf("%d pods were made one after the other, want 3 at most, in\n%s", w.pairs, w.told())
	}
	if got := w.nodeUIDs(); !maps.Equal(got, nodes) {
		t.Error("a node was restarted for a companion")
	}

	made := w.pairs
	w.replace(authorities.Clients)
	w.settle()
	if w.pairs != made {
		t.Error("a companion was made again for the clients CA, which it has nothing to do with")
	}
}

func TestAReplacementWaitsForACompanionThatSaysNothing(t *testing.T) {
	t.Parallel()
	w := besideTurning(t, publication.LoadByReload)
	w.silent[exporterName] = true
	w.startOperator() // one that has heard nothing so far

	w.replace(authorities.Cluster)
	w.run(30)

	if got := w.anchors(authorities.Cluster); len(got) == 1 {
		t.Errorf("anchors %v: the replacement has ended without the companion's word", got)
	}
	w.wantCondition("ClusterCATrust", exporterName)
	delete(w.silent, exporterName)
	w.settle()
	w.wantPartnersOf(nextV)
}

func TestACompanionThatIsNotWantedAnyMoreGoes(t *testing.T) {
	t.Parallel()
	w := besideTurning(t, publication.LoadByReload)
	w.silent[exporterName] = true
	w.accompany(companion.Companion{
		Name: clusterName + "-other", Type: "other", Secret: clusterName + "-other-certs", CommonName: clusterName + "-other", Certificate: "other", Host: "other." + w.namespace + ".svc",
		Replicas: 1, Pod: coreac.PodSpec().WithContainers(coreac.Container().WithName("other").WithImage("other:test")),
	})
	w.settle()

	if !w.missing(&appsv1.Deployment{}, exporterName) || !w.missing(&corev1.Secret{}, exporterName+"-certs") {
		t.Error("the Deployment or the Secret of a companion is left although nobody wants it")
	}
	w.replace(authorities.Cluster)
	w.settle()
	w.wantPartnersOf(nextV)
}

func TestAStaleOperatorDoesNotTakeTheRestartOfACompanionBack(t *testing.T) {
	t.Parallel()
	w := besideTurning(t, publication.LoadByRestart)
	lagging := newLaggingClient(w.faulty)
	w.reconcile(w.newReconciler(lagging)) // what is read through it from now on is the Deployment of before
	w.replace(authorities.Cluster)
	w.settle()
	made := w.pairs

	w.reconcile(w.newReconciler(lagging)) // one that has applied nothing itself
	w.settle()

	if w.pairs != made {
		t.Error("the companion was made again because of what somebody had read before")
	}
	w.wantPartnersOf(nextV)
}
