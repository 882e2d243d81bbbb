package local_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/keyturn/keyturn/internal/kafka/admin/wire/wiretest"
	"github.com/keyturn/keyturn/internal/kafka/agent/agenttest"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/local"
	"github.com/keyturn/keyturn/internal/kafka/agent/server"
	"github.com/keyturn/keyturn/internal/kafka/agent/stores"
	"github.com/keyturn/keyturn/internal/mtls"
	"github.com/keyturn/keyturn/internal/pki"
)

const (
	trust   = "listener.name.replication-9091.ssl.truststore.location"
	control = "listener.name.controlplane-9090.ssl.truststore.location"
)

// node is a server that answers from a script on each of its ports.
type node struct {
	*local.Client

	ca      pki.Authority
	leaf    stores.Identity
	asked   chan kmsg.Request
	mu      sync.Mutex
	dialled []string
}

// newNode makes a node with the roles. The script says what is answered at each
// address; the own listeners are at 127.0.0.1.
func newNode(t *testing.T, roles []string, script map[string]wiretest.Answer) *node {
	t.Helper()
	now := time.Now()
	ca := agenttest.Authority(t, "ca", now)
	n := &node{ca: ca, leaf: agenttest.Leaf(t, ca, "my-cluster-kafka", now, "127.0.0.1", "other"), asked: make(chan kmsg.Request, 16)}
	certificate := server.Certificate(n.leaf)
	addresses := map[string]string{}
	for address, answer := range script {
		addresses[address] = wiretest.Serve(t, &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert},
			func(req kmsg.Request) kmsg.Response {
				n.asked <- req
				return answer(req)
			})
	}
	n.Client = local.NewClient(local.Server{
		Host: "127.0.0.1", NodeID: 4, Roles: roles, Voters: []string{"other:9090"}, Now: time.Now, Limit: 10 * time.Second,
		Known: func() local.Known {
			return local.Known{
				Leaves: []string{n.leaf.Fingerprint()}, Identities: []tls.Certificate{certificate},
				Anchors: []*x509.Certificate{ca.Certificate()},
			}
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			n.mu.Lock()
			n.dialled = append(n.dialled, address)
			n.mu.Unlock()
			if addresses[address] == "" {
				return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("nobody is there")}
			}
			return (&net.Dialer{}).DialContext(ctx, network, addresses[address])
		},
	})
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func (n *node) dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dialled)
}

// described answers with one setting whose value is dynamic and not taken over.
func described(name string) wiretest.Answer {
	return func(req kmsg.Request) kmsg.Response {
		r, ok := req.(*kmsg.DescribeConfigsRequest)
		if !ok || !slices.Equal(r.Resources[0].ConfigNames, []string{name}) || r.Resources[0].ResourceName != "4" || !r.IncludeSynonyms {
			return nil
		}
		synonym := func(source kmsg.ConfigSource, name, value string) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Value, s.Source = name, &value, source
			return s
		}
		config := kmsg.NewDescribeConfigsResponseResourceConfig()
		config.Name, config.Value = name, new("/static")
		config.ConfigSynonyms = append(
			config.ConfigSynonyms,
			synonym(kmsg.ConfigSourceDynamicBrokerConfig, name, "/dynamic"),
			synonym(kmsg.ConfigSourceDynamicBrokerConfig, "ssl.truststore.location", "/of-all-listeners"),
			synonym(kmsg.ConfigSourceStaticBrokerConfig, name, "/static"),
		)
		resp := kmsg.NewPtrDescribeConfigsResponse()
		resource := kmsg.NewDescribeConfigsResponseResource()
		resource.Configs = append(resource.Configs, config)
		resp.Resources = append(resp.Resources, resource)
		return resp
	}
}

func TestEachHalfOfANodeIsAskedForItsSettings(t *testing.T) {
	t.Parallel()
	setting := local.Setting{Effective: "/static", Dynamic: new("/dynamic")}
	for name, c := range map[string]struct {
		roles  []string
		script map[string]wiretest.Answer
		names  []string
		want   map[string]local.Setting
	}{
		"a broker": {
			[]string{contract.RoleBroker},
			map[string]wiretest.Answer{"127.0.0.1:9091": described(trust)},
			[]string{trust},
			map[string]local.Setting{trust: setting},
		},
		"a controller": {
			[]string{contract.RoleController},
			map[string]wiretest.Answer{"127.0.0.1:9090": described(control)},
			[]string{control},
			map[string]local.Setting{control: setting},
		},
		"both in one": {
			[]string{contract.RoleController, contract.RoleBroker},
			map[string]wiretest.Answer{"127.0.0.1:9090": described(control), "127.0.0.1:9091": described(trust)},
			[]string{trust, control},
			map[string]local.Setting{trust: setting, control: setting},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, c.roles, c.script)
			for range 2 {
				got, err := n.Settings(t.Context(), c.names)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("settings (-want +got):\n%s", diff)
				}
			}
			if got := n.dials(); len(got) != len(c.script) {
				t.Errorf("connections to %v, want one to each listener for all questions", got)
			}
		})
	}
}

