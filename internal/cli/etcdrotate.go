package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	etcddomains "github.com/keyturn/keyturn/internal/etcd/domains"
	etcdmodel "github.com/keyturn/keyturn/internal/etcd/model"
)

// etcdRotateOptions are the options of "keyturn rotate" for etcd clusters.
type etcdRotateOptions struct {
	clientCA, peerCA, clientsMoved bool
	operatorNamespace              string
}

func (o *etcdRotateOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.clientCA, "client-ca", false, "of etcd: rotate the CA of the port for clients")
	flags.BoolVar(&o.peerCA, "peer-ca", false, "of etcd: rotate the CA of the port for members; with --client-ca, each member is restarted once for both")
	flags.BoolVar(&o.clientsMoved, "clients-moved", false, "of etcd: all applications have read their Secrets again, and are no longer waited for")
}

// Requests for a CA of etcd that contradict themselves, or leave open what is meant.
var (
	errWhichEtcdCA = errors.New("specify --client-ca, --peer-ca or both")
	errNotOfEtcd   = errors.New("--cluster-ca and --clients-ca are CAs of Kafka: specify --client-ca, --peer-ca or both")
	errNotOfKafka  = errors.New("--client-ca, --peer-ca and --clients-moved are for etcd: specify --cluster-ca or --clients-ca")
	errMovedAlone  = errors.New("--clients-moved goes with --client-ca alone")
)

// checkEtcd wants one request for the CAs of an EtcdCluster.
func (o *rotateOptions) checkEtcd() error {
	switch {
	case o.clusterCA || o.clientsCA:
		return errNotOfEtcd
	case !o.ofEtcd.clientCA && !o.ofEtcd.peerCA:
		return errWhichEtcdCA
	case o.ofEtcd.clientsMoved && (o.ofEtcd.peerCA || o.renew || o.replace || o.distrust || o.abort):
		return errMovedAlone
	default:
		return nil
	}
}

func (o *etcdRotateOptions) planes() []contract.Plane {
	var planes []contract.Plane
	if o.clientCA {
		planes = append(planes, contract.ClientPlane)
	}
	if o.peerCA {
		planes = append(planes, contract.PeerPlane)
	}
	return planes
}

// etcdRequests are what is asked of the operator, one for each CA.
func (o *rotateOptions) etcdRequests(c etcdCluster) []request {
	names, planes := etcdmodel.Names{Namespace: c.namespace, Cluster: c.name}, o.ofEtcd.planes()
	requests := make([]request, 0, len(planes))
	for _, plane := range planes {
		r := request{domain: string(plane), see: c.see(), secret: names.CAKeySecret(plane), annotations: map[string]string{}}
		const yes = "true"
		switch {
		case o.ofEtcd.clientsMoved:
			r.annotations[etcddomains.ClientsMovedAnnotation] = c.clock.Now().UTC().Format(time.RFC3339)
			r.what = "wait no longer for applications"
		case o.renew:
			r.secret = names.CACertSecret(plane)
			r.annotations[etcddomains.ForceRenewAnnotation] = yes
			r.what = fmt.Sprintf("renew the certificate of the %s CA", plane)
		case o.abort:
			r.annotations[authority.AbortReplaceAnnotation] = yes
			r.what = fmt.Sprintf("go back to the %s CA that is being replaced", plane)
		case o.replace || !o.distrust:
			r.annotations[etcddomains.ForceReplaceAnnotation] = yes
			r.what = fmt.Sprintf("replace the key of the %s CA", plane)
		}
		if o.distrust {
			r.annotations[authority.DistrustAnnotation] = authority.DistrustNow
			r.what = strings.TrimPrefix(fmt.Sprintf("%s and distrust all earlier keys of the %s CA", r.what, plane), " and ")
		}
		requests = append(requests, r)
	}
	return requests
}

// rotateEtcd asks for another CA of an EtcdCluster.
func (o *rotateOptions) rotateEtcd(ctx context.Context, c etcdCluster, out io.Writer) error {
	etcd, err := c.etcd(ctx)
	if err != nil {
		return err
	}
	if err := o.permittedOfEtcd(c, etcd); err != nil {
		return err
	}
	requests := o.etcdRequests(c)
	secrets := c.connection // the Secrets of CAs are where the operator is
	secrets.namespace = o.ofEtcd.operatorNamespace
	for _, r := range requests { // all before the first, because a refusal changes nothing
		if o.abort && rotating(etcd) == "" && !secrets.hasRequest(ctx, r.secret) {
			return refuse("the key of the %s CA of %s is not being replaced, so there is nothing to go back to", r.domain, c)
		}
		if _, _, err := secrets.prepare(ctx, r); err != nil {
			return err
		}
	}
	asked := etcdOutcome{Namespace: c.namespace, Cluster: c.name}
	for _, r := range requests {
		if err := secrets.ask(ctx, r); err != nil {
			return afterOthers(asked.Asked, err)
		}
		asked.Asked = append(asked.Asked, r.what)
	}
	follow := func(out io.Writer) error { return o.followEtcd(ctx, c, secrets, requests, out) }
	if o.output == outputTable {
		return o.tellEtcd(c, asked, follow, out)
	}
	var followed error
	if o.watch {
		followed = follow(io.Discard)
		asked.Completed = followed == nil
	}
	return errors.Join(printFor(out, o.output, asked), followed)
}

