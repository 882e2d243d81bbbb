package controller

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/pki"
)

// authorities are the CAs of a cluster and the operator's own certificate. They are read in each reconcile and not
// kept: they hold keys.
type authorities struct {
	cas      map[contract.Plane]pki.Authority
	operator operatorIdentity
}

// operatorIdentity is the operator as a client of a cluster, the leaf first.
type operatorIdentity struct {
	chain []*x509.Certificate
	key   pki.PrivateKey
}

func (a authorities) areComplete() bool { return len(a.cas) == len(contract.Planes()) }

func (a authorities) trust() model.Trust {
	trust := model.Trust{Anchors: map[contract.Plane][]*x509.Certificate{}, Operators: a.operator.chain[:min(len(a.operator.chain), 1)]}
	for plane, ca := range a.cas {
		trust.Anchors[plane] = []*x509.Certificate{ca.Certificate()}
	}
	return trust
}

// client is the configuration of a connection to the members.
func (a authorities) client() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cas[contract.ClientPlane].Certificate())
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{a.operator.certificate()}}
}

// readAuthorities reads the CAs and the operator's certificate, and makes what there is none of yet.
func (p *pass) readAuthorities(ctx context.Context) (*model.Problem, error) {
	p.authorities.cas = map[contract.Plane]pki.Authority{}
	trusted, err := p.readTrusted(ctx, p.serving())
	if err != nil {
		return nil, err
	}
	for _, plane := range contract.Planes() {
		ca, problem, err := p.readCA(ctx, plane, trusted[plane])
		if err != nil || problem != nil {
			return problem, err
		}
		p.authorities.cas[plane] = ca
	}
	p.addPresented()
	return nil, p.readOperator(ctx)
}

// readCA returns the CA of a plane. The Secret with its key is written first: a crash between the two loses nothing.
func (p *pass) readCA(ctx context.Context, plane contract.Plane, trusted model.Trusted) (pki.Authority, *model.Problem, error) {
	names := p.cluster.Names
	key, err := p.private(ctx, names.CAKeySecret(plane))
	if err != nil {
		return pki.Authority{}, nil, err
	}
	cert, err := p.private(ctx, names.CACertSecret(plane))
	if err != nil {
		return pki.Authority{}, nil, err
	}
	switch act := p.cluster.DecideCA(plane, model.StoredCA{Key: dataOf(key), Cert: dataOf(cert)}, trusted, p.now).(type) {
	case model.UseCA:
		return act.CA, nil, nil
	case model.MakeCA:
		return p.certify(ctx, plane, pki.PrivateKey{}, act.Spec)
	case model.CertifyCA:
		return p.certify(ctx, plane, act.Key, act.Spec)
	case model.HoldCA:
		return pki.Authority{}, &act.Problem, nil
	default:
		return pki.Authority{}, nil, fmt.Errorf("the %s CA: act %T is not known", plane, act)
	}
}

// certify has the operator's CA sign a key of the cluster. Where there is none it is made, but not before that CA can sign.
func (p *pass) certify(ctx context.Context, plane contract.Plane, key pki.PrivateKey, spec pki.CASpec) (pki.Authority, *model.Problem, error) {
	parent, problem, err := p.operatorCA(ctx, plane, spec.Validity)
	if problem != nil || err != nil {
		return pki.Authority{}, problem, err
	}
	if key.IsZero() {
		if key, err = p.makeKey(ctx, plane, spec); err != nil {
			return pki.Authority{}, nil, err
		}
	}
	ca, err := pki.SignCA(parent, key, spec)
	if err != nil {
		return pki.Authority{}, nil, fmt.Errorf("signing the %s CA: %w", plane, err)
	}
	err = p.writePrivate(ctx, nil, p.cluster.Names.CACertSecret(plane), map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())})
	if err == nil {
		p.options.Log.Info("made a CA", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name, "plane", plane)
		p.options.Events.Eventf(p.etcd, concern("Secret", p.options.Namespace, p.cluster.Names.CACertSecret(plane), plane), corev1.EventTypeNormal, "CaCertCreated", actionReconcile, "Created the %s CA %s", plane, ca.Certificate().Subject)
	}
	return ca, nil, err
}

