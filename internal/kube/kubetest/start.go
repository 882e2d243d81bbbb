package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout is many times what the servers take to start on a machine that has
// nothing else to do.
const startTimeout = 2 * time.Minute

// mostNested is more than any package of the repository is.
const mostNested = 10

// Shared is the TestMain of a package whose tests share an API server with these definitions: it passes the server to
// run, and returns the exit code. Each test has a Namespace of its own.
func Shared(definitions envtest.CRDInstallOptions, run func(server *envtest.Environment) int) int {
	return Main(func() int {
		ctrl.SetLogger(logr.Discard())
		server, stop, err := start(definitions)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() {
			if err := stop(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}()
		return run(server)
	})
}

// Start starts an API server with these definitions for one test, and returns the way to it. It stops when the test ends.
func Start(t testing.TB, definitions envtest.CRDInstallOptions) *rest.Config {
	t.Helper()
	server, stop, err := start(definitions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return server.Config
}

// Definitions are those that Keyturn ships.
func Definitions() envtest.CRDInstallOptions {
	return envtest.CRDInstallOptions{Paths: []string{inRepository("config", "crd")}}
}

// inRepository is a path below the nearest go.mod above the folder of the tests.
func inRepository(path ...string) string {
	root := "."
	for range mostNested {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Join("..", root)
	}
	return filepath.Join(append([]string{root}, path...)...)
}

// start starts the API server and its etcd; stop ends both.
func start(definitions envtest.CRDInstallOptions) (server *envtest.Environment, stop func() error, err error) {
	folder, err := tie()
	if err != nil {
		return nil, nil, err
	}
	environment := &envtest.Environment{
		CRDInstallOptions: definitions, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: startTimeout, ControlPlaneStopTimeout: startTimeout,
	}
	environment.CRDInstallOptions.MaxTime = startTimeout
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(folder, etcd)}
	apiServer := environment.ControlPlane.GetAPIServer()
	apiServer.Path = filepath.Join(folder, kubeAPIServer)
	configure(apiServer.Configure())
	s := servers{environment: environment, started: make(chan error), stopping: make(chan struct{}), stopped: make(chan error)}
	go s.keep()
	if err := <-s.started; err != nil {
		return nil, nil, errors.Join(fmt.Errorf("starting an API server (%s names the folder with %s and %s; make api-test sets it): %w",
			assetsVariable, kubeAPIServer, etcd, err), s.stop(folder))
	}
	environment.Config.QPS, environment.Config.Burst = -1, -1 // only the tests use this API server
	return environment, func() error { return s.stop(folder) }, nil
}

// configure leaves out what an API server does to share itself among many clients and to limit them. Each of hundreds of
// worlds may have Services with addresses.
func configure(arguments *envtest.Arguments) {
	arguments.Set("enable-priority-and-fairness", "false").
		Append("disable-admission-plugins", "LimitRanger", "ResourceQuota").
		Set("watch-cache", "false").
		Set("service-cluster-ip-range", "10.0.0.0/16")
}

// servers are an API server and its etcd.
type servers struct {
	environment *envtest.Environment
	started     chan error
	stopping    chan struct{}
	stopped     chan error
}

// keep starts the servers and stops them. They end with the thread that has started
// them, which runs nothing else and lasts until then.
func (s servers) keep() {
	runtime.LockOSThread()
	_, err := s.environment.Start()
	s.started <- err
	<-s.stopping
	s.stopped <- s.environment.Stop()
}

func (s servers) stop(folder string) error {
	close(s.stopping)
	if err := errors.Join(<-s.stopped, os.RemoveAll(folder)); err != nil {
		return fmt.Errorf("stopping the API server: %w", err)
	}
	return nil
}
