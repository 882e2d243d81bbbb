package agent

import (
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/kafka/agent/contract"
	"github.com/keyturn/keyturn/internal/kafka/agent/java"
	"github.com/keyturn/keyturn/internal/kafka/agent/mount"
	"github.com/keyturn/keyturn/internal/mtls"
)

// Pauses of the agent's few loops.
const (
	// waitPause is how often mounts are looked at while the server waits for them.
	waitPause = 200 * time.Millisecond
	// watchPause is how often they are looked at afterwards: a few readlinks.
	watchPause = 250 * time.Millisecond
	// eagerPause and calmPause lie between questions to the server.
	eagerPause = 500 * time.Millisecond
	calmPause  = 10 * time.Second
	// questionLimit bounds one question. A starting server holds its answer back
	// until it has one.
	questionLimit = 15 * time.Second
	// requestLimit bounds one question of a reload, a lost answer included.
	requestLimit = 10 * time.Second
	// proofPatience is how long a server may take until it shows what it was told
	// to load; proofPause lies between two looks.
	proofPatience = 10 * time.Second
	proofPause    = 100 * time.Millisecond
	// settlePause is how long a publication must be the newest before it is loaded:
	// the next step of a rotation may follow within a second, and makes the load of
	// this one superfluous.
	settlePause = time.Second
	// turnPause is how long the reloads of two neighbours lie apart, and turns after
	// how many nodes two begin at the same time again. Trying stores costs a server
	// more of the processor than anything else it does in its life, and nodes of one
	// cluster share machines, and clients.
	turnPause = 3500 * time.Millisecond
	turns     = 3
	// checkPause is the time between checks that the server still uses its settings. Another
	// client may change them, and a controller that starts has them only when it knows the
	// quorum's leader.
	checkPause = 5 * time.Second
	// firstRetry and lastRetry bound the pause after a reload that failed.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// formatGrace is how long the format tool may take to end when asked to.
	formatGrace = 5 * time.Second
)

// Options are where the agent finds everything. Tests give it a world of its own.
type Options struct {
	// Mounts are the mounted directories.
	Mounts mount.Paths
	// RunDir receives the stores and the configuration of the server.
	RunDir string
	// KafkaHome is where Kafka is installed, JavaHome where Java is; an empty
	// JavaHome means that Java is looked for.
	KafkaHome, JavaHome string
	// Host is where the agent reaches its own server.
	Host string
	// SecureAddress and ProbeAddress are listened on.
	SecureAddress, ProbeAddress string
	// Env is the server's environment.
	Env []string
	// Output receives the server's log.
	Output io.Writer
	// Signals are passed on to the server.
	Signals <-chan os.Signal
	// Wait waits for children; see process.Supervisor.
	Wait process.Waiter
	// Dial reaches the server.
	Dial mtls.DialFunc
	// Clock measures every pause and judges certificates.
	Clock clock.Clock
	// Turn is how long the node waits before it begins a reload; see TurnOf.
	Turn func(nodeID int32) time.Duration
	// Log receives what the agent does. It never sees key material.
	Log *slog.Logger
}

// Defaults returns the options of an agent in a container as the operator makes
// it. Signals, Clock and Log are the caller's to add.
func Defaults() Options {
	return Options{
		Mounts:        mount.DefaultPaths(),
		RunDir:        agent.RunDir,
		KafkaHome:     java.DefaultHome,
		JavaHome:      os.Getenv("JAVA_HOME"),
		Host:          "127.0.0.1",
		SecureAddress: ":" + strconv.Itoa(agent.SecurePort),
		ProbeAddress:  ":" + strconv.Itoa(agent.ProbePort),
		Env:           os.Environ(),
		Output:        os.Stdout,
		Wait:          process.WaitForOwn(),
		Dial:          (&net.Dialer{}).DialContext,
		Turn:          TurnOf,
	}
}

// TurnOf lets neighbours reload one after another, without waiting for each other.
func TurnOf(nodeID int32) time.Duration {
	return settlePause + time.Duration(nodeID%turns)*turnPause
}

// relative returns a contract's path below RunDir in this agent's world.
func (o Options) relative(path string) string {
	rest, err := filepath.Rel(agent.RunDir, path)
	if err != nil {
		return path
	}
	return filepath.Join(o.RunDir, rest)
}

func (o Options) storesDir() string { return o.relative(agent.StoresDir) }

func (o Options) propertiesPath() string { return o.relative(contract.PropertiesPath) }
