package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// rotateOptions are the options of "keyturn rotate".
type rotateOptions struct {
	connect connector

	clusterCA, clientsCA            bool
	renew, replace, distrust, abort bool
	watch                           bool
	output                          string
	ofEtcd                          etcdRotateOptions
}

func rotateCommand(connect connector) *cobra.Command {
	o := &rotateOptions{connect: connect}
	cmd := &cobra.Command{
		Use:   "rotate (kafka/NAME (--cluster-ca | --clients-ca) | etcd/NAME [--client-ca] [--peer-ca])",
		Short: "Ask for a new key or certificate of a CA",
		Long: `Asks the operator to replace the key of a CA (--replace, the default), to renew its
certificate under the same key (--renew), to distrust at once every key of the CA but
the newest because one is compromised (--distrust, alone or with --replace), or to go
back to the CA that is being replaced (--abort). While a request for a new key still
waits, for a maintenance window or for the replacement before it, --abort withdraws
that request and nothing else.

It is keys that are distrusted, with all their certificates: an earlier certificate
under the newest key stays trusted.

It annotates a Secret of the CA, and only in the state that it has read. It refuses,
with exit code 2, when there is nothing to rotate, nothing to go back to or to
distrust, or a rotation is already in progress; --replace --distrust is accepted even
then, because a compromised key does not wait. "plan" shows beforehand what will
happen to a Kafka.

The Secrets of an etcd cluster's CAs are in the namespace of the operator
(--operator-namespace). The client CA that is replaced stays trusted while certificates
of applications are valid; --clients-moved says that all applications have read their
Secrets again.`,
		Example: `  kubectl keyturn rotate kafka/my-cluster -n kafka --cluster-ca --watch
  kubectl keyturn rotate kafka/my-cluster -n kafka --cluster-ca --replace --distrust
  kubectl keyturn rotate kafka/my-cluster -n kafka --clients-ca --abort
  kubectl keyturn rotate kafka/my-cluster -n kafka --cluster-ca -o json
  kubectl keyturn rotate etcd/my-cluster -n etcd --client-ca --peer-ca --watch
  kubectl keyturn rotate etcd/my-cluster -n etcd --client-ca --clients-moved`,
		Args:              o.arguments,
		PreRunE:           o.check,
		ValidArgsFunction: completeKafka(connect),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.clusterCA, "cluster-ca", false, "rotate the CA that signs the certificates of nodes")
	flags.BoolVar(&o.clientsCA, "clients-ca", false, "rotate the CA that signs the certificates of users")
	flags.BoolVar(&o.renew, "renew", false, "ask for a new certificate for the same key")
	flags.BoolVar(&o.replace, "replace", false, "ask for a new key (default)")
	flags.BoolVar(&o.distrust, "distrust", false, "distrust every key of the CA but the newest, because one is compromised")
	flags.BoolVar(&o.abort, "abort", false, "go back to the CA that is being replaced, or withdraw the request for a new key")
	flags.BoolVarP(&o.watch, "watch", "w", false, "follow the rotation until nothing is left to do")
	o.ofEtcd.addFlags(flags)
	addOperatorNamespaceFlag(cmd, &o.ofEtcd.operatorNamespace, "which has the Secrets of CAs")
	addOutputFlag(cmd, &o.output, outputTable, outputUsage+"; other formats than table print one document at the end")
	cmd.MarkFlagsMutuallyExclusive("cluster-ca", "clients-ca")
	cmd.MarkFlagsMutuallyExclusive("renew", "replace", "abort")
	cmd.MarkFlagsMutuallyExclusive("renew", "distrust")
	cmd.MarkFlagsMutuallyExclusive("abort", "distrust")
	return cmd
}

// Requests that contradict themselves, or leave open what is meant.
var (
	errWhichCA  = errors.New("specify --cluster-ca or --clients-ca")
	errNothing  = fmt.Errorf("%w; also %w", errNoKafka, errWhichCA)
	errOneCA    = errors.New("--cluster-ca and --clients-ca exclude each other: rotate one after the other")
	errOneWay   = errors.New("--renew, --replace and --abort exclude each other: ask for one of them")
	errDistrust = errors.New("--distrust goes with --replace or alone, not with --renew or --abort")
)

// arguments wants the name of one Kafka and an output that there is. Without arguments and flags, it names everything
// that is missing.
func (o *rotateOptions) arguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && !o.clusterCA && !o.clientsCA {
		return misused(cmd, errNothing)
	}
	if err := checkOutput(o.output); err != nil {
		return misused(cmd, err)
	}
	return oneCluster(cmd, args)
}

