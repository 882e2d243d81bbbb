package model

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	etcdv1beta2 "github.com/keyturn/keyturn/api/etcd/v1beta2"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/excerpt"
	"github.com/keyturn/keyturn/internal/pki"
)

// Reasons for Secrets of a static cluster that cannot be used.
const (
	SecretMissing    Reason = "SecretMissing"
	SecretNotUsable  Reason = "SecretNotUsable"
	SecretExpired    Reason = "SecretExpired"
	CAChangedTooSoon Reason = "CAChangedTooSoon"
)

// Entries are what the entries of a Secret of a static cluster are called.
type Entries struct{ Certificate, Key, Anchors string }

func peerEntries() Entries { return Entries{"peer.crt", "peer.key", "peer-ca.crt"} }

func serverEntries() Entries { return Entries{"server.crt", "server.key", "server-ca.crt"} }

func operatorEntries() Entries {
	return Entries{"etcd-client.crt", "etcd-client.key", "etcd-client-ca.crt"}
}

func (e Entries) files(dir string) identityFiles {
	return identityFiles{dir + "/" + e.Certificate, dir + "/" + e.Key, dir + "/" + e.Anchors}
}

// StaticSecret is one of the Secrets of a static cluster.
type StaticSecret struct {
	Entries

	Name string
	// Data is nil when there is no such Secret.
	Data map[string][]byte

	chain    []*x509.Certificate
	anchors  []*x509.Certificate
	identity tls.Certificate
}

// StaticSecrets are all of them.
type StaticSecrets struct{ Peer, Server, Operator StaticSecret }

// staticSecrets names the Secrets of a static cluster.
func staticSecrets(static *etcdv1beta2.StaticTLS) *StaticSecrets {
	return &StaticSecrets{
		Peer:     StaticSecret{Name: static.Member.PeerSecret, Entries: peerEntries()},
		Server:   StaticSecret{Name: static.Member.ServerSecret, Entries: serverEntries()},
		Operator: StaticSecret{Name: static.OperatorSecret, Entries: operatorEntries()},
	}
}

// All are the Secrets in the order in which they are checked.
func (s *StaticSecrets) All() []*StaticSecret {
	return []*StaticSecret{&s.Peer, &s.Server, &s.Operator}
}

// ByPlane are those that members present and trust.
func (s *StaticSecrets) ByPlane() map[contract.Plane]*StaticSecret {
	return map[contract.Plane]*StaticSecret{contract.PeerPlane: &s.Peer, contract.ClientPlane: &s.Server}
}

// Chain is its certificate and those presented with it, empty as long as they have not been read.
func (s *StaticSecret) Chain() []*x509.Certificate { return s.chain }

// CAs are those that it has as trusted.
func (s *StaticSecret) CAs() []*x509.Certificate { return s.anchors }

// CheckStatic parses the Secrets, and returns what is wrong with the first entry that cannot be used.
func (c Cluster) CheckStatic(now time.Time) *Problem {
	s := c.Static
	for _, secret := range s.All() {
		if problem := secret.parse(); problem != nil {
			return problem
		}
	}
	for _, check := range []struct {
		secret   *StaticSecret
		verifier *StaticSecret
		usages   []pki.Usage
		names    []string
	}{
		{&s.Peer, &s.Peer, pki.BothUsages(), c.staticNames()},
		{&s.Server, &s.Operator, []pki.Usage{pki.ServerAuth}, append(c.staticNames(), c.Names.ClientService()+"."+c.Names.Namespace+".svc")},
		{&s.Operator, &s.Server, []pki.Usage{pki.ClientAuth}, nil},
	} {
		if problem := check.secret.check(check.verifier, check.usages, check.names, now); problem != nil {
			return problem
		}
	}
	return nil
}

// staticNames are those that members call each other by. A certificate with a wildcard is compared with the name that
// DNS has for the address of a member, which has the domain of the Kubernetes cluster.
func (c Cluster) staticNames() []string {
	names := make([]string, 0, 2*c.Size)
	for ordinal := range c.Size {
		host := c.Names.Host(c.Names.Member(ordinal))
		names = append(names, host, host+"."+c.settings.ClusterDomain)
	}
	return names
}

// parse reads the entries.
func (s *StaticSecret) parse() *Problem {
	if s.Data == nil {
		return s.problem(SecretMissing, fmt.Sprintf("Secret %s does not exist", s.Name),
			fmt.Sprintf("Create it with the entries %s, %s and %s", s.Certificate, s.Key, s.Anchors))
	}
	for _, entry := range []string{s.Certificate, s.Key, s.Anchors} {
		if len(s.Data[entry]) == 0 {
			return s.problem(SecretMissing, fmt.Sprintf("Secret %s has no entry %s", s.Name, entry), "Add it")
		}
	}
	var err error
	if s.anchors, err = pki.ParseBundle(s.Data[s.Anchors]); err != nil {
		return s.notUsable(s.Anchors, err)
	}
	if s.chain, err = pki.ParseChain(s.Data[s.Certificate]); err != nil {
		return s.notUsable(s.Certificate, err)
	}
	if s.identity, err = pki.KeyPair(s.Data[s.Certificate], s.Data[s.Key]); err != nil {
		return s.notUsable(s.Key, s.whyNoKey())
	}
	return nil
}

