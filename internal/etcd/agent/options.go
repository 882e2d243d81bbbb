package agent

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/utils/clock"

	"github.com/keyturn/keyturn/internal/agent"
	"github.com/keyturn/keyturn/internal/agent/process"
	"github.com/keyturn/keyturn/internal/etcd/agent/contract"
	"github.com/keyturn/keyturn/internal/pki"
)

// TerminationMessage is where the kubelet reads the result of a container.
const TerminationMessage = "/dev/termination-log"

// Pauses of the agent's few loops.
const (
	// lookPause is how often mounts are looked at: a few readlinks.
	lookPause = 200 * time.Millisecond
	// eagerPause and calmPause lie between questions to etcd.
	eagerPause = 500 * time.Millisecond
	calmPause  = 10 * time.Second
	// firstRetry and lastRetry bound the pause after a request was sent.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// mountPatience is how long a kubelet may take to mount what was sent.
	mountPatience = 3 * time.Minute
	// stopGrace is how long etcd may take to stop: it moves its leadership away first.
	// The kubelet gives a pod 30 seconds.
	stopGrace = 25 * time.Second
)

// Options are where the agent finds everything. Tests give it a world of its own.
type Options struct {
	// Command is the program that is started, with its arguments.
	Command []string
	// PodName is the common name of the requests.
	PodName string
	// Key is what keys are made.
	Key pki.KeyParams
	// Annotate changes annotations of the agent's own pod.
	Annotate func(ctx context.Context, annotations map[string]string) error
	// NodeDir and PodDir are the mounted directories; RunDir is memory-backed and receives
	// keys and certificates. DataDir is that of etcd.
	NodeDir, PodDir, RunDir, DataDir string
	// ResultPath is the file that receives a result for the operator.
	ResultPath string
	// SecureAddress and ProbeAddress are listened on.
	SecureAddress, ProbeAddress string
	// HealthURL is where etcd answers /readyz and /metrics.
	HealthURL string
	// Env is etcd's environment.
	Env []string
	// Output receives etcd's log.
	Output io.Writer
	// Signals are passed on to etcd.
	Signals <-chan os.Signal
	// Wait waits for children; see process.Supervisor.
	Wait process.Waiter
	// Clock measures every pause and judges certificates.
	Clock clock.Clock
	// Log receives what the agent does. It never sees key material.
	Log *slog.Logger
}

// Defaults returns the options of an agent in a container as the operator makes it. The
// command, the pod's name, Annotate, Output, Signals, Clock and Log are the caller's to add.
func Defaults() Options {
	return Options{
		Key:           pki.DefaultLeafKey(pki.ECDSA),
		NodeDir:       agent.NodeDir,
		PodDir:        agent.PodDir,
		RunDir:        agent.RunDir,
		DataDir:       contract.DataDir,
		ResultPath:    TerminationMessage,
		SecureAddress: ":" + strconv.Itoa(agent.SecurePort),
		ProbeAddress:  ":" + strconv.Itoa(agent.ProbePort),
		HealthURL:     "http://127.0.0.1:" + strconv.Itoa(contract.MetricsPort),
		Env:           os.Environ(),
		Wait:          process.WaitForOwn(),
	}
}

// dir returns the directory of a plane in this agent's world.
func (o Options) dir(plane contract.Plane) string {
	return filepath.Join(o.RunDir, filepath.Base(plane.Dir()))
}
