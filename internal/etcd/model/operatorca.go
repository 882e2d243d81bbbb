package model

import (
	"fmt"
	"time"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// operatorCAValidity is ten years. A CA of a cluster that would expire later has the operator's CA certified again; one that
// is to last longer would have it last as long for all clusters.
const operatorCAValidity = 87600 * time.Hour

// OperatorCA is a CA of the operator, which signs the CAs of all clusters in one plane. No member trusts it.
type OperatorCA struct {
	// Namespace is the operator's own.
	Namespace string
	Plane     contract.Plane
}

// KeySecret and CertSecret are its Secrets. Those of clusters have a dot in their names.
func (o OperatorCA) KeySecret() string { return fmt.Sprintf("keyturn-etcd-operator-%s-ca", o.Plane) }

// CertSecret see KeySecret.
func (o OperatorCA) CertSecret() string { return o.KeySecret() + "-cert" }

// SigningRequest is the name of its CertificateSigningRequest.
func (o OperatorCA) SigningRequest() string { return o.KeySecret() }

// Labels are those of its Secrets.
func (o OperatorCA) Labels() map[string]string {
	return map[string]string{AppLabel: app, ManagedByLabel: Manager}
}

// Decide says what happens to the CA before it signs one that is valid for so long. Its certificate is made again for
// its key when it is lost, is not valid yet or would expire earlier: chains up to it verify as before.
func (o OperatorCA) Decide(stored StoredCA, longest time.Duration, now time.Time) CAAct {
	spec := pki.CASpec{Subject: o.subject(), Key: o.KeyParams(), Validity: operatorCAValidity, Now: now}
	if stored.Key == nil && stored.Cert == nil {
		return o.within(longest, MakeCA{spec})
	}
	key, problem := o.ReadKey(stored)
	if problem != nil {
		return HoldCA{*problem}
	}
	if stored.Cert == nil {
		return o.within(longest, CertifyCA{key, spec})
	}
	ca, err := authority.Signer(stored.Cert[authority.CertKey], stored.Key, now)
	if err != nil {
		return HoldCA{*o.unusable(err)}
	}
	if ca.Certificate().NotAfter.Before(now.Add(longest).Truncate(time.Second)) || now.Before(ca.Certificate().NotBefore) {
		return o.within(longest, CertifyCA{key, spec})
	}
	return UseCA{ca}
}

// within certifies the CA unless the one that it is to sign would expire later all the same.
func (o OperatorCA) within(longest time.Duration, act CAAct) CAAct {
	if longest <= operatorCAValidity {
		return act
	}
	field := fmt.Sprintf("spec.TLS.dynamic.%sCA.validity", o.Plane)
	return HoldCA{Problem{NotSupported, fmt.Sprintf("%s is %s, and the operator's %s CA can sign CAs for at most %s. No CA and no member of this cluster is created; other clusters are not affected. Set %s to %s or less, or have the operator's CA signed by another PKI.",
		field, hours(longest), o.Plane, hours(operatorCAValidity), field, hours(operatorCAValidity))}}
}

// KeyParams are those of its key.
func (o OperatorCA) KeyParams() pki.KeyParams { return pki.DefaultCAKey(pki.ECDSA) }

func (o OperatorCA) subject() pki.Subject {
	return pki.Subject{Organization: o.Namespace, CommonName: fmt.Sprintf("keyturn-etcd-operator %s-ca", o.Plane)}
}

// ReadKey returns the key of the CA, or the problem of one that is lost or cannot be read.
func (o OperatorCA) ReadKey(stored StoredCA) (pki.PrivateKey, *Problem) {
	if stored.Key == nil {
		return pki.PrivateKey{}, &Problem{CALost, fmt.Sprintf("Secret %s/%s does not exist, and its CA has signed CAs of clusters. New clusters get no CA; all others are served as before. Restore the Secret, or delete Secret %s as well to have another CA created.", o.Namespace, o.KeySecret(), o.CertSecret())}
	}
	key, err := pki.ParsePrivateKey(stored.Key[authority.KeyKey])
	if err != nil {
		return pki.PrivateKey{}, o.unusable(err)
	}
	return key, nil
}

func (o OperatorCA) unusable(err error) *Problem {
	return &Problem{CAUnusable, fmt.Sprintf("The operator's %s CA cannot sign: %s. New clusters get no CA; all others are served as before. Correct the Secrets %s and %s in namespace %s.", o.Plane, err, o.KeySecret(), o.CertSecret(), o.Namespace)}
}
