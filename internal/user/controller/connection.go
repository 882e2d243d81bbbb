package controller

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/keyturn/keyturn/internal/kafka/admin"
	"github.com/keyturn/keyturn/internal/kafka/connection"
	"github.com/keyturn/keyturn/internal/mtls"
)

// Connection is how a cluster is reached whose users are described; see connection.Options.
func Connection(cluster types.NamespacedName, source mtls.Source, now clock.PassiveClock) admin.Options {
	return connection.Options(cluster, source, now, admin.UsersAnswer)
}

// StoredCredentials are those of the cluster operator, and the cluster CA, as their Secrets hold them.
func StoredCredentials(live client.Reader, cluster types.NamespacedName) mtls.Source {
	return connection.StoredCredentials(live, cluster)
}
