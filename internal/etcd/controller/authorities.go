package controller

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/keyturn/keyturn/internal/authority"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/etcd/domains"
	"github.com/keyturn/keyturn/internal/etcd/model"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
)

// authorities are the CAs of a cluster and the operator's own certificate. They are read in each reconcile and not
// kept: they hold keys.
type authorities struct {
	// cas sign for applications and backups, and bundles are what these trust.
	cas     map[contract.Plane]pki.Authority
	bundles map[contract.Plane][]*x509.Certificate
	// isHeld is true of the planes whose CA a person has to restore: it is not decided about.
	isHeld map[contract.Plane]bool
	// secrets are those of the CAs, by name; nil where there is none.
	secrets map[string]*corev1.Secret
	// decided says what members trust, and what signs for them, and seen is what that was decided from. Both are empty of an
	// EtcdAccess or an EtcdBackup.
	decided  domains.Decided
	seen     *domains.Seen
	operator operatorIdentity
}

func newAuthorities() authorities {
	return authorities{
		cas: map[contract.Plane]pki.Authority{}, bundles: map[contract.Plane][]*x509.Certificate{},
		isHeld: map[contract.Plane]bool{}, secrets: map[string]*corev1.Secret{}, decided: domains.Decided{},
	}
}

// operatorIdentity is the operator as a client of a cluster, the leaf first.
type operatorIdentity struct {
	chain []*x509.Certificate
	key   pki.PrivateKey
}

func (a authorities) areComplete() bool { return len(a.cas) == len(contract.Planes()) }

// trusted are the CAs of a plane that members trust.
func (a authorities) trusted(plane contract.Plane) []*x509.Certificate {
	if decided := a.decided[plane]; decided != nil {
		return decided.Trusted()
	}
	return a.bundles[plane]
}

// client is the configuration of a connection to the members.
func (a authorities) client() *tls.Config {
	roots := x509.NewCertPool()
	for _, anchor := range a.trusted(contract.ClientPlane) {
		roots.AddCert(anchor)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{a.operator.certificate()}}
}

// credentials are how the operator proves itself to agents, and recognises them.
func (a authorities) credentials() mtls.Credentials {
	return mtls.Credentials{Identity: a.operator.certificate(), Anchors: a.trusted(contract.ClientPlane)}
}

// readAuthorities reads the CAs and the operator's certificate, makes what there is none of yet, and decides what becomes of them.
func (p *pass) readAuthorities(ctx context.Context) (*model.Problem, error) {
	p.authorities = newAuthorities()
	trusted, err := p.readTrusted(ctx, p.serving())
	if err != nil {
		return nil, err
	}
	var held *model.Problem
	for _, plane := range contract.Planes() {
		problem, err := p.readCA(ctx, plane, trusted[plane])
		if foreign, isForeign := errors.AsType[*foreignKeyError](err); isForeign {
			problem, err = foreign.problem(), nil
		}
		if err != nil {
			return nil, err
		}
		p.authorities.isHeld[plane] = problem != nil
		held = cmp.Or(held, problem)
	}
	p.addPresented()
	problem, err := p.rotateCAs(ctx)
	return cmp.Or(held, problem), err
}

// errUnfinished is a CA that was not there again after it was made.
var errUnfinished = errors.New("it is not there again after it was made")

// readCA reads the CA of a plane, and makes it where there is none.
func (p *pass) readCA(ctx context.Context, plane contract.Plane, trusted model.Trusted) (*model.Problem, error) {
	for range 2 {
		act, err := p.lookAtCA(ctx, plane, trusted)
		if err != nil {
			return nil, err
		}
		switch act := act.(type) {
		case model.UseCA:
			return nil, nil //nolint:nilnil // having no problem is no error
		case model.HoldCA:
			return &act.Problem, nil
		case model.MakeCA:
			if problem, err := p.certify(ctx, plane, pki.PrivateKey{}, act.Spec); err != nil || problem != nil {
				return problem, err
			}
		case model.CertifyCA:
			if problem, err := p.certify(ctx, plane, act.Key, act.Spec); err != nil || problem != nil {
				return problem, err
			}
		default:
			return nil, fmt.Errorf("the %s CA: act %T is not known", plane, act)
		}
	}
	return nil, fmt.Errorf("reading the %s CA: %w", plane, errUnfinished)
}

