package openssl

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/keyturn/keyturn/internal/probe"
	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// Dial opens a TCP connection to an advertised "host:port".
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Identity is a certificate with its key, in PEM.
type Identity struct {
	Chain []byte
	Key   []byte
}

// Client is an OpenSSL client that trusts the same for ever. It is safe for
// concurrent use.
type Client struct {
	program string
	dial    Dial
	options []string
}

// Options say what a client trusts and presents.
type Options struct {
	// Folder takes the files that the program reads; it is the caller's to remove.
	Folder string
	// Name of the client, unique in the folder.
	Name string
	// Dial is the way to the brokers.
	Dial Dial
	// Authorities are all that is trusted, in PEM; intermediates are not roots.
	Authorities []byte
	// Identity is presented where a listener wants one; nil presents nothing.
	Identity *Identity
	// Version bounds the protocol: with TLS 1.2 a server that refuses a
	// certificate says so within the handshake.
	Version Version
}

// Version of the protocol.
type Version string

// The versions; AnyVersion is what both sides know best.
const (
	AnyVersion Version = ""
	TLS12      Version = "-tls1_2"
)

// New writes the files of a client.
func New(o Options) (*Client, error) {
	program, err := exec.LookPath("openssl")
	if err != nil {
		return nil, fmt.Errorf("finding openssl, which the watchers need (Debian: apt install openssl): %w", err)
	}
	authorities, err := o.write("authorities.crt", o.Authorities)
	if err != nil {
		return nil, err
	}
	// Nothing but the given authorities is trusted, and any doubt ends the handshake.
	c := &Client{program: program, dial: o.Dial, options: []string{
		"-quiet", "-verify_quiet", "-verify_return_error", "-no-CApath", "-no-CAstore", "-CAfile", authorities,
	}}
	if o.Version != AnyVersion {
		c.options = append(c.options, string(o.Version))
	}
	if o.Identity == nil {
		return c, nil
	}
	chain, err := o.write("own.crt", o.Identity.Chain)
	if err != nil {
		return nil, err
	}
	key, err := o.write("own.key", o.Identity.Key)
	if err != nil {
		return nil, err
	}
	c.options = append(c.options, "-cert", chain, "-cert_chain", chain, "-key", key)
	return c, nil
}

func (o Options) write(what string, data []byte) (string, error) {
	path := filepath.Join(o.Folder, o.Name+"-"+what)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("writing what openssl client %s needs: %w", o.Name, err)
	}
	return path, nil
}

// Connect opens a fresh connection to an advertised "host:port", completes a
// request on it and ends it. Package verdict judges its error.
func (c *Client) Connect(ctx context.Context, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("reading address %q: %w", address, err)
	}
	raw, err := c.dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	door, err := openRelay(ctx, raw)
	if err != nil {
		return err
	}
	defer door.close()
	return c.run(ctx, host, door.address())
}

// modest is the nice value of openssl's processes. There are dozens of them, and the
// clients whose gaps are measured share the machine with them.
const modest = 10

// giveWay makes a process a modest one, whatever this process is; it leads a session,
// and a kernel that groups processes by session asks for the nice value of the group as
// well. Where neither is possible, the process only disturbs more.
func giveWay(process int) {
	_ = unix.SchedSetAttr(process, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: modest}, 0)
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", process), []byte(strconv.Itoa(modest)), 0)
}

// killed is how long a process gets to end after it was killed.
const killed = time.Second

func (c *Client) run(ctx context.Context, host, address string) error {
	arguments := append([]string{"s_client", "-connect", address, "-servername", host, "-verify_hostname", host}, c.options...)
	process := exec.CommandContext(ctx, c.program, arguments...)
	process.WaitDelay = killed
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var said bytes.Buffer
	process.Stderr = &said
	in, err := process.StdinPipe()
	if err != nil {
		return fmt.Errorf("running openssl: %w", err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return fmt.Errorf("running openssl: %w", err)
	}
	if err := process.Start(); err != nil {
		return fmt.Errorf("running openssl: %w", err)
	}
	giveWay(process.Process.Pid)
	asked := probe.Ask(pipes{Reader: out, Writer: in})
	if asked == nil {
		_ = process.Process.Kill() // the answer is all that was wanted
		_ = process.Wait()         // it was killed
		return nil
	}
	_, _ = io.Copy(io.Discard, out) // until it has said why
	_ = process.Wait()              // its exit code says less than its words
	if ctx.Err() != nil {
		return &verdict.Error{Verdict: verdict.Unreachable, Reason: verdict.TimedOut, Detail: firstLine(said.String())}
	}
	return judge(said.String())
}

// pipes are a process as a connection.
type pipes struct {
	io.Reader
	io.Writer
}