func (p *pass) makeKey(ctx context.Context, plane contract.Plane, spec pki.CASpec) (pki.PrivateKey, error) {
	key, err := pki.GenerateKey(spec.Key)
	if err != nil {
		return pki.PrivateKey{}, fmt.Errorf("making the key of the %s CA: %w", plane, err)
	}
	return key, p.writePrivate(ctx, nil, p.cluster.Names.CAKeySecret(plane), map[string][]byte{authority.KeyKey: key.PEM()})
}

// readOperator reads the operator's certificate, and issues it when it is due.
func (p *pass) readOperator(ctx context.Context) error {
	name := p.cluster.Names.OperatorSecret()
	stored, err := p.private(ctx, name)
	if err != nil {
		return err
	}
	ca, data := p.authorities.cas[contract.ClientPlane], dataOf(stored)
	decision := p.cluster.DecideOperator(ca, data, p.now)
	p.wakeAt(decision.RenewalAt)
	if decision.Act == authority.ReissueLeaf {
		p.wakeAt(p.now.Add(p.cluster.TLS.LeafValidity - p.cluster.OperatorRenewal()))
		if data, err = p.issueOperator(ca); err != nil {
			return err
		}
		if err := p.writePrivate(ctx, stored, name, data); err != nil {
			return err
		}
	}
	p.authorities.operator, err = readIdentity(data)
	if err != nil {
		return fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return nil
}

func (p *pass) issueOperator(ca pki.Authority) (map[string][]byte, error) {
	key, err := pki.GenerateKey(p.cluster.OperatorKey())
	if err != nil {
		return nil, fmt.Errorf("making the operator's key: %w", err)
	}
	leaf, err := ca.Issue(key.Signer().Public(), p.cluster.OperatorLeaf(p.now))
	if err != nil {
		return nil, fmt.Errorf("issuing the operator's certificate: %w", err)
	}
	chain := append([]*x509.Certificate{leaf}, ca.Presents()...)
	return map[string][]byte{
		model.OperatorCertEntry: pki.EncodeBundle(chain...), model.OperatorKeyEntry: key.PEM(),
		model.OperatorAnchorsEntry: pki.EncodeBundle(ca.Certificate()),
	}, nil
}

func readIdentity(data map[string][]byte) (operatorIdentity, error) {
	chain, err := pki.ParseBundle(data[model.OperatorCertEntry])
	if err != nil {
		return operatorIdentity{}, err
	}
	key, err := pki.ParsePrivateKey(data[model.OperatorKeyEntry])
	return operatorIdentity{chain, key}, err
}

// private reads a Secret of the cluster in the operator's namespace; nil when there is none.
func (p *pass) private(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := p.ownSecret(ctx, name)
	if err != nil || secret == nil {
		return nil, err
	}
	if secret.Labels[model.ClusterUIDLabel] == string(p.etcd.UID) {
		return secret, nil
	}
	isLeft, err := p.isLeft(ctx, secret)
	if err != nil {
		return nil, err
	}
	if !isLeft {
		return nil, &foreignKeyError{p.options.Namespace + "/" + name, string(p.etcd.UID)}
	}
	return secret, p.writePrivate(ctx, secret, name, secret.Data)
}

func (p *pass) writePrivate(ctx context.Context, stored *corev1.Secret, name string, data map[string][]byte) error {
	labels, err := p.privateLabels(ctx)
	if err != nil {
		return err
	}
	return p.writeOwn(ctx, stored, name, labels, data)
}

func dataOf(secret *corev1.Secret) map[string][]byte {
	if secret == nil {
		return nil
	}
	if secret.Data == nil {
		return map[string][]byte{}
	}
	return secret.Data
}
