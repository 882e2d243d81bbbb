package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/pki"
	"github.com/keyturn/keyturn/internal/probe"
)

// Request is what a person or a test wants to be run.
type Request struct {
	// Run tells probes of one cluster apart; letters, digits and dashes.
	Run string
	// Kinds are each KIND or KIND@LISTENER.
	Kinds []string
	// Listener is that of the kinds that name none; empty takes the first fit.
	Listener string
	Identity Identification
	// Interval between records; 0 takes the probe's own.
	Interval time.Duration
	// Keep leaves the topics behind.
	Keep  bool
	Clock clock.WithTicker
}

// Identification says where clients get their identity from. What is empty is
// made for the time of the probe.
type Identification struct {
	CertificateFile string
	KeyFile         string
	// Secret of a user: user.crt and user.key, or password.
	Secret string
}

// Options turns a request into the options of a probe. Evidence and preparation
// as operator are taken where the rights allow it.
func (t *Target) Options(ctx context.Context, request Request) (probe.Options, error) {
	options := probe.Options{
		Run: request.Run, Network: t.network, KeepTopics: request.Keep,
		Interval: request.Interval, Clock: request.Clock,
	}
	wanted, err := t.wanted(request)
	if err != nil {
		return options, err
	}
	// Without the right to read the operator's Secret the first client prepares.
	if operator, err := t.Operator(); err == nil {
		options.Admin = operator
		options.Evidence = t.Evidence(*operator, wanted[0].listener)
	}
	means, err := t.means(ctx, request, wanted, &options)
	if err != nil {
		return options, err
	}
	for _, want := range wanted {
		client, err := t.Client(ctx, want.kind, want.listener, own(want.listener, means, options.Admin))
		if err != nil {
			return options, err
		}
		options.Clients = append(options.Clients, client)
	}
	return options, nil
}

// own gives clients of the cluster's own listeners the operator's identity, because no other is accepted
// there.
func own(listener probe.Listener, means Means, operator *probe.Identity) Means {
	if operator != nil && (listener.Name == Replication || listener.Name == ControlPlane) {
		means.Credential, means.Reissued = operator.Credential, nil
	}
	return means
}

// want is one kind on one listener.
type want struct {
	kind     string
	listener probe.Listener
}

func (t *Target) wanted(request Request) ([]want, error) {
	if len(request.Kinds) == 0 {
		return nil, errors.New("no kind of client was asked for")
	}
	wanted := make([]want, 0, len(request.Kinds))
	for _, text := range request.Kinds {
		kind, name, named := strings.Cut(text, "@")
		if !named {
			name = request.Listener
		}
		listener, err := t.listenerFor(kind, name)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, want{kind: kind, listener: listener})
	}
	return wanted, nil
}

func (t *Target) listenerFor(kind, name string) (probe.Listener, error) {
	if name == "" {
		return t.Fitting(kind)
	}
	return t.Listener(name)
}

// loginUser is the one SCRAM user of all probes of a cluster: users are not
// deleted afterwards, so each run must not leave another one behind.
const loginUser = "keyturn-probe"

// means finds or makes the identities that the listeners want.
func (t *Target) means(ctx context.Context, request Request, wanted []want, options *probe.Options) (Means, error) {
	var means Means
	user := "keyturn-probe-" + request.Run
	if wants(wanted, probe.AuthTLS) {
		if err := t.certificates(ctx, request, wanted, user, &means); err != nil {
			return means, err
		}
		if request.Identity.minted() {
			options.Grants = append(options.Grants, "CN="+user)
		}
	}
	if wants(wanted, probe.AuthSCRAM) {
		login, err := t.login(ctx, request, loginUser)
		if err != nil {
			return means, err
		}
		means.Login = &login
		if request.Identity.Secret == "" {
			options.Logins = append(options.Logins, login)
			options.Grants = append(options.Grants, login.User)
		}
	}
	if wants(wanted, probe.AuthNone) && options.Admin != nil {
		options.Grants = append(options.Grants, "ANONYMOUS")
	}
	return means, nil
}

func wants(wanted []want, auth probe.Auth) bool {
	for _, want := range wanted {
		if want.listener.Auth == auth {
			return true
		}
	}
	return false
}

// minted says that no certificate was given.
func (i Identification) minted() bool { return i.Secret == "" && i.CertificateFile == "" }

// certificates are one to keep, and one that follows its authority if a client
// wants that. What was given is for both.
func (t *Target) certificates(ctx context.Context, request Request, wanted []want, user string, means *Means) error {
	var err error
	if means.Credential, err = t.credential(ctx, request, user); err != nil {
		return err
	}
	if request.Identity.minted() && wantsReissued(wanted) {
		means.Reissued, err = t.Remint(ctx, user, request.Clock)
	}
	return err
}

// credential comes from files, a Secret, or the clients CA, in this order.
func (t *Target) credential(ctx context.Context, request Request, user string) (probe.Credential, error) {
	identity := request.Identity
	switch {
	case identity.CertificateFile != "":
		chain, err := os.ReadFile(identity.CertificateFile)
		if err != nil {
			return nil, fmt.Errorf("reading client certificate: %w", err)
		}
		key, err := os.ReadFile(identity.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading key of client certificate: %w", err)
		}
		return probe.Present(chain, key)
	case identity.Secret != "":
		source, err := t.Secret(identity.Secret)
		if err != nil {
			return nil, err
		}
		return probe.PresentFrom(source, "user.crt", "user.key"), nil
	default:
		return t.Mint(ctx, user, request.Clock.Now())
	}
}

// wantsReissued: a certificate that follows its authority takes one more right.
func wantsReissued(wanted []want) bool {
	for _, want := range wanted {
		if want.kind == probe.KindReissued && want.listener.Auth == probe.AuthTLS {
			return true
		}
	}
	return false
}

// login takes a user's password from its Secret, which has the user's name.
func (t *Target) login(ctx context.Context, request Request, user string) (probe.Login, error) {
	if request.Identity.Secret != "" {
		password, err := t.read(ctx, request.Identity.Secret, "password")
		return probe.Login{User: request.Identity.Secret, Password: string(password)}, err
	}
	password, err := pki.NewPassword()
	if err != nil {
		return probe.Login{}, fmt.Errorf("making password of %s: %w", user, err)
	}
	return probe.Login{User: user, Password: password}, nil
}
