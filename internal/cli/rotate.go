package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/kafka/authority"
	"github.com/keyturn/keyturn/internal/kafka/rotation"
	"github.com/keyturn/keyturn/internal/trust"
)

// rotateOptions are the options of "keyturn rotate".
type rotateOptions struct {
	connect connector

	clusterCA, clientsCA            bool
	renew, replace, distrust, abort bool
	watch                           bool
}

func newRotateCommand() *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	cmd := rotateCommand(kubeconfig(flags))
	flags.AddFlags(cmd.Flags())
	return cmd
}

func rotateCommand(connect connector) *cobra.Command {
	o := &rotateOptions{connect: connect}
	cmd := &cobra.Command{
		Use:   "rotate kafka/NAME --cluster-ca|--clients-ca",
		Short: "Ask for a new key or certificate of a CA",
		Long: `Asks the operator to replace the key of a CA (--replace, which is meant if you say
nothing else), to renew its certificate under the same key (--renew), to distrust
every CA certificate but the newest at once because a key is compromised
(--distrust, alone or with --replace), or to go back to the CA that is being
replaced (--abort).

It sets one annotation on a Secret of the CA, and only on the state that it has
seen. It refuses, with exit code 2, when there is nothing that could be rotated, or
when a rotation is under way. See what will happen first with "plan".`,
		Example: `  kubectl keyturn rotate kafka/my-cluster -n kafka --cluster-ca --watch
  kubectl keyturn rotate kafka/my-cluster --cluster-ca --replace --distrust
  kubectl keyturn rotate kafka/my-cluster --clients-ca --abort`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.clusterCA, "cluster-ca", false, "rotate the CA that signs what nodes present")
	flags.BoolVar(&o.clientsCA, "clients-ca", false, "rotate the CA that signs what users present")
	flags.BoolVar(&o.renew, "renew", false, "a new certificate of the same key")
	flags.BoolVar(&o.replace, "replace", false, "a new key")
	flags.BoolVar(&o.distrust, "distrust", false, "distrust every CA certificate but the newest, because a key is compromised")
	flags.BoolVar(&o.abort, "abort", false, "go back to the CA that is being replaced")
	flags.BoolVarP(&o.watch, "watch", "w", false, "follow it until nothing is left to do")
	cmd.MarkFlagsOneRequired("cluster-ca", "clients-ca")
	cmd.MarkFlagsMutuallyExclusive("cluster-ca", "clients-ca")
	cmd.MarkFlagsMutuallyExclusive("renew", "replace", "abort")
	cmd.MarkFlagsMutuallyExclusive("renew", "distrust")
	cmd.MarkFlagsMutuallyExclusive("abort", "distrust")
	return cmd
}

func (o *rotateOptions) domain() string {
	if o.clientsCA {
		return rotation.ClientsCA
	}
	return rotation.ClusterCA
}

// request is what is asked of the operator.
type request struct {
	domain string
	secret string
	// annotations are set together; what says them in words.
	annotations map[string]string
	what        string
}

// requested turns flags into annotations.
func (o *rotateOptions) requested(cluster string) request {
	kind := authority.Kind(o.domain())
	r := request{domain: o.domain(), secret: kind.KeySecret(cluster), annotations: map[string]string{}}
	const yes = "true"
	ca := called(r.domain)
	switch {
	case o.renew:
		r.secret = kind.CertSecret(cluster)
		r.annotations[authority.ForceRenewAnnotation] = yes
		r.what = "a new certificate of the " + ca
	case o.abort:
		r.annotations[authority.AbortReplaceAnnotation] = yes
		r.what = "the end of the replacement of the " + ca
	case o.replace || !o.distrust:
		r.annotations[authority.ForceReplaceAnnotation] = yes
		r.what = "a new key of the " + ca
	}
	if o.distrust {
		r.annotations[authority.DistrustAnnotation] = authority.DistrustNow
		if r.what == "" {
			r.what = "the distrust of every certificate of the " + ca + " but the newest"
		} else {
			r.what += ", and the distrust of all its other certificates"
		}
	}
	return r
}

