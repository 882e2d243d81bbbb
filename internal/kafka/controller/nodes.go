package controller

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/listenercert"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kafka/roles"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/publication"
	"github.com/keyturn/keyturn/internal/trust"
)

// applyNodeSecrets writes the Secret of each node: leaf, key, custom listener
// certificates, and the publication that says what belongs together. Of a node
// whose Secret cannot be written nothing else is.
func (r *Reconciler) applyNodeSecrets(ctx context.Context, p *pass) error {
	p.nodes = make(map[string]nodeCertificates, len(p.cluster.Nodes))
	return each(ctx, p.cluster.Nodes, func(node model.Node) error {
		if err := r.applyNodeSecret(ctx, p, node); err != nil {
			delete(p.nodes, node.Pod)
			return err
		}
		if _, given := p.nodes[node.Pod]; !given && p.exists(node) && !p.isForeign(secretObject(node.Pod)) {
			p.note("Secret "+node.Pod, reasonNodeHeld, "node "+node.Pod+" cannot be given a certificate now, and keeps running with the one it has loaded; "+
				"if its pod stops, it cannot start again without one: "+givesCertificate(issuanceOf(p)))
		}
		return nil
	})
}

// givesCertificate is how a person gets a node a certificate that cannot be issued.
func givesCertificate(issuance trust.Issuance) string {
	if issuance == trust.Offered {
		return "restore the Secret, or have the issuer sign with the CA that all nodes trust"
	}
	return "restore the Secret, or the key of the CA that issued its certificate"
}

// exists reports whether there has been a pod of the node, or may have been.
func (p *pass) exists(node model.Node) bool {
	_, described := p.described(node)
	return described || p.podNamed(node.Pod) != nil
}

func (r *Reconciler) applyNodeSecret(ctx context.Context, p *pass, node model.Node) error {
	given := p.given(node)
	if len(given.Cluster.Main) == 0 {
		return nil // its authority is not written yet
	}
	sans, err := pki.NewSANs(p.cluster.SANs(node)...)
	if err != nil {
		return fmt.Errorf("names of node %s: %w", node.Pod, err)
	}
	labels := p.cluster.NodeSecretLabels()
	settled, found, err := r.settleLeaf(ctx, p, leafRequest{
		secret: node.Pod, certKey: node.Pod + ".crt", keyKey: node.Pod + ".key", labels: labels,
		subject: pki.Subject{Organization: model.Organization, CommonName: p.cluster.CommonName()},
		sans:    sans, identity: given.Cluster.Identity, interim: p.clusterCA.Plan.Interim[trust.MemberID(node.Pod)],
	})
	if err != nil || !found {
		return err
	}
	data := map[string][]byte{node.Pod + ".crt": settled.Certificates, node.Pod + ".key": settled.Key}
	leaves := map[string]*x509.Certificate{publication.NodeIdentity: settled.Chain[0]}
	custom := map[publication.Role]listenercert.Checked{}
	for _, store := range p.cluster.Stores(node) {
		// A key is given to the nodes that have the listener, and to no others.
		if given, found := p.custom[store.Role]; found {
			data[string(store.Role)+".crt"] = given.Certificates
			data[string(store.Role)+".key"] = given.Key.PEM()
			leaves[string(store.Role)] = given.Chain[0]
			custom[store.Role] = given
		}
	}
	content := publication.Content{
		Leaves: leaves, Chain: settled.Chain[1:], Trust: p.trustOf(node, given), Loading: loadingOf(p, node, settled),
	}
	if content.Proofs, err = p.proofs(ctx, node, settled, content.Trust, data); err != nil {
		return err
	}
	published, err := p.publish(node, r.options.Clock.Now(), content)
	if err != nil {
		return err
	}
	if data[agent.PublicationKey], err = published.Encode(); err != nil {
		return fmt.Errorf("node %s: %w", node.Pod, err)
	}
	p.nodes[node.Pod] = nodeCertificates{leaf: settled.Chain[0], generation: settled.generation, publication: published}
	before := p.secrets[node.Pod].Data
	annotations := leafAnnotations(p, settled)
	annotations[authorities.ClientsCertGenerationAnnotation] = p.clientsCA.CertGeneration.String()
	err = r.writeSecret(ctx, p, kube.SecretIntent{
		Namespace: p.kafka.Namespace, Name: node.Pod,
		Labels:      labels,
		Annotations: annotations,
		Owners:      ownerReferences(&p.kafka),
		Data:        data,
	})
	if err == nil {
		r.events.listenersChanged(&p.kafka, node.Pod, before, custom)
	}
	return err
}

// given is what trust gives a node.
func (p *pass) given(node model.Node) roles.Decided {
	member := trust.MemberID(node.Pod)
	return roles.Decided{
		Cluster: p.clusterCA.Plan.Publications[member],
		Clients: p.clientsCA.Plan.Publications[member],
		Kept:    p.clusterCA.Plan.Kept[member],
	}
}

