package controller

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
)

// pass is one reconcile of a KafkaAccess.
type pass struct {
	*Reconciler

	access *binding.Access
	// read are the objects that the pass has looked for, with the version of each, empty when there is none.
	read map[reference]string
	// unlabelled are the Secrets among them that do not exist or lack the label by which Secrets are watched.
	unlabelled map[types.NamespacedName]bool
}

func newPass(r *Reconciler, access *binding.Access) *pass {
	return &pass{Reconciler: r, access: access, read: map[reference]string{}, unlabelled: map[types.NamespacedName]bool{}}
}

// settle writes the Secret as the spec asks for. Where that cannot be done, what the Secret was written from before is
// still followed.
func (p *pass) settle(ctx context.Context) (binding.Outcome, error) {
	listener, failed := p.bind(ctx)
	if failed == nil {
		failed = p.unwatched()
		return binding.Outcome{Listener: listener, Problem: problem(failed)}, failed
	}
	outcome := binding.Outcome{Listener: listener, Problem: problem(failed)}
	if isOutdated(failed) {
		return outcome, failed
	}
	holds, err := p.keep(ctx)
	if err != nil && (isOutdated(err) || !isRetried(failed)) {
		return outcome, err
	}
	outcome.Withdrawn = !holds && outcome.Problem.Reason == binding.NamespaceNotAllowed
	return outcome, failed
}

// unwatched is the denial for which changes of what the pass has read are not noticed.
func (p *pass) unwatched() error {
	if d := p.denial(p.access.Key(), p.read); d != nil {
		return d
	}
	return nil
}

// bind writes the Secret and returns the listener that it is about. A *binding.NotReadyError says what has to
// change first.
func (p *pass) bind(ctx context.Context) (listener string, err error) {
	if err := binding.CheckSpec(p.access); err != nil {
		return "", err
	}
	source := p.access.Asked()
	connection, err := p.connection(ctx, source)
	if err != nil {
		return "", err
	}
	source.Listener = connection.Listener.Name
	if err := p.write(ctx, source, &connection); err != nil {
		return "", err
	}
	return source.Listener, p.deletePrevious(ctx)
}

// connection reads what a source refers to.
func (p *pass) connection(ctx context.Context, source binding.Source) (connection binding.Connection, err error) {
	kafka, err := p.kafka(ctx, source)
	if err != nil {
		return connection, err
	}
	user, err := p.user(ctx, source)
	if err != nil {
		return connection, err
	}
	connection.User = binding.UserOf(user)
	if connection.Listener, err = binding.ChooseListener(kafka, source.Listener, connection.User); err != nil {
		return connection, err
	}
	if connection.Bootstrap, err = binding.Bootstrap(kafka, connection.Listener.Name); err != nil {
		return connection, err
	}
	trust := binding.TrustOf(kafka, &connection.Listener, source, p.access.Namespace)
	if connection.Truststore, err = p.truststore(ctx, trust); err != nil {
		return connection, err
	}
	err = p.addCredentials(ctx, user, &connection)
	return connection, err
}

func (p *pass) kafka(ctx context.Context, source binding.Source) (*kafkav1.Kafka, error) {
	kafka := &kafkav1.Kafka{}
	err := p.refer(ctx, kafka, ofKafka, types.NamespacedName(source.Kafka), "spec.kafka.name")
	return kafka, err
}

// user is nil when the source has none.
func (p *pass) user(ctx context.Context, source binding.Source) (user *kafkav1.KafkaUser, err error) {
	if source.User == nil {
		return user, nil
	}
	user = &kafkav1.KafkaUser{}
	if err := p.refer(ctx, user, ofUser, types.NamespacedName(*source.User), "spec.user.name"); err != nil {
		return nil, err
	}
	return user, binding.CheckUser(user, source.Kafka)
}

func (p *pass) truststore(ctx context.Context, trust binding.Trust) ([]byte, error) {
	if trust.Secret.Name == "" {
		return nil, nil
	}
	secret, err := p.stored(ctx, trust.Secret, trust.Field)
	if err != nil {
		return nil, err
	}
	return trust.Certificates(secret, p.options.Clock.Now())
}

func (p *pass) addCredentials(ctx context.Context, user *kafkav1.KafkaUser, connection *binding.Connection) error {
	name, err := binding.CredentialsSecret(user)
	if err != nil || name == "" {
		return err
	}
	connection.Username = user.Status.Username
	connection.Credentials, err = p.stored(ctx, types.NamespacedName{Namespace: user.Namespace, Name: name}, "spec.user.name")
	return err
}

// stored reads a Secret that is copied from. The field is the one to correct when there is no such Secret.
func (p *pass) stored(ctx context.Context, name types.NamespacedName, field string) (binding.Stored, error) {
	secret := &corev1.Secret{}
	found, err := p.find(ctx, secret, ofSecret, name)
	if err == nil && !found {
		err = binding.Missing(string(ofSecret), name.Namespace, name.Name, field)
	}
	return binding.Stored{Name: name.Name, Data: secret.Data}, err
}

// refer reads an object that people refer to, if that is allowed. The field is the one to correct when there is no
// such object.
func (p *pass) refer(ctx context.Context, into client.Object, kind kind, name types.NamespacedName, field string) error {
	if len(p.options.Namespaces) > 0 && !slices.Contains(p.options.Namespaces, name.Namespace) {
		return binding.NotWatched(name.Namespace)
	}
	found, err := p.find(ctx, into, kind, name)
	if err != nil {
		return err
	}
	needsConsent := name.Namespace != p.access.Namespace && p.options.References != Unrestricted
	switch {
	case needsConsent && (!found || !binding.Consents(into, p.access.Namespace)):
		return binding.NotAllowed(string(kind), name, p.access.Namespace)
	case !found:
		return binding.Missing(string(kind), name.Namespace, name.Name, field)
	default:
		return nil
	}
}

// find reads an object. What is referred to before it is read causes a reconcile when it changes after that.
func (p *pass) find(ctx context.Context, into client.Object, kind kind, name types.NamespacedName) (found bool, err error) {
	if len(validation.IsDNS1123Subdomain(name.Name)) > 0 || len(validation.IsDNS1123Label(name.Namespace)) > 0 {
		return false, nil // no object can have this name, and the client refuses to ask for some
	}
	referred := reference{kind, name}
	p.read[referred] = ""
	p.references.add(p.access.Key(), referred)
	err = p.options.Live.Get(ctx, name, into)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, &requestError{verb: "get", kind: kind, name: name, err: err}
	}
	if err == nil {
		p.read[referred] = into.GetResourceVersion()
	}
	if kind == ofSecret && !isLabelled(into.GetLabels()) {
		p.unlabelled[name] = true
	}
	return err == nil, nil
}

// watch replaces what the KafkaAccess is reconciled for, now that the pass has looked for all of it.
func (p *pass) watch() {
	access := p.access.Key()
	p.references.trim(access, p.read)
	p.named.ReferTo(access, slices.Collect(maps.Keys(p.unlabelled)))
}