// check wants one request for one CA. The groups of flags say the same for shells.
func (o *rotateOptions) check(cmd *cobra.Command, args []string) error {
	if err := o.checkWay(); err != nil {
		return misused(cmd, err)
	}
	if isOfEtcd(args) {
		if err := o.checkEtcd(); err != nil {
			return misused(cmd, err)
		}
		return nil
	}
	switch {
	case o.ofEtcd.clientCA || o.ofEtcd.peerCA || o.ofEtcd.clientsMoved:
		return misused(cmd, errNotOfKafka)
	case !o.clusterCA && !o.clientsCA:
		return misused(cmd, errWhichCA)
	case o.clusterCA && o.clientsCA:
		return misused(cmd, errOneCA)
	default:
		return nil
	}
}

// checkWay wants one thing to be asked.
func (o *rotateOptions) checkWay() error {
	ways := 0
	for _, way := range []bool{o.renew, o.replace, o.abort} {
		if way {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errOneWay
	case o.distrust && (o.renew || o.abort):
		return errDistrust
	default:
		return nil
	}
}

func (o *rotateOptions) kind() authorities.Kind {
	if o.clientsCA {
		return authorities.Clients
	}
	return authorities.Cluster
}

// request is what is asked of the operator.
type request struct {
	domain string
	secret string
	// see is the command that shows what becomes of it.
	see string
	// annotations are set together; what says in words what the operator shall do.
	annotations map[string]string
	what        string
	// withdraws is true of a request that takes back another one, which still waits, and
	// seen is the version of the Secret that shows whether one does, or empty.
	withdraws bool
	seen      string
}

// requested turns flags into annotations.
func (o *rotateOptions) requested(cluster string) request {
	kind := o.kind()
	r := request{domain: string(kind), secret: kind.KeySecret(cluster), annotations: map[string]string{}}
	const yes = "true"
	ca := called(r.domain)
	switch {
	case o.renew:
		r.secret = kind.CertSecret(cluster)
		r.annotations[authorities.ForceRenewAnnotation] = yes
		r.what = "renew the certificate of the " + ca
	case o.abort:
		r.annotations[authority.AbortReplaceAnnotation] = yes
		r.what = "go back to the " + ca + " that is being replaced"
	case o.replace || !o.distrust:
		r.annotations[authorities.ForceReplaceAnnotation] = yes
		r.what = "replace the key of the " + ca
	}
	if o.distrust {
		r.annotations[authority.DistrustAnnotation] = authority.DistrustNow
		if r.what == "" {
			r.what = "distrust every key of the " + ca + " but the newest"
		} else {
			r.what += " and distrust all its earlier keys"
		}
	}
	return r
}

func (o *rotateOptions) run(ctx context.Context, resource string, out io.Writer) error {
	connection, err := o.connect()
	if err != nil {
		return err
	}
	if name, is := strings.CutPrefix(resource, etcdPrefix); is {
		return o.rotateEtcd(ctx, etcdCluster{connection, name}, out)
	}
	c, err := connection.cluster(resource)
	if err != nil {
		return err
	}
	r := o.requested(c.name)
	r.see = c.see()
	kafka, err := c.kafka(ctx)
	if err != nil {
		return err
	}
	before, err := c.record(ctx, kafka, r.domain)
	if err != nil {
		return err
	}
	if r, err = c.takenBack(ctx, r); err != nil {
		return err
	}
	if err := o.permitted(c, r, kafka, before); err != nil {
		return err
	}
	if err := c.ask(ctx, r); err != nil {
		return err
	}
	asked := outcome{
		Namespace: c.namespace, Cluster: c.name, Domain: r.domain, Secret: r.secret, Annotations: r.annotations, Asked: r.what, Kept: o.kept(before),
	}
	if o.output == outputTable {
		return o.tell(ctx, c, watching{r, kafka, before}, asked, out)
	}
	return o.document(ctx, c, watching{r, kafka, before}, asked, out)
}

// outcome is what "keyturn rotate" says when the operator has been asked.
type outcome struct {
	Namespace   string            `json:"namespace"`
	Cluster     string            `json:"cluster"`
	Domain      string            `json:"domain"`
	Secret      string            `json:"secret"`
	Annotations map[string]string `json:"annotations"`
	// Asked is what the operator shall do, in words, and Kept the CA that is not distrusted.
	Asked string `json:"asked"`
	Kept  string `json:"kept,omitempty"`
	// Completed is true once a watch has seen that nothing is left to do, Seconds after the request.
	Completed bool  `json:"completed"`
	Seconds   int64 `json:"seconds,omitempty"`
}

// tell says what was asked, and what becomes of it.
func (o *rotateOptions) tell(ctx context.Context, c cluster, w watching, asked outcome, out io.Writer) error {
	text := fmt.Sprintf("Asked the operator of %s to %s.\n", c, asked.Asked)
	if asked.Kept != "" {
		text += asked.Kept + "\n"
	}
	if !o.watch {
		text += fmt.Sprintf("Follow it with: %s --watch\n", c.see())
	}
	if _, err := io.WriteString(out, text); err != nil || !o.watch {
		return err
	}
	return o.follow(ctx, c, w, out)
}

// document writes the outcome for programs at the end of a watch, also of one that ended early: the operator has been asked.
func (o *rotateOptions) document(ctx context.Context, c cluster, w watching, asked outcome, out io.Writer) error {
	var followed error
	if o.watch {
		begin := c.clock.Now()
		followed = o.follow(ctx, c, w, io.Discard)
		asked.Completed, asked.Seconds = followed == nil, int64(c.clock.Since(begin).Seconds())
	}
	if err := printFor(out, o.output, asked); err != nil {
		return errors.Join(fmt.Errorf("the operator has been asked, but the outcome cannot be printed: %w", err), followed)
	}
	return followed
}

// kept is a sentence about the CA that distrust does not strike, which is the wrong one if
// the newest key is compromised.
func (o *rotateOptions) kept(record rotation.Record) string {
	if !o.distrust || o.replace {
		return ""
	}
	return rotation.Label(record.Snapshot.Issuing, record.Anchors) + " stays trusted; if its key is the compromised one, use --replace --distrust."
}

// takenBack is the request with what an abort takes back: the request for a new key that
// waits, if there is one, and a replacement only if there is none. One in the place of a
// compromised key is not withdrawn.
func (c cluster) takenBack(ctx context.Context, r request) (request, error) {
	if _, abort := r.annotations[authority.AbortReplaceAnnotation]; !abort {
		return r, nil
	}
	secret, err := c.secret(ctx, r.secret)
	if apierrors.IsNotFound(err) {
		return r, nil
	}
	if err != nil {
		return r, withRights(err, r.rights(c.connection))
	}
	r.seen = secret.ResourceVersion
	r.withdraws = model.Says(secret.Annotations, authorities.ForceReplaceAnnotation, "true") &&
		!model.Says(secret.Annotations, authority.DistrustAnnotation, authority.DistrustNow)
	if r.withdraws {
		r.what = "withdraw the request for a new key of the " + called(r.domain)
	}
	return r, nil
}

// permitted refuses what would be wrong or in vain.
func (o *rotateOptions) permitted(c cluster, r request, kafka *kafkav1.Kafka, record rotation.Record) error {
	plan := record.Plan()
	phase := record.Words.PhaseOf(record.Snapshot, plan)
	switch {
	case caSource(kafka, record.Domain) != authority.Generated:
		return c.ownRefusal(kafka, record.Domain)
	case model.Says(kafka.Annotations, model.PauseAnnotation, "true"):
		return refuse("%s is paused, so nothing would happen: remove its annotation %s first", c, model.PauseAnnotation)
	case r.withdraws:
		return nil
	case o.abort:
		return c.wayBack(record)
	case o.distrust && !o.replace && !distrustable(record.Snapshot):
		return refuse("the %s of %s has no other key to distrust: if its current key is compromised, add --replace", called(record.Domain), c)
	case o.distrust:
		return nil
	case !record.Words.Settled(phase):
		return refuse("%s (%s: %s): %s", inProgress(c, record), phase, record.Words.Message(record.Snapshot, plan, record.Subject()), untilDone(record))
	}
	return nil
}

// outgoing reports whether anybody is still given an anchor that is to go.
func outgoing(s trust.Snapshot) bool {
	for _, a := range s.Anchors {
		if a.ID != s.Issuing && a.Stored != trust.Absent {
			return true
		}
	}
	return false
}

// wayBack refuses to go back where there is no CA that could be gone back to.
func (c cluster) wayBack(record rotation.Record) error {
	ca := called(record.Domain)
	if abortable(record.Snapshot) {
		return nil
	}
	if old := distrusted(record); len(old) > 0 {
		return refuse("the old %s of %s, %s, is distrusted because its key is compromised, and cannot be gone back to: "+
			"let the rotation finish; %s shows how far it is", ca, c, strings.Join(old, ", "), c.see())
	}
	return refuse("the key of the %s of %s is not being replaced, so there is nothing to go back to", ca, c)
}

// inProgress says what is under way: while there is only one CA nothing is rotated.
func inProgress(c cluster, record rotation.Record) string {
	if !outgoing(record.Snapshot) {
		return fmt.Sprintf("the %s of %s is not yet trusted and used everywhere", called(record.Domain), c)
	}
	return fmt.Sprintf("a rotation of the %s of %s is in progress", called(record.Domain), c)
}

// untilDone says what a person can do who wants another rotation than the one under way.
func untilDone(record rotation.Record) string {
	advice := "wait until it is done"
	if abortable(record.Snapshot) {
		advice += ", or go back with --abort"
	}
	return advice + "; if a key is compromised, add --replace --distrust, which is accepted at any time"
}

// otherKeys are the anchors of another key than the target's that somebody is still
// given.
func otherKeys(s trust.Snapshot) []trust.Anchor {
	key := targetOf(s).Key
	return slices.DeleteFunc(slices.Clone(s.Anchors), func(a trust.Anchor) bool { return a.Key == key || a.Stored == trust.Absent })
}

// targetOf is the anchor that shall stay; the zero one where there is none.
func targetOf(s trust.Snapshot) trust.Anchor {
	for _, a := range s.Anchors {
		if a.ID == s.Issuing {
			return a
		}
	}
	return trust.Anchor{}
}

// predecessors are the anchors of another key than the target's that are still trusted.
func predecessors(s trust.Snapshot) []trust.Anchor {
	return slices.DeleteFunc(otherKeys(s), func(a trust.Anchor) bool { return !s.Now.Before(a.NotAfter) })
}

// distrustable reports whether distrust strikes anything. It is keys that are distrusted:
// an earlier certificate under the key of the target goes on being trusted, and cross
// certificates by other keys are taken off.
func distrustable(s trust.Snapshot) bool {
	target := targetOf(s)
	return len(otherKeys(s)) > 0 || slices.ContainsFunc(target.Cross, func(c trust.Cross) bool { return c.Issuer != target.Key })
}

// abortable reports whether an authority with another key is still trusted.
func abortable(s trust.Snapshot) bool {
	return slices.ContainsFunc(predecessors(s), func(a trust.Anchor) bool { return !a.Compromised })
}

// distrusted are the names of the predecessors that a person distrusts.
func distrusted(record rotation.Record) []string {
	var names []string
	for _, a := range predecessors(record.Snapshot) {
		if a.Compromised {
			names = append(names, rotation.Label(a.ID, record.Anchors))
		}
	}
	slices.Sort(names)
	return names
}

// prepare is the Secret that a request is to be set on, before and after that. It refuses what would be in vain, and writes nothing.
func (c connection) prepare(ctx context.Context, r request) (before, after *metav1.PartialObjectMetadata, err error) {
	secret, err := c.secret(ctx, r.secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, refuse("Secret %s/%s does not exist: %s shows whether the operator recreates it", c.namespace, r.secret, r.see)
	case err != nil:
		return nil, nil, withRights(err, r.rights(c))
	case r.seen != "" && secret.ResourceVersion != r.seen:
		return nil, nil, c.raced(r)
	}
	after = secret.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	maps.Copy(after.Annotations, r.annotations)
	if maps.Equal(secret.Annotations, after.Annotations) {
		return nil, nil, refuse("the operator has already been asked to %s and has not started: %s shows what it is waiting for", r.what, r.see)
	}
	return secret, after, nil
}

// ask sets the annotations, on the state of the Secret that was seen and no other.
func (c connection) ask(ctx context.Context, r request) error {
	before, after, err := c.prepare(ctx, r)
	if err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err = c.client.Patch(ctx, after, patch, client.FieldOwner("kubectl-keyturn"))
	if apierrors.IsConflict(err) {
		return c.raced(r)
	}
	if err != nil {
		return withRights(fmt.Errorf("annotating Secret %s/%s: %w", c.namespace, r.secret, err), r.rights(c))
	}
	return nil
}

// raced refuses to act on a state of the Secret that is another by now.
func (c connection) raced(r request) error {
	return refuse("Secret %s/%s was changed by someone else just now: run the command again", c.namespace, r.secret)
}

// rights are those that the request takes beside those for looking.
func (r request) rights(c connection) string {
	return fmt.Sprintf("get and patch Secret %s in namespace %s, which lets you read its content as well", r.secret, c.namespace)
}

// withRights adds to a refusal by the API server which rights the command takes.
func withRights(err error, rights string) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (you need the right to %s)", err, rights)
	}
	return err
}