func (p *pass) trustOf(node model.Node, given roles.Decided) map[publication.Role][]string {
	previous := p.published(node.Pod).Trust[contract.ControlPlaneListener]
	if previous == nil {
		// It is not known any more. To accept too many for a while cuts nobody off.
		previous = idsOf(given.Kept)
	}
	return roles.Trust(p.cluster.Stores(node), given, previous)
}

func idsOf(anchors []trust.AnchorID) []string {
	ids := make([]string, 0, len(anchors))
	for _, id := range anchors {
		ids = append(ids, string(id))
	}
	return ids
}

// published is what a node's Secret says it is to load. Where that cannot be read,
// or is not what its pod was told of last, the node may have been told to trust any
// anchor that is stored: it is taken to be told so, and to have no revision. Nothing
// is known of a Secret that is lost as a whole.
func (p *pass) published(pod string) publication.Publication {
	published, err := publication.ParsePublication(p.secrets[pod].Data[agent.PublicationKey])
	if err == nil && published.Revision >= toldRevision(p.pods[pod]) {
		return published
	}
	i := slices.IndexFunc(p.cluster.Nodes, func(n model.Node) bool { return n.Pod == pod })
	if i < 0 || len(p.presents(pod, pod+".crt")) == 0 {
		return publication.Publication{}
	}
	return publication.Publication{Trust: p.anyStored(p.cluster.Nodes[i])}
}

// anyStored are all stored anchors, for each role of the node.
func (p *pass) anyStored(node model.Node) map[publication.Role][]string {
	stored := map[publication.Domain][]string{}
	for _, kind := range kinds() {
		for _, anchor := range authority.StoredAnchors(p.stored(kind.TrustedCertsSecret(p.kafka.Name))) {
			stored[domainOf(kind)] = append(stored[domainOf(kind)], pki.FingerprintOf(anchor.Certificate).String())
		}
	}
	roles := map[publication.Role][]string{publication.AgentRole: stored[contract.ClusterDomain]}
	for _, store := range p.cluster.Stores(node) {
		roles[store.Role] = stored[store.Trust]
	}
	return roles
}

// publish decides the publication of a node. It is written at another time than the
// pass began: in between a key may have been made, which takes seconds.
func (p *pass) publish(node model.Node, at time.Time, content publication.Content) (publication.Publication, error) {
	previous := p.published(node.Pod)
	configuration, err := p.configurationOf(node, previous)
	if err != nil {
		return publication.Publication{}, err
	}
	content.Configuration = configuration
	content.Operators = p.operator.leaves()
	return publication.Next(previous, p.toldTo(node, previous), content, at), nil
}

// toldTo is the newest revision that the node is known to have been told of. Where
// its Secret does not say which was the last, its agent is asked, too.
func (p *pass) toldTo(node model.Node, previous publication.Publication) int64 {
	told := toldRevision(p.pods[node.Pod])
	if described, found := p.described(node); found {
		told = max(told, toldRevision(&described.pod))
	}
	if previous.Revision > 0 {
		return told
	}
	report := p.heard[node.Pod].report
	told = max(told, report.Revision, report.Reload.Revision)
	if report.Mounted != nil {
		told = max(told, report.Mounted.Revision)
	}
	for _, loading := range report.Loading {
		told = max(told, loading.Revision)
	}
	return told
}

// configurationOf is the hash of the ConfigMap that the node shall have. Nodes of
// a pool whose resource is gone keep the one they have.
func (p *pass) configurationOf(node model.Node, previous publication.Publication) (string, error) {
	if p.retired(node) {
		return previous.Configuration, nil
	}
	config, err := p.cluster.NodeConfig(node)
	if err != nil {
		return "", fmt.Errorf("configuring node %s: %w", node.Pod, err)
	}
	return model.ConfigurationHash(config), nil
}

// retired reports whether the resource of the node's pool is gone.
func (p *pass) retired(node model.Node) bool {
	pool, _ := p.cluster.Pool(node.Pool)
	return pool.Retired
}

// pinnedRevision is the revision that a pod was created under, 0 for none. The
// second result is false when somebody has made the pin unreadable.
func pinnedRevision(pod *corev1.Pod) (int64, bool) {
	if pod == nil {
		return 0, true
	}
	text, found := pod.Annotations[agent.PinAnnotation]
	if !found {
		return 0, true
	}
	var pin publication.Publication
	if err := json.Unmarshal([]byte(text), &pin); err != nil || pin.Revision > publication.MaxRevision {
		return 0, false
	}
	return pin.Revision, true
}