// whyNoKey says what is wrong with a key that does not fit to its certificate. Etcd reads more forms than ParsePrivateKey.
func (s *StaticSecret) whyNoKey() error {
	keys, _ := pki.PrivateKeysIn(s.Data[s.Key])
	if _, err := pki.ParsePrivateKey(s.Data[s.Key]); err != nil && len(keys) == 0 {
		return err
	}
	return errors.New("it is not the key of the certificate in " + s.Certificate)
}

// check asks whether those who trust the CAs of the verifier accept the certificate, for each usage and by each name.
func (s *StaticSecret) check(verifier *StaticSecret, usages []pki.Usage, names []string, now time.Time) *Problem {
	leaf := s.chain[0]
	if now.After(leaf.NotAfter) {
		return s.problem(SecretExpired, fmt.Sprintf("%s in Secret %s expired at %s", s.Certificate, s.Name, stamp(leaf.NotAfter)), "Put a certificate there that is valid")
	}
	if err := pki.Verify(s.chain, verifier.anchors, now, usages...); err != nil {
		return s.notUsable(s.Certificate, fmt.Errorf("it is not accepted by those who trust %s in Secret %s: %w", verifier.Anchors, verifier.Name, err))
	}
	wanted, err := pki.NewSANs(names...)
	if err != nil {
		return s.notUsable(s.Certificate, err)
	}
	if missing := pki.SANsOf(leaf).Uncovered(wanted); len(missing) > 0 {
		return s.problem(SecretNotUsable, fmt.Sprintf("%s in Secret %s lacks the DNS names %s", s.Certificate, s.Name, strings.Join(missing, ", ")),
			"Put a certificate there that has them, with wildcards or without")
	}
	return nil
}

func (s *StaticSecret) notUsable(entry string, err error) *Problem {
	return s.problem(SecretNotUsable, fmt.Sprintf("%s in Secret %s cannot be used: %s", entry, s.Name, excerpt.Of(err.Error(), maxCause)), "Put another one there")
}

func (s *StaticSecret) problem(reason Reason, what, remedy string) *Problem {
	return &Problem{reason, fmt.Sprintf("%s. Members are neither added, restarted nor removed. %s.", what, remedy)}
}

// Client is the configuration of the operator's connections.
func (s *StaticSecrets) Client() *tls.Config {
	roots := x509.NewCertPool()
	for _, anchor := range s.Operator.anchors {
		roots.AddCert(anchor)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{s.Operator.identity}}
}

// Trust names what members trust that are started now: the fingerprints of the CAs of both planes.
func (s *StaticSecrets) Trust() string {
	return fingerprints(s.Peer.anchors) + " " + fingerprints(s.Server.anchors)
}

func fingerprints(anchors []*x509.Certificate) string {
	named := make([]string, 0, len(anchors))
	for _, anchor := range anchors {
		named = append(named, pki.FingerprintOf(anchor).String())
	}
	slices.Sort(named)
	return strings.Join(slices.Compact(named), ",")
}

// CheckTrusted asks whether a member that was started with a trust accepts the other members and the operator. One
// that does not loses its connections, so that the next one must not be restarted.
func (s *StaticSecrets) CheckTrusted(member, trust string, now time.Time) *Problem {
	peers, clients, _ := strings.Cut(trust, " ")
	for _, check := range []struct {
		presents, trusts *StaticSecret
		trusted          string
		usages           []pki.Usage
	}{
		{&s.Peer, &s.Peer, peers, pki.BothUsages()}, {&s.Operator, &s.Server, clients, []pki.Usage{pki.ClientAuth}},
	} {
		known := slices.DeleteFunc(slices.Clone(check.trusts.anchors), func(anchor *x509.Certificate) bool {
			return !slices.Contains(strings.Split(check.trusted, ","), pki.FingerprintOf(anchor).String())
		})
		if pki.Verify(check.presents.chain, known, now, check.usages...) != nil {
			return check.presents.problem(CAChangedTooSoon, fmt.Sprintf(
				"Member %s was started before %s in Secret %s had the CA of %s in Secret %s, and rejects it", member, check.trusts.Anchors, check.trusts.Name, check.presents.Certificate, check.presents.Name),
				fmt.Sprintf("Put the previous %s and %s back, keep both CAs in %s, and replace the certificate when the members have been restarted",
					check.presents.Certificate, check.presents.Key, check.trusts.Anchors))
		}
	}
	return nil
}

// ModeOf is where the certificates of a cluster come from.
func ModeOf(policy *etcdv1beta2.TLSPolicy) Mode {
	switch {
	case policy == nil:
		return Dynamic
	case policy.Static != nil:
		return Static
	case policy.Insecure:
		return Insecure
	default:
		return Dynamic
	}
}

// WithoutOwnCA is a cluster whose CAs are not the operator's.
func WithoutOwnCA(cluster Names) *Problem {
	return &Problem{NotSupported, fmt.Sprintf("The operator has no CA of EtcdCluster %s, because of spec.TLS.%s. No certificate is issued. Connect as those clients do whose certificates you make.",
		cluster.NamespacedName(), strings.ToLower(string(cluster.Mode)))}
}