// lookAtCA reads the Secrets of a CA, and keeps what is in them of one that can be used.
func (p *pass) lookAtCA(ctx context.Context, plane contract.Plane, trusted model.Trusted) (model.CAAct, error) {
	names := p.cluster.Names
	for _, name := range []string{names.CAKeySecret(plane), names.CACertSecret(plane), names.TrustedCertsSecret(plane)} {
		secret, err := p.private(ctx, name)
		if err != nil {
			return nil, err
		}
		p.authorities.secrets[name] = secret
	}
	stored := model.StoredCA{
		Key: dataOf(p.authorities.secrets[names.CAKeySecret(plane)]), Cert: dataOf(p.authorities.secrets[names.CACertSecret(plane)]),
		Trusted: dataOf(p.authorities.secrets[names.TrustedCertsSecret(plane)]),
	}
	act := p.cluster.DecideCA(plane, stored, trusted, p.now)
	if use, is := act.(model.UseCA); is {
		p.authorities.cas[plane], p.authorities.bundles[plane] = use.CA, certificatesIn(stored.Cert[authority.CertKey])
	}
	return act, nil
}

// certify has the operator's CA sign a key of the cluster. Where there is none it is made, but not before that CA can sign. The
// Secret with the key is written first: a crash between the two loses nothing.
func (p *pass) certify(ctx context.Context, plane contract.Plane, key pki.PrivateKey, spec pki.CASpec) (*model.Problem, error) {
	parent, problem, err := p.operatorCA(ctx, plane, spec.Validity)
	if problem != nil || err != nil {
		return problem, err
	}
	if key.IsZero() {
		if key, err = p.makeKey(ctx, plane, spec); err != nil {
			return nil, err
		}
	}
	ca, err := pki.SignCA(parent, key, spec)
	if err != nil {
		return nil, fmt.Errorf("signing the %s CA: %w", plane, err)
	}
	err = p.writePrivate(ctx, nil, p.cluster.Names.CACertSecret(plane), map[string][]byte{authority.CertKey: pki.EncodeBundle(ca.Certificate())})
	if err == nil {
		p.options.Log.Info("made a CA", "namespace", p.etcd.Namespace, "etcdcluster", p.etcd.Name, "plane", plane)
		p.options.Events.Eventf(p.etcd, concern("Secret", p.options.Namespace, p.cluster.Names.CACertSecret(plane), plane), corev1.EventTypeNormal, "CaCertCreated", actionReconcile, "Created the %s CA %s", plane, ca.Certificate().Subject)
	}
	return nil, err
}

func (p *pass) makeKey(ctx context.Context, plane contract.Plane, spec pki.CASpec) (pki.PrivateKey, error) {
	key, err := pki.GenerateKey(spec.Key)
	if err != nil {
		return pki.PrivateKey{}, fmt.Errorf("making the key of the %s CA: %w", plane, err)
	}
	return key, p.writePrivate(ctx, nil, p.cluster.Names.CAKeySecret(plane), map[string][]byte{authority.KeyKey: key.PEM()})
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
	if err := p.writePrivate(ctx, secret, name, secret.Data); err != nil {
		return nil, err
	}
	return p.ownSecret(ctx, name)
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

// certificatesIn are those of a bundle; nothing where it cannot be read.
func certificatesIn(bundle []byte) []*x509.Certificate {
	certificates, err := pki.ParseBundle(bundle)
	if err != nil {
		return nil
	}
	return certificates
}