// altered answers changes with the code.
func altered(code int16, message string) wiretest.Answer {
	return func(kmsg.Request) kmsg.Response {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		resource := kmsg.NewIncrementalAlterConfigsResponseResource()
		resource.ErrorCode, resource.ErrorMessage = code, &message
		resp.Resources = append(resp.Resources, resource)
		return resp
	}
}

func TestChangesAreForThisNodeAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t, []string{contract.RoleBroker}, map[string]wiretest.Answer{"127.0.0.1:9091": altered(0, "")})
	changes := []local.Change{{Name: trust, Value: new("/a")}, {Name: control}}
	if err := n.Alter(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	req, ok := (<-n.asked).(*kmsg.IncrementalAlterConfigsRequest)
	if !ok || req.ValidateOnly || len(req.Resources) != 1 {
		t.Fatalf("asked %+v, want a change", req)
	}
	resource := req.Resources[0]
	if resource.ResourceType != kmsg.ConfigResourceTypeBroker || resource.ResourceName != "4" {
		t.Errorf("it is for %s %q, want broker 4", resource.ResourceType, resource.ResourceName)
	}
	set, deleted := resource.Configs[0], resource.Configs[1]
	if set.Op != kmsg.IncrementalAlterConfigOpSet || *set.Value != "/a" || deleted.Op != kmsg.IncrementalAlterConfigOpDelete || deleted.Value != nil {
		t.Errorf("operations %+v, want one to set and one to delete", resource.Configs)
	}
}

func TestRefusalOfAChangeSaysWhy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code    int16
		message string
		want    string
	}{
		"with the server's words": {kerr.InvalidRequest.Code, "no such store", "setting: no such store"},
		"without any":             {kerr.InvalidConfig.Code, "", "setting: " + kerr.InvalidConfig.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, []string{contract.RoleBroker}, map[string]wiretest.Answer{"127.0.0.1:9091": altered(c.code, c.message)})
			err := n.Alter(t.Context(), nil)
			if _, ok := errors.AsType[*local.InvalidError](err); !ok || err.Error() != c.want {
				t.Errorf("error %v, want an InvalidError %q", err, c.want)
			}
		})
	}
}

func TestControllerThatDoesNotLeadHandsChangesOn(t *testing.T) {
	t.Parallel()
	follower := altered(kerr.NotController.Code, "")
	for name, c := range map[string]struct {
		script map[string]wiretest.Answer
		want   error
	}{
		"to the one that leads":            {map[string]wiretest.Answer{"127.0.0.1:9090": follower, "other:9090": altered(0, "")}, nil},
		"and says so when nobody leads":    {map[string]wiretest.Answer{"127.0.0.1:9090": follower, "other:9090": follower}, kerr.NotController},
		"and says so when nobody is there": {map[string]wiretest.Answer{"127.0.0.1:9090": follower}, kerr.NotController},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, []string{contract.RoleController}, c.script)
			err := n.Alter(t.Context(), nil)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if _, invalid := errors.AsType[*local.InvalidError](err); invalid {
				t.Error("that passes, and is said to be the fault of the change")
			}
			if got := n.dials(); !slices.Equal(got, []string{"127.0.0.1:9090", "other:9090"}) {
				t.Errorf("asked %v, want itself first", got)
			}
		})
	}
}

func TestConnectionThatWasClosedIsReplaced(t *testing.T) {
	t.Parallel()
	requests := 0
	n := newNode(t, []string{contract.RoleBroker}, map[string]wiretest.Answer{"127.0.0.1:9091": func(req kmsg.Request) kmsg.Response {
		if requests++; requests == 2 {
			return nil
		}
		return described(trust)(req)
	}})
	for range 2 {
		if _, err := n.Settings(t.Context(), []string{trust}); err != nil {
			t.Error(err)
		}
	}
	if got := len(n.dials()); got != 2 {
		t.Errorf("%d connections, want a second one after the first was closed", got)
	}
}

