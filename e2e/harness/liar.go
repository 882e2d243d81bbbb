package harness

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/reach"
	"github.com/keyturn/keyturn/internal/probe/target"
	"github.com/keyturn/keyturn/internal/publication"
)

// Liar answers in the place of a node's agent. It stands in the network of the pod,
// has the certificate that the node has, passes questions on to the agent, and changes
// what that says of its server.
type Liar struct {
	kafka    Kafka
	pod      string
	network  podNetwork
	operator *probe.Identity
	lie      func(*publication.Report)
	server   *http.Server
}

// StartLiar puts a liar into the place of a node's agent, on the bed. Kafka, and what
// the kubelet asks, are left alone.
func (k Kafka) StartLiar(ctx context.Context, opened *target.Target, name string, lie func(*publication.Report)) (*Liar, error) {
	pod := &corev1.Pod{}
	if err := k.Kube.Get(ctx, k.Key(name), pod); err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", name, err)
	}
	network, err := networkOf(pod.UID)
	if err != nil {
		return nil, fmt.Errorf("finding the network of pod %s: %w", name, err)
	}
	operator, err := opened.Operator()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(opened.Network().Nodes(), func(n reach.Node) bool { return n.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("pod %s is no node of Kafka %s", name, k.Name)
	}
	liar := &Liar{kafka: k, pod: name, network: network, operator: operator, lie: lie}
	if err := liar.start(ctx, opened.Network().Nodes()[i].Host); err != nil {
		return nil, fmt.Errorf("answering for the agent of %s: %w", name, errors.Join(err, network.Close()))
	}
	return liar, nil
}

// start answers on a port of its own, to which the pod's network leads who comes for
// the agent.
func (l *Liar) start(ctx context.Context, host string) error {
	listener, err := l.network.listen(ctx)
	if err != nil {
		return err
	}
	target := &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(agent.SecurePort))}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = l.change
	proxy.Transport = &http.Transport{
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return l.operator.Connect(ctx, l.network, address)
		},
		DisableKeepAlives: true,
	}
	l.server = &http.Server{
		Handler: proxy, ReadHeaderTimeout: adminTimeout, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	secure := tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return l.identity(ctx) },
	})
	go func() { _ = l.server.Serve(secure) }() // until End
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	return l.network.lead(ctx, port)
}

// identity is what the node's Secret holds at this moment.
func (l *Liar) identity(ctx context.Context) (*tls.Certificate, error) {
	secret := &corev1.Secret{}
	if err := l.kafka.Kube.Get(ctx, l.kafka.Key(l.pod), secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", l.pod, err)
	}
	certificate, err := tls.X509KeyPair(secret.Data[l.pod+".crt"], secret.Data[l.pod+".key"])
	return &certificate, err
}

// change lies where the operator is told what a server has loaded.
func (l *Liar) change(response *http.Response) error {
	if response.Request.URL.Path != agent.TLSPath || response.StatusCode != http.StatusOK {
		return nil
	}
	var report publication.Report
	err := json.NewDecoder(response.Body).Decode(&report)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("reading what the agent says: %w", err)
	}
	l.lie(&report)
	body, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("encoding a lie: %w", err)
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// End lets the agent answer itself again.
func (l *Liar) End(ctx context.Context) error {
	return errors.Join(l.network.leadNoMore(ctx), l.server.Close(), l.network.Close())
}

// ClaimsOwnCA is the lie that every listener and client of the server presents a
// certificate of a CA that nobody was given, and trusts that alone.
func ClaimsOwnCA(ca pki.Authority, leaf *x509.Certificate) func(*publication.Report) {
	trusts, presents := pki.FingerprintOf(ca.Certificate()).String(), pki.FingerprintOf(leaf).String()
	return func(report *publication.Report) {
		report.Certificates[trusts], report.Certificates[presents] = ca.Certificate().Raw, leaf.Raw
		for role, said := range report.Roles {
			said.Trusts, said.Presents, said.Chain = []string{trusts}, presents, nil
			report.Roles[role] = said
		}
	}
}

// podNetwork is the network of a pod on this machine.
type podNetwork struct{ namespace *os.File }

// networkOf finds it by a process of the pod.
func networkOf(pod types.UID) (podNetwork, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return podNetwork{}, fmt.Errorf("listing processes: %w", err)
	}
	for _, group := range groups {
		data, err := os.ReadFile(group)
		if err != nil || !strings.Contains(string(data), "/pod"+string(pod)+"/") {
			continue // a process that has ended meanwhile, or another one
		}
		namespace, err := os.Open(filepath.Join(filepath.Dir(group), "ns", "net"))
		return podNetwork{namespace}, err
	}
	return podNetwork{}, errNoProcess
}

// Close forgets the network.
func (n podNetwork) Close() error { return n.namespace.Close() }

// do does something on a thread that is in the network. The thread is given up: nobody
// else must ever work on it.
func (n podNetwork) do(what func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(int(n.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("entering the network of a pod: %w", err)
			return
		}
		done <- what()
	}()
	return <-done
}

// listen takes a free port on all addresses of the pod.
func (n podNetwork) listen(ctx context.Context) (listener net.Listener, err error) {
	err = n.do(func() error {
		var config net.ListenConfig
		listener, err = config.Listen(ctx, "tcp", ":0")
		return err
	})
	return listener, err
}

// Nodes implements probe.Network: whoever is in here knows where to go.
func (n podNetwork) Nodes() []reach.Node { return nil }

// Dial connects to a port of the pod, from inside, whatever the host is called.
func (n podNetwork) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("reading address %q: %w", address, err)
	}
	err = n.do(func() error {
		var dialer net.Dialer
		conn, err = dialer.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		return err
	})
	return conn, err
}

// liarTable is what StartLiar adds to the rules of a pod's network.
const liarTable = "keyturn-liar"

// lead leads who comes from outside for the agent to another port.
func (n podNetwork) lead(ctx context.Context, port string) error {
	return n.nft(ctx, fmt.Sprintf(`table ip %s {
	chain arriving {
		type nat hook prerouting priority dstnat;
		iifname != "lo" tcp dport %d redirect to :%s
	}
}
`, liarTable, agent.SecurePort, port))
}

func (n podNetwork) leadNoMore(ctx context.Context) error {
	return n.nft(ctx, "delete table ip "+liarTable+"\n")
}

func (n podNetwork) nft(ctx context.Context, rules string) error {
	return n.do(func() error {
		command := exec.CommandContext(ctx, "nft", "-f", "-")
		command.Stdin = strings.NewReader(rules)
		if said, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("changing the rules of a pod's network: %w\n%s", err, said)
		}
		return nil
	})
}
