package model

import (
	"crypto/x509"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	keyturnv1alpha1 "github.com/keyturn/keyturn/api/keyturn/v1alpha1"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/kstatus"
	"github.com/keyturn/keyturn/internal/pki"
)

// Reasons of the conditions of an EtcdAccess.
const (
	SecretReady         Reason = "SecretReady"
	NamespaceNotAllowed Reason = "NamespaceNotAllowed"
	NameTooLong         Reason = "NameTooLong"
	CANotReady          Reason = "CANotReady"
	SecretNotWritable   Reason = "SecretNotWritable"
)

// ConsentAnnotation of an EtcdCluster lists the namespaces whose EtcdAccesses may refer to it, with commas between; *
// stands for all.
const ConsentAnnotation = "keyturn.dev/access-from"

// maxUser is how long a common name can be.
const maxUser = 64

// endpointsEntry is the entry of the Secret of an EtcdAccess with the URLs of the cluster, with commas between.
const endpointsEntry = "endpoints"

// AccessUser is what etcd knows an EtcdAccess by. No other one has it, and neither root nor the operator.
func AccessUser(access *keyturnv1alpha1.EtcdAccess) string {
	return access.Namespace + ":" + access.Name
}

// AccessSecret is the name of the Secret of an EtcdAccess.
func AccessSecret(access *keyturnv1alpha1.EtcdAccess) string {
	if name := access.Spec.SecretName; name != "" {
		return name
	}
	return access.Name
}

// AccessedCluster is the cluster that an EtcdAccess refers to.
func AccessedCluster(access *keyturnv1alpha1.EtcdAccess) Names {
	names := Names{Namespace: access.Spec.Cluster.Namespace, Cluster: access.Spec.Cluster.Name}
	if names.Namespace == "" {
		names.Namespace = access.Namespace
	}
	return names
}

// Consents reports whether a cluster lets EtcdAccesses of a namespace refer to it.
func Consents(cluster metav1.Object, namespace string) bool {
	if cluster.GetNamespace() == namespace {
		return true
	}
	for entry := range strings.SplitSeq(cluster.GetAnnotations()[ConsentAnnotation], ",") {
		if entry = strings.TrimSpace(entry); entry == namespace || entry == "*" {
			return true
		}
	}
	return false
}

// CheckAccess says what is wrong with an EtcdAccess whatever cluster there is; nil when nothing is.
func CheckAccess(access *keyturnv1alpha1.EtcdAccess) *Problem {
	if user := AccessUser(access); len(user) > maxUser {
		return &Problem{NameTooLong, fmt.Sprintf("The common name %s would have %d characters, and at most %d are possible. No certificate is issued. Create an EtcdAccess with a shorter name.",
			user, len(user), maxUser)}
	}
	if cluster := AccessedCluster(access); !isName(cluster.Namespace) || !isName(cluster.Cluster) {
		return NotAllowed(cluster, access.Namespace)
	}
	return nil
}

// isName reports whether there can be an object of a name. Others change the path of a request to the API server.
func isName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// NotAllowed is a reference to a cluster that does not exist or does not allow it: which of the two is not told.
func NotAllowed(cluster Names, from string) *Problem {
	name := excerpt.Of(cluster.Cluster, excerpt.Foreign)
	return &Problem{NamespaceNotAllowed, fmt.Sprintf(
		"EtcdCluster %s does not exist in namespace %s, or does not allow an EtcdAccess of namespace %s to refer to it. No certificate is issued, and one that was issued is removed when the cluster exists. Add %s to the annotation %s of the EtcdCluster.",
		name, excerpt.Of(cluster.Namespace, excerpt.Value), from, from, ConsentAnnotation)}
}

// WithoutCA is a cluster that has no CA yet.
func WithoutCA(cluster Names) *Problem {
	return &Problem{CANotReady, fmt.Sprintf("EtcdCluster %s has no client CA yet. No certificate is issued until it has. See the conditions of the EtcdCluster if that lasts.", cluster.NamespacedName())}
}

// ForeignSecret is a Secret in the way.
func ForeignSecret(name string) *Problem {
	return &Problem{ForeignObject, fmt.Sprintf("Secret %s is not owned by this EtcdAccess. It is not changed, and the application has no credentials. Delete the Secret, or create an EtcdAccess with another spec.secretName.", name)}
}

// UnwritableSecret is a Secret that the API server does not let the operator write.
func UnwritableSecret(name string, err error) *Problem {
	return &Problem{SecretNotWritable, fmt.Sprintf("Secret %s cannot be written: %s. No certificate is issued, and one that was issued stays in it. Delete the Secret if it is immutable; otherwise correct the quota or the policy that the message names.",
		name, excerpt.Of(err.Error(), excerpt.Foreign))}
}

// AccessData is what the Secret of an EtcdAccess holds. key is nil where the application has its own.
func AccessData(cluster Names, cas, chain []*x509.Certificate, key []byte) map[string][]byte {
	data := map[string][]byte{
		OperatorAnchorsEntry: pki.EncodeBundle(cas...), OperatorCertEntry: pki.EncodeBundle(chain...),
		endpointsEntry: []byte(cluster.clientEndpoint()),
	}
	if key != nil {
		data[OperatorKeyEntry] = key
	}
	return data
}

func (n Names) clientEndpoint() string {
	return fmt.Sprintf("https://%s.%s.svc:%s", n.ClientService(), n.Namespace, strconv.Itoa(contract.ClientPort))
}

// AccessOwner makes the Secret go with its EtcdAccess.
func AccessOwner(access *keyturnv1alpha1.EtcdAccess) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: keyturnv1alpha1.GroupVersion.String(), Kind: keyturnv1alpha1.KindEtcdAccess,
		Name: access.Name, UID: access.UID, Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// IsOfAccess reports whether an EtcdAccess controls an object.
func IsOfAccess(object metav1.Object, access *keyturnv1alpha1.EtcdAccess) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && controller.UID == access.UID
}

// AccessStatus is what the status of an EtcdAccess shall be. leaf is the certificate in its Secret, nil when there is none.
func AccessStatus(access *keyturnv1alpha1.EtcdAccess, leaf *x509.Certificate, problem *Problem, now time.Time) keyturnv1alpha1.EtcdAccessStatus {
	status := keyturnv1alpha1.EtcdAccessStatus{ObservedGeneration: access.Generation}
	if leaf != nil {
		notAfter := metav1.NewTime(leaf.NotAfter)
		status.User, status.NotAfter = leaf.Subject.CommonName, &notAfter
		status.Binding = &keyturnv1alpha1.SecretBinding{Name: AccessSecret(access)}
	}
	ready := newCondition(keyturnv1alpha1.ConditionReady, metav1.ConditionTrue, SecretReady,
		fmt.Sprintf("Secret %s has what the application needs to connect.", AccessSecret(access)))
	if problem != nil {
		ready = newCondition(keyturnv1alpha1.ConditionReady, metav1.ConditionFalse, problem.Reason, problem.Message)
	}
	ready.ObservedGeneration = access.Generation
	status.Conditions = kstatus.Standard([]metav1.Condition{ready}, access.Status.Conditions, now)
	return status
}
