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

	accessv1alpha1 "github.com/keyturn/keyturn/api/access/v1alpha1"
	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/access/binding"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
)

// pass is one reconcile of a KafkaAccess.
type pass struct {
	*Reconciler

	access *accessv1alpha1.KafkaAccess
	// read are the objects that the pass has looked for.
	read map[reference]bool
	// unlabelled are the Secrets among them that do not exist or lack the label by which Secrets are watched.
	unlabelled map[string]bool
}

func newPass(r *Reconciler, access *accessv1alpha1.KafkaAccess) *pass {
	return &pass{Reconciler: r, access: access, read: map[reference]bool{}, unlabelled: map[string]bool{}}
}

// bind writes the Secret and returns the listener that it is about. A *binding.NotReadyError says what has to
// change first.
func (p *pass) bind(ctx context.Context) (listener string, err error) {
	if err := binding.CheckSpec(p.access); err != nil {
		return "", err
	}
	connection, err := p.connection(ctx)
	if err != nil {
		return "", err
	}
	data, err := connection.Data()
	if err != nil {
		return "", err
	}
	if err := p.write(ctx, binding.Secret(p.access, data)); err != nil {
		return "", err
	}
	return connection.Listener.Name, p.deletePrevious(ctx)
}

// connection reads what the KafkaAccess refers to.
func (p *pass) connection(ctx context.Context) (connection binding.Connection, err error) {
	kafka := &kafkav1.Kafka{}
	if err := p.get(ctx, kafka, ofKafka, p.access.Spec.Kafka.Name, "spec.kafka.name"); err != nil {
		return connection, err
	}
	var user *kafkav1.KafkaUser // stays nil when the KafkaAccess has none
	if p.access.Spec.User != nil {
		user = &kafkav1.KafkaUser{}
		if err := p.getUser(ctx, user); err != nil {
			return connection, err
		}
	}
	connection.User = binding.UserOf(user)
	if connection.Listener, err = binding.ChooseListener(kafka, p.access.Spec.Kafka.Listener, connection.User); err != nil {
		return connection, err
	}
	needed, err := binding.NeedsClusterCA(&connection.Listener)
	if err != nil {
		return connection, err
	}
	if connection.Bootstrap, err = binding.Bootstrap(kafka, connection.Listener.Name); err != nil {
		return connection, err
	}
	if needed {
		name := authorities.Cluster.CertSecret(kafka.Name)
		if connection.ClusterCA, err = p.source(ctx, name, "spec.kafka.name"); err != nil {
			return connection, err
		}
	}
	err = p.addCredentials(ctx, user, &connection)
	return connection, err
}

func (p *pass) getUser(ctx context.Context, into *kafkav1.KafkaUser) error {
	if err := p.get(ctx, into, ofUser, p.access.Spec.User.Name, "spec.user.name"); err != nil {
		return err
	}
	return binding.CheckUser(into, p.access.Spec.Kafka.Name)
}

func (p *pass) addCredentials(ctx context.Context, user *kafkav1.KafkaUser, connection *binding.Connection) error {
	name, err := binding.CredentialsSecret(user)
	if err != nil || name == "" {
		return err
	}
	connection.Username = user.Status.Username
	connection.Credentials, err = p.source(ctx, name, "spec.user.name")
	return err
}

// source reads a Secret that is copied from.
func (p *pass) source(ctx context.Context, name, field string) (binding.Source, error) {
	secret := &corev1.Secret{}
	if err := p.get(ctx, secret, ofSecret, name, field); err != nil {
		return binding.Source{}, err
	}
	return binding.Source{Name: name, Data: secret.Data}, nil
}

// get reads an object of the KafkaAccess' namespace. What is referred to before it is read causes a reconcile
// when it changes after that. The field is the one to correct when there is no such object.
func (p *pass) get(ctx context.Context, into client.Object, kind kind, name, field string) error {
	found, err := p.find(ctx, into, kind, name)
	if err == nil && !found {
		return binding.Missing(string(kind), p.access.Namespace, name, field)
	}
	return err
}

func (p *pass) find(ctx context.Context, into client.Object, kind kind, name string) (found bool, err error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return false, nil // no object can have this name, and the client refuses to ask for some
	}
	referred := reference{kind, types.NamespacedName{Namespace: p.access.Namespace, Name: name}}
	p.read[referred] = true
	p.references.add(client.ObjectKeyFromObject(p.access), referred)
	err = p.options.Live.Get(ctx, referred.name, into)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, &requestError{verb: "get", kind: kind, name: referred.name, err: err}
	}
	if kind == ofSecret && !isLabelled(into.GetLabels()) {
		p.unlabelled[name] = true
	}
	return err == nil, nil
}

// watch replaces what the KafkaAccess is reconciled for, now that the pass has looked for all of it.
func (p *pass) watch() {
	access := client.ObjectKeyFromObject(p.access)
	p.references.trim(access, p.read)
	p.named.Refer(access, slices.Collect(maps.Keys(p.unlabelled)))
}