func (o *rotateOptions) run(ctx context.Context, resource string, out io.Writer) error {
	connection, err := o.connect()
	if err != nil {
		return err
	}
	c, err := connection.cluster(resource)
	if err != nil {
		return err
	}
	r := o.requested(c.name)
	kafka, err := c.kafka(ctx)
	if err != nil {
		return err
	}
	before, err := c.record(ctx, kafka, r.domain)
	if err != nil {
		return err
	}
	if err := o.permitted(c, kafka, before); err != nil {
		return err
	}
	if err := c.ask(ctx, r); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "Asked for %s of kafka/%s.\n", r.what, c.name); err != nil {
		return err
	}
	if !o.watch {
		_, err := fmt.Fprintf(out, "Follow it with: kubectl keyturn status kafka/%s -n %s --watch\n", c.name, c.namespace)
		return err
	}
	return o.follow(ctx, c, watching{r, kafka, before}, out)
}

// permitted refuses what would be wrong or in vain.
func (o *rotateOptions) permitted(c cluster, kafka *kafkav1.Kafka, record rotation.Record) error {
	plan := record.Plan()
	phase := rotation.PhaseOf(record.Snapshot, plan)
	switch {
	case ownCA(kafka, record.Domain):
		return refuse("the %s of %s is your own (generateCertificateAuthority is false), so its key and certificate are yours to change: see docs/certificates.md",
			called(record.Domain), c.name)
	case strings.EqualFold(kafka.Annotations[pauseAnnotation], "true"):
		return refuse("kafka/%s is paused, so nothing would happen: remove the annotation %s first", c.name, pauseAnnotation)
	case o.abort && !abortable(record.Snapshot):
		return refuse("no key of the %s of %s is being replaced, so there is nothing to go back to", called(record.Domain), c.name)
	case o.abort:
		return nil
	case o.distrust && !o.replace && !outgoing(record.Snapshot):
		return refuse("there is no other certificate of the %s of %s to distrust: if its present key is compromised, add --replace", called(record.Domain), c.name)
	case o.distrust:
		return nil
	case !phase.Settled():
		return refuse("a rotation of the %s of %s is under way (%s: %s): wait for it, or turn it back with --abort",
			called(record.Domain), c.name, phase, rotation.Message(record.Snapshot, plan, record.Anchors))
	}
	return nil
}

// pauseAnnotation keeps the operator's hands off a Kafka.
const pauseAnnotation = "strimzi.io/pause-reconciliation"

// outgoing reports whether anybody is still given an anchor that is to go.
func outgoing(s trust.Snapshot) bool {
	for _, a := range s.Anchors {
		if a.ID != s.Issuing && a.Stored != trust.Absent {
			return true
		}
	}
	return false
}

// abortable reports whether an authority with another key is still trusted.
func abortable(s trust.Snapshot) bool {
	key := trust.KeyID("")
	for _, a := range s.Anchors {
		if a.ID == s.Issuing {
			key = a.Key
		}
	}
	for _, a := range s.Anchors {
		if a.Key != key && a.Stored != trust.Absent && s.Now.Before(a.NotAfter) && !a.Compromised {
			return true
		}
	}
	return false
}

// ask sets the annotations, on the state of the Secret that was seen and no other.
func (c cluster) ask(ctx context.Context, r request) error {
	secret, err := c.secret(ctx, r.secret)
	if apierrors.IsNotFound(err) {
		return refuse("Secret %s/%s does not exist: the operator makes it anew by itself, see kubectl keyturn status kafka/%s", c.namespace, r.secret, c.name)
	}
	if err != nil {
		return withRights(err)
	}
	before := secret.DeepCopy()
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	missing := false
	for annotation, value := range r.annotations {
		missing = missing || secret.Annotations[annotation] != value
		secret.Annotations[annotation] = value
	}
	if !missing {
		return refuse("%s has been asked for already, and the operator has not begun: see kubectl keyturn status kafka/%s for what it waits for", r.what, c.name)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err = c.client.Patch(ctx, secret, patch, client.FieldOwner("kubectl-keyturn"))
	if apierrors.IsConflict(err) {
		return refuse("Secret %s/%s was changed by somebody else at this moment: look again and repeat", c.namespace, r.secret)
	}
	if err != nil {
		return withRights(fmt.Errorf("annotating Secret %s/%s: %w", c.namespace, r.secret, err))
	}
	return nil
}

// withRights adds what a person who may not do this needs to know.
func withRights(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w (docs/rotation.md says which rights this takes)", err)
	}
	return err
}