// guarded serves a listener that accepts clients of the anchors and answers
// everything, and returns a client of the node it belongs to.
func guarded(t *testing.T, presents stores.Identity, version uint16, known local.Known, anchors ...*x509.Certificate) *local.Client {
	t.Helper()
	config := &tls.Config{Certificates: []tls.Certificate{server.Certificate(presents)}, MaxVersion: version}
	if len(anchors) > 0 {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		for _, anchor := range anchors {
			config.ClientCAs.AddCert(anchor)
		}
	}
	address := wiretest.Serve(t, config, func(req kmsg.Request) kmsg.Response {
		if _, ok := req.(*kmsg.ApiVersionsRequest); ok {
			return kmsg.NewPtrApiVersionsResponse()
		}
		return described(trust)(req)
	})
	c := local.NewClient(local.Server{
		Host: "127.0.0.1", NodeID: 4, Roles: []string{contract.RoleBroker}, Now: time.Now, Limit: 10 * time.Second,
		Known: func() local.Known { return known },
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestHandshakeShowsWhatAListenerHas(t *testing.T) {
	t.Parallel()
	now := time.Now()
	old, coming, strangers := agenttest.Authority(t, "ca v0", now), agenttest.Authority(t, "ca v1", now), agenttest.Authority(t, "ca v2", now)
	identity := agenttest.Leaf(t, coming, "my-cluster-kafka", now)
	cross, err := pki.CrossSign(old, coming.Certificate(), now)
	if err != nil {
		t.Fatal(err)
	}
	identity.Chain = append(identity.Chain, cross)
	both := []*x509.Certificate{old.Certificate(), coming.Certificate()}
	for name, c := range map[string]struct {
		version  uint16
		own      stores.Identity
		anchors  []*x509.Certificate
		accepted bool
	}{
		"with TLS 1.3, to a client it accepts":     {tls.VersionTLS13, identity, both, true},
		"with TLS 1.2, to a client it accepts":     {tls.VersionTLS12, identity, both, true},
		"with TLS 1.3, to a client it refuses":     {tls.VersionTLS13, agenttest.Leaf(t, strangers, "x", now), both, false},
		"with TLS 1.2, to a client it refuses":     {tls.VersionTLS12, agenttest.Leaf(t, strangers, "x", now), both, false},
		"when it asks for no client's certificate": {tls.VersionTLS13, identity, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := guarded(t, identity, c.version, local.Known{}, c.anchors...)
			seen, err := client.Look(t.Context(), contract.ReplicationListener, server.Certificate(c.own))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(agenttest.Fingerprints(identity.Chain...), agenttest.Fingerprints(seen.Chain...)); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
			if seen.Asks != (len(c.anchors) > 0) || len(seen.Authorities) != len(c.anchors) || (seen.Refused == nil) != c.accepted {
				t.Errorf("asks = %t for %d authorities, refused %v; want %d, accepted = %t", seen.Asks, len(seen.Authorities), seen.Refused, len(c.anchors), c.accepted)
			}
		})
	}
}

func TestIdentitiesAreTriedUntilOneIsAccepted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	old, coming := agenttest.Authority(t, "ca v0", now), agenttest.Authority(t, "ca v1", now)
	before, after := agenttest.Leaf(t, old, "my-cluster-kafka", now), agenttest.Leaf(t, coming, "my-cluster-kafka", now)
	for name, c := range map[string]struct {
		leaves     []string
		identities []stores.Identity
		check      func(error) bool
	}{
		"the second is accepted":    {[]string{before.Fingerprint(), after.Fingerprint()}, []stores.Identity{before, after}, func(err error) bool { return err == nil }},
		"none is accepted":          {[]string{after.Fingerprint()}, []stores.Identity{before}, isA[*mtls.RefusedError]},
		"there is none":             {[]string{after.Fingerprint()}, nil, func(err error) bool { return err != nil }},
		"the server is not our own": {[]string{before.Fingerprint()}, []stores.Identity{before, after}, isA[*mtls.UntrustedError]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := local.Known{Leaves: c.leaves}
			for _, identity := range c.identities {
				known.Identities = append(known.Identities, server.Certificate(identity))
			}
			client := guarded(t, after, tls.VersionTLS13, known, coming.Certificate())
			if _, err := client.Settings(t.Context(), []string{trust}); !c.check(err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func isA[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

func TestListenerWithoutAPortCannotBeReached(t *testing.T) {
	t.Parallel()
	if address, err := (local.Server{Host: "127.0.0.1"}).Address("internal"); err == nil {
		t.Errorf("address %s, want an error", address)
	}
}
