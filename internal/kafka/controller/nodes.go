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
func (r *Reconciler) applyNodeSecrets(ctx context.Context, c *applied) error {
	c.nodes = make(map[string]nodeCertificates, len(c.cluster.Nodes))
	return each(ctx, c.cluster.Nodes, func(node model.Node) error {
		if err := r.applyNodeSecret(ctx, c, node); err != nil {
			delete(c.nodes, node.Pod)
			return err
		}
		if _, given := c.nodes[node.Pod]; !given && c.exists(node) && !c.isForeign(secretObject(node.Pod)) {
			c.note("Secret "+node.Pod, reasonNodeHeld, "node "+node.Pod+" cannot be given a certificate now, and keeps running with the one it has loaded; "+
				"if its pod stops, it cannot start again without one: "+givesCertificate(c.clusterCA.issuance()))
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
func (o *observation) exists(node model.Node) bool {
	_, described := o.described(node)
	return described || o.podNamed(node.Pod) != nil
}

func (r *Reconciler) applyNodeSecret(ctx context.Context, c *applied, node model.Node) error {
	given := c.given(node)
	if len(given.Cluster.Main) == 0 {
		return nil // its authority is not written yet
	}
	sans, err := pki.NewSANs(c.cluster.SANs(node)...)
	if err != nil {
		return fmt.Errorf("names of node %s: %w", node.Pod, err)
	}
	labels := c.cluster.NodeSecretLabels()
	settled, found, err := r.settleLeaf(ctx, c, leafRequest{
		secret: node.Pod, certKey: node.Pod + ".crt", keyKey: node.Pod + ".key", labels: labels,
		subject: pki.Subject{Organization: model.Organization, CommonName: c.cluster.CommonName()},
		sans:    sans, identity: given.Cluster.Identity, interim: c.clusterCA.Plan.Interim[trust.MemberID(node.Pod)],
	})
	if err != nil || !found {
		return err
	}
	data := map[string][]byte{node.Pod + ".crt": settled.Certificates, node.Pod + ".key": settled.Key}
	leaves := map[string]*x509.Certificate{publication.NodeIdentity: settled.Chain[0]}
	custom := map[publication.Role]listenercert.Checked{}
	for _, store := range c.cluster.Stores(node) {
		// A key is given to the nodes that have the listener, and to no others.
		if given, found := c.custom[store.Role]; found {
			data[string(store.Role)+".crt"] = given.Certificates
			data[string(store.Role)+".key"] = given.Key.PEM()
			leaves[string(store.Role)] = given.Chain[0]
			custom[store.Role] = given
		}
	}
	content := publication.Content{
		Leaves: leaves, Chain: settled.Chain[1:], Trust: c.trustOf(node, given), Loading: loadingOf(c.decided, node, settled),
	}
	if content.Proofs, err = c.proofs(ctx, node, settled, content.Trust, data); err != nil {
		return err
	}
	published, err := c.publish(node, r.options.Clock.Now(), content)
	if err != nil {
		return err
	}
	if data[agent.PublicationKey], err = published.Encode(); err != nil {
		return fmt.Errorf("node %s: %w", node.Pod, err)
	}
	c.nodes[node.Pod] = nodeCertificates{leaf: settled.Chain[0], generation: settled.generation, publication: published}
	before := c.secrets[node.Pod].Data
	annotations := leafAnnotations(c.decided, settled)
	annotations[authorities.ClientsCertGenerationAnnotation] = c.clientsCA.CertGeneration.String()
	err = r.writeSecret(ctx, c, kube.SecretIntent{
		Namespace: c.kafka.Namespace, Name: node.Pod,
		Labels:      labels,
		Annotations: annotations,
		Owners:      ownerReferences(&c.kafka),
		Data:        data,
	})
	if err == nil {
		r.events.listenersChanged(&c.kafka, node.Pod, before, custom)
	}
	return err
}

// given is what trust gives a node.
func (c *decided) given(node model.Node) roles.Decided {
	member := trust.MemberID(node.Pod)
	return roles.Decided{
		Cluster: c.clusterCA.Plan.Publications[member],
		Clients: c.clientsCA.Plan.Publications[member],
		Kept:    c.clusterCA.Plan.Kept[member],
	}
}

func (c *desired) trustOf(node model.Node, given roles.Decided) map[publication.Role][]string {
	previous := c.published(node.Pod).Trust[contract.ControlPlaneListener]
	if previous == nil {
		// The previous trust is unknown. Accepting too many CAs for a while cuts off no node.
		previous = idsOf(given.Kept)
	}
	return roles.Trust(c.cluster.Stores(node), given, previous)
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
func (c *desired) published(pod string) publication.Publication {
	published, err := publication.ParsePublication(c.secrets[pod].Data[agent.PublicationKey])
	if err == nil && published.Revision >= notedRevision(c.pods[pod]) {
		return published
	}
	i := slices.IndexFunc(c.cluster.Nodes, func(n model.Node) bool { return n.Pod == pod })
	if i < 0 || len(c.presents(pod, pod+".crt")) == 0 {
		return publication.Publication{}
	}
	return publication.Publication{Trust: c.anyStored(c.cluster.Nodes[i])}
}

// anyStored are all stored anchors, for each role of the node.
func (c *desired) anyStored(node model.Node) map[publication.Role][]string {
	stored := map[publication.Domain][]string{}
	for _, kind := range kinds() {
		for _, anchor := range authority.StoredAnchors(c.stored(kind.TrustedCertsSecret(c.kafka.Name))) {
			stored[domainOf(kind)] = append(stored[domainOf(kind)], pki.FingerprintOf(anchor.Certificate).String())
		}
	}
	roles := map[publication.Role][]string{publication.AgentRole: stored[contract.ClusterDomain]}
	for _, store := range c.cluster.Stores(node) {
		roles[store.Role] = stored[store.Trust]
	}
	return roles
}

// publish decides the publication of a node. It is written at another time than the
// reconcile began: in between a key may have been made, which takes seconds.
func (c *applied) publish(node model.Node, at time.Time, content publication.Content) (publication.Publication, error) {
	previous := c.published(node.Pod)
	configuration, err := c.configurationOf(node, previous)
	if err != nil {
		return publication.Publication{}, err
	}
	content.Configuration = configuration
	content.Operators = c.operator.leaves()
	return publication.Next(previous, c.lastRevision(node, previous), content, at), nil
}

// lastRevision is the newest revision that was published to the node, as far as is known. Where
// its Secret does not say which was the last, its agent is asked, too.
func (c *polled) lastRevision(node model.Node, previous publication.Publication) int64 {
	noted := notedRevision(c.pods[node.Pod])
	if described, found := c.described(node); found {
		noted = max(noted, notedRevision(&described.pod))
	}
	if previous.Revision > 0 {
		return noted
	}
	report := c.reports[node.Pod].report
	noted = max(noted, report.Revision, report.Reload.Revision)
	if report.Mounted != nil {
		noted = max(noted, report.Mounted.Revision)
	}
	for _, loading := range report.Loading {
		noted = max(noted, loading.Revision)
	}
	return noted
}

// configurationOf is the hash of the ConfigMap that the node shall have. Nodes of
// a pool whose resource is gone keep the one they have.
func (c *desired) configurationOf(node model.Node, previous publication.Publication) (string, error) {
	if c.retired(node) {
		return previous.Configuration, nil
	}
	config, err := c.cluster.NodeConfig(node)
	if err != nil {
		return "", fmt.Errorf("configuring node %s: %w", node.Pod, err)
	}
	return model.ConfigurationHash(config), nil
}

// retired reports whether the resource of the node's pool is gone.
func (c *desired) retired(node model.Node) bool {
	pool, _ := c.cluster.Pool(node.Pool)
	return pool.Retired
}

// pinnedRevision is the revision that a pod was created under, 0 for none. The
// second result is false when the pin is unreadable.
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
func (c *desired) checkCustomCertificates() error {
	c.custom = map[publication.Role]listenercert.Checked{}
	var problems []authority.Problem
	for _, listener := range c.cluster.Listeners {
		if listener.Certificate == nil {
			continue
		}
		checked, err := listenercert.Check(c.customCertificate(listener), c.now)
		if err == nil {
			c.custom[listener.Key()] = checked
			doubt(c.observation, listener, checked)
			warnOfEnd(c.observation, listener, checked)
			continue
		}
		wrong, other := problemsOf(err)
		if other != nil {
			return other
		}
		for _, problem := range wrong {
			c.wake(problem.Until)
		}
		if before, found := c.presentCertificate(listener); found {
			c.custom[listener.Key()] = before
			warnOfEnd(c.observation, listener, before)
			c.note("Secret "+listener.Certificate.Secret, reasonListenerCertificate, err.Error()+"; "+staysInUse(c.observation, listener, before))
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
func staysInUse(o *observation, listener model.Listener, before listenercert.Checked) string {
	offered := o.referenced[listener.Certificate.Secret].stored.Data[listener.Certificate.CertificateKey]
	if bytes.Equal(offered, before.Certificates) {
		return "nodes present it until there is a better one"
	}
	return "the previous certificate stays in use"
}

// doubt warns of what is odd about a certificate that is presented, and of names of the status that it does not cover.
func doubt(o *observation, listener model.Listener, checked listenercert.Checked) {
	if len(checked.Missing) > 0 {
		names := strings.Join(checked.Missing, ", ")
		o.notes = append(o.notes, model.Finding{
			Object: "Secret " + listener.Certificate.Secret, Part: string(listener.Key()), Reason: reasonListenerName,
			Message: "listener " + listener.Name + ": " + listener.Certificate.CertificateKey + " does not cover " + names +
				", which status.listeners and each KafkaAccess give to clients: they reject the listener there; get a certificate with this subject alternative name",
		})
	}
	for i, doubt := range checked.Doubts {
		o.notes = append(o.notes, model.Finding{
			Object: "Secret " + listener.Certificate.Secret, Part: string(listener.Key()) + "/" + strconv.Itoa(i), Reason: reasonListenerChain,
			Message: "listener " + listener.Name + ": " + doubt.Wrong + "; " + doubt.Remedy,
		})
	}
}

// warnOfEnd warns of a certificate that its owner has not renewed.
func warnOfEnd(o *observation, listener model.Listener, presented listenercert.Checked) {
	overdue := presented.Overdue(model.CASpec(o.caSpec(authorities.Cluster)).Usable().Renewal(), o.now)
	end := presented.End(o.now)
	o.wake(overdue)
	o.wake(end)
	if o.now.Before(overdue) {
		return
	}
	o.notes = append(o.notes, model.Finding{
		Object: "Secret " + listener.Certificate.Secret, Part: string(listener.Key()) + "/end", Reason: reasonListenerExpiring,
		Message: "listener " + listener.Name + ": " + listener.Certificate.CertificateKey + " expires at " + end.UTC().Format(time.RFC3339) +
			" and is yours to renew: put a new one into the Secret before then",
	})
}

func (c *desired) customCertificate(listener model.Listener) listenercert.Certificate {
	stored := c.referenced[listener.Certificate.Secret]
	return listenercert.Certificate{
		Listener: listener.Name, Secret: listener.Certificate.Secret,
		Stored: stored.stored, Unread: stored.unread,
		CertificateKey: listener.Certificate.CertificateKey, KeyKey: listener.Certificate.PrivateKeyKey,
		Names: c.advertised(), Bootstrap: pki.SANs{DNS: []string{c.cluster.Names.BootstrapHost()}},
	}
}

// advertised are the names under which brokers are told to clients.
func (c *desired) advertised() pki.SANs {
	brokers := c.cluster.Brokers()
	names := make([]string, 0, len(brokers))
	for _, node := range brokers {
		names = append(names, c.cluster.AdvertisedHost(node))
	}
	sans, err := pki.NewSANs(names...)
	if err != nil {
		return pki.SANs{}
	}
	return sans
}

// presentCertificate is the custom certificate that nodes have in use, as their
// Secrets hold it.
func (o *observation) presentCertificate(listener model.Listener) (listenercert.Checked, bool) {
	for _, name := range slices.Sorted(maps.Keys(o.pods)) {
		secret := o.secrets[name]
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