// tellEtcd says what was asked, and what becomes of it.
func (o *rotateOptions) tellEtcd(c etcdCluster, asked etcdOutcome, follow func(io.Writer) error, out io.Writer) error {
	text := fmt.Sprintf("Asked the operator of %s to %s.\n", c, strings.Join(asked.Asked, " and to "))
	if !o.watch {
		text += fmt.Sprintf("Follow it with: %s --watch\n", c.see())
	}
	if _, err := io.WriteString(out, text); err != nil || !o.watch {
		return err
	}
	return follow(out)
}

// etcdOutcome is what "keyturn rotate" says when the operator of an EtcdCluster has been asked.
type etcdOutcome struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// Asked is what the operator shall do, in words.
	Asked []string `json:"asked"`
	// Completed is true once a watch has seen that nothing is left to do.
	Completed bool `json:"completed"`
}

// refusedMode refuses what takes CAs of the operator where there are none.
func (c etcdCluster) refusedMode() error {
	return refuse("%s has no CA of the operator: its certificates are in Secrets that people keep (spec.TLS)", c)
}

func (c etcdCluster) String() string { return etcdPrefix + c.name }

// see is the command that shows how far a rotation is.
func (c etcdCluster) see() string {
	return fmt.Sprintf("%s status %s -n %s", c.program, c, c.namespace)
}

// afterOthers is an error after which something was changed, where other requests were taken before.
func afterOthers(asked []string, err error) error {
	if len(asked) == 0 {
		return err
	}
	return fmt.Errorf("the operator was asked to %s, and no more: %v", strings.Join(asked, " and to "), err) //nolint:errorlint // a refusal says that nothing was changed
}

// hasRequest reports whether another key is asked for by a Secret. Where that cannot be read, asking says why.
func (c connection) hasRequest(ctx context.Context, name string) bool {
	secret, err := c.secret(ctx, name)
	return err != nil || secret.Annotations[etcddomains.ForceReplaceAnnotation] != ""
}

// permittedOfEtcd refuses what would be wrong or in vain.
func (o *rotateOptions) permittedOfEtcd(c etcdCluster, etcd *etcdv1beta2.EtcdCluster) error {
	isRotating := rotating(etcd) != ""
	switch {
	case etcdmodel.ModeOf(etcd.Spec.TLS) != etcdmodel.Dynamic:
		return c.refusedMode()
	case o.ofEtcd.clientsMoved && !isRotating:
		return refuse("no CA of %s is being replaced, so nothing waits for applications", c)
	case isRotating && !o.ofEtcd.clientsMoved && !o.abort && !o.distrust:
		return refuse("a CA of %s is being renewed or replaced: %s shows what that waits for; if a key is compromised, add --distrust", c, c.see())
	default:
		return nil
	}
}

// followEtcd tells what becomes of requests until nothing is left to do.
func (o *rotateOptions) followEtcd(ctx context.Context, c etcdCluster, secrets connection, requests []request, out io.Writer) error {
	begin, taken, last, isSeen := c.clock.Now(), time.Time{}, "", false
	return c.repeat(ctx, func() (bool, error) {
		etcd, err := c.etcd(ctx)
		if err != nil {
			return false, err
		}
		message := rotating(etcd)
		isSeen = isSeen || message != ""
		if message != last && message != "" {
			last = message
			if _, err := fmt.Fprintf(out, "%6s  %s\n", ago(c.clock.Since(begin)), said(message)); err != nil {
				return false, err
			}
		}
		areTaken, err := o.areTaken(ctx, secrets, requests)
		if err != nil || !areTaken || message != "" && !o.renew { // a renewed CA is loaded with a restart, months later
			taken = time.Time{}
			return false, err
		}
		if taken.IsZero() {
			taken = c.clock.Now()
		}
		if !isSeen { // the status is written after the Secrets
			return false, unserved(c.clock.Since(taken))
		}
		_, err = fmt.Fprintf(out, "Done after %s.\n", ago(c.clock.Since(begin)))
		return true, err
	})
}

// rotating is what the status says of CAs that are being renewed or replaced; empty when none is.
func rotating(etcd *etcdv1beta2.EtcdCluster) string {
	condition := meta.FindStatusCondition(etcd.Status.Conditions, etcdv1beta2.ConditionRotatingCAs)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return ""
	}
	return condition.Message
}

// unserved is an error once the operator has had the time to say what it does.
func unserved(since time.Duration) error {
	if since < grace {
		return nil
	}
	return errUnservedByEtcd
}

// errUnservedByEtcd is a request that the operator took off without acting on it.
var errUnservedByEtcd = errors.New("the operator removed the request without acting on it: the events of the EtcdCluster say why")

// areTaken reports whether the operator has taken all requests off. The time up to which clients have moved stays.
func (o *rotateOptions) areTaken(ctx context.Context, secrets connection, requests []request) (bool, error) {
	if o.ofEtcd.clientsMoved {
		return true, nil
	}
	for _, r := range requests {
		if isTaken, err := secrets.taken(ctx, r); err != nil || !isTaken {
			return false, err
		}
	}
	return true, nil
}

// isOfEtcd reports whether the name is that of an EtcdCluster.
func isOfEtcd(args []string) bool {
	return len(args) == 1 && strings.HasPrefix(args[0], etcdPrefix) && len(args[0]) > len(etcdPrefix)
}
