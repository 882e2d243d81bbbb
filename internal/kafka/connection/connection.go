package connection

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/authorities"
	"github.com/keyturn/keyturn/internal/kafka/model"
	"github.com/keyturn/keyturn/internal/kube"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
)

// Deadlines of requests to Kafka.
const (
	adminTimeout = 10 * time.Second
	dialTimeout  = 3 * time.Second
)

// The identity of the cluster operator, which is a super user of every cluster.
const (
	identityCert = "cluster-operator.crt"
	identityKey  = "cluster-operator.key"
)

// Options are how a cluster is reached: over the listener that its brokers have for each other. The source is asked for the
// certificate and the CAs that are trusted before each connection. No longer answer is read than the limit, in bytes.
func Options(cluster types.NamespacedName, source mtls.Source, now clock.PassiveClock, answerLimit int32) admin.Options {
	names := model.Names{Cluster: cluster.Name, Namespace: cluster.Namespace}
	return admin.Options{
		Brokers:     []string{net.JoinHostPort(names.BootstrapHost(), strconv.Itoa(model.ReplicationPort))},
		Domain:      names.BrokersDomain(),
		AnswerLimit: answerLimit,
		Dial:        (&net.Dialer{}).DialContext,
		Credentials: source,
		Now:         now.Now,
		Timeout:     adminTimeout,
		DialTimeout: dialTimeout,
	}
}

// StoredCredentials are those of the cluster operator, and the cluster CA, as their Secrets hold them.
func StoredCredentials(live client.Reader, cluster types.NamespacedName) mtls.Source {
	return func(ctx context.Context) (mtls.Credentials, error) { return credentials(ctx, live, cluster) }
}

// CredentialsError says that a Secret does not hold what an operator needs to connect.
type CredentialsError struct {
	secret string
	why    string
}

func (e *CredentialsError) Error() string { return fmt.Sprintf("Secret %s %s", e.secret, e.why) }

// credentials reads what an operator presents to Kafka, and which CAs it trusts.
func credentials(ctx context.Context, live client.Reader, cluster types.NamespacedName) (mtls.Credentials, error) {
	identityName := model.Names{Cluster: cluster.Name}.OperatorSecret()
	caName := authorities.Cluster.CertSecret(cluster.Name)
	var secrets [2]*corev1.Secret
	for i, name := range []string{identityName, caName} {
		secret, exists, err := kube.Read[corev1.Secret](ctx, live, types.NamespacedName{Namespace: cluster.Namespace, Name: name})
		if err != nil {
			return mtls.Credentials{}, err
		}
		if !exists {
			return mtls.Credentials{}, &CredentialsError{name, "does not exist"}
		}
		secrets[i] = secret
	}
	identity, err := pki.KeyPair(secrets[0].Data[identityCert], secrets[0].Data[identityKey])
	if err != nil {
		return mtls.Credentials{}, &CredentialsError{identityName, "has no certificate with its key: " + err.Error()}
	}
	anchors, err := pki.ParseBundle(secrets[1].Data[authority.CertKey])
	if err != nil {
		return mtls.Credentials{}, &CredentialsError{caName, "has no CA certificates: " + err.Error()}
	}
	return mtls.Credentials{Identity: identity, Anchors: anchors}, nil
}