// checkCustomCertificates checks the users' listener certificates. One that
// cannot be presented is a warning while an earlier one is in use, and the
// earlier one stays; without an earlier one the resource is invalid.
func (p *pass) checkCustomCertificates() error {
	p.custom = map[publication.Role]listenercert.Checked{}
	var problems []authority.Problem
	for _, listener := range p.cluster.Listeners {
		if listener.Certificate == nil {
			continue
		}
		checked, err := listenercert.Check(p.customCertificate(listener), p.now)
		if err == nil {
			p.custom[listener.Key()] = checked
			doubt(p, listener, checked)
			warnOfEnd(p, listener, checked)
			continue
		}
		wrong, other := problemsOf(err)
		if other != nil {
			return other
		}
		for _, problem := range wrong {
			p.wake(problem.Until)
		}
		if before, found := p.presentCertificate(listener); found {
			p.custom[listener.Key()] = before
			warnOfEnd(p, listener, before)
			p.note("Secret "+listener.Certificate.Secret, reasonListenerCertificate, err.Error()+"; "+staysInUse(p, listener, before))
			continue
		}
		problems = append(problems, wrong...)
	}
	if len(problems) > 0 {
		return &authority.InvalidResourceError{Problems: problems}
	}
	return nil
}

// staysInUse says which certificate a listener has that is offered one which cannot be presented. It is the same one after
// an update of the operator that rejects more.
func staysInUse(p *pass, listener model.Listener, before listenercert.Checked) string {
	offered := p.brought[listener.Certificate.Secret].stored.Data[listener.Certificate.CertificateKey]
	if bytes.Equal(offered, before.Certificates) {
		return "nodes present it until there is a better one"
	}
	return "the previous certificate stays in use"
}

// doubt warns of what is odd about a certificate that is presented, and of names of the status that it does not cover.
func doubt(p *pass, listener model.Listener, checked listenercert.Checked) {
	if len(checked.Missing) > 0 {
		names := strings.Join(checked.Missing, ", ")
		p.notes = append(p.notes, model.Finding{
			Object: "Secret " + listener.Certificate.Secret, Part: string(listener.Key()), Reason: reasonListenerName,
			Message: "listener " + listener.Name + ": " + listener.Certificate.CertificateKey + " does not cover " + names +
				", which status.listeners and each KafkaAccess give to clients: they reject the listener there; get a certificate with this subject alternative name",
		})
	}
	for i, doubt := range checked.Doubts {
		p.notes = append(p.notes, model.Finding{
			Object: "Secret " + listener.Certificate.Secret, Part: string(listener.Key()) + "/" + strconv.Itoa(i), Reason: reasonListenerChain,
			Message: "listener " + listener.Name + ": " + doubt.Wrong + "; " + doubt.Remedy,
		})
	}
}

// warnOfEnd warns of a certificate that its owner has not renewed.
func warnOfEnd(p *pass, listener model.Listener, presented listenercert.Checked) {
	overdue := presented.Overdue(model.CASpec(p.caSpec(authorities.Cluster)).Usable().Renewal(), p.now)
	end := presented.End(p.now)
	p.wake(overdue)
	p.wake(end)
	if p.now.Before(overdue) {
		return
	}
	p.notes = append(p.notes, model.Finding{
		Object: "Secret " + listener.Certificate.Secret, Part: string(listener.Key()) + "/end", Reason: reasonListenerExpiring,
		Message: "listener " + listener.Name + ": " + listener.Certificate.CertificateKey + " expires at " + end.UTC().Format(time.RFC3339) +
			" and is yours to renew: put a new one into the Secret before then",
	})
}

func (p *pass) customCertificate(listener model.Listener) listenercert.Certificate {
	stored := p.brought[listener.Certificate.Secret]
	return listenercert.Certificate{
		Listener: listener.Name, Secret: listener.Certificate.Secret,
		Stored: stored.stored, Unread: stored.unread,
		CertificateKey: listener.Certificate.CertificateKey, KeyKey: listener.Certificate.PrivateKeyKey,
		Names: p.advertised(), Bootstrap: pki.SANs{DNS: []string{p.cluster.Names.BootstrapHost()}},
	}
}

// advertised are the names under which brokers are told to clients.
func (p *pass) advertised() pki.SANs {
	brokers := p.cluster.Brokers()
	names := make([]string, 0, len(brokers))
	for _, node := range brokers {
		names = append(names, p.cluster.AdvertisedHost(node))
	}
	sans, err := pki.NewSANs(names...)
	if err != nil {
		return pki.SANs{}
	}
	return sans
}

// presentCertificate is the custom certificate that nodes have in use, as their
// Secrets hold it.
func (p *pass) presentCertificate(listener model.Listener) (listenercert.Checked, bool) {
	for _, name := range slices.Sorted(maps.Keys(p.pods)) {
		secret := p.secrets[name]
		certificates := secret.Data[string(listener.Key())+".crt"]
		chain, err := pki.ParseBundle(certificates)
		if err != nil {
			continue
		}
		key, err := pki.ParsePrivateKey(secret.Data[string(listener.Key())+".key"])
		if err == nil && key.Matches(chain[0]) {
			return listenercert.Checked{Chain: chain, Key: key, Certificates: certificates}, true
		}
	}
	return listenercert.Checked{}, false
}

// problemsOf takes the problems out of an error that only a person can put
// right; any other error is returned as it is.
func problemsOf(err error) ([]authority.Problem, error) {
	if invalid, is := errors.AsType[*authority.InvalidResourceError](err); is {
		return invalid.Problems, nil
	}
	return nil, err
}
