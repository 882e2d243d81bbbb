package kubetest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout is many times what the servers take to start on a machine that has
// nothing else to do.
const startTimeout = 2 * time.Minute

// Start starts the API server of the environment and its etcd, and installs what the
// environment names. Afterwards its Config is the way to it; stop ends both servers.
func Start(environment *envtest.Environment) (stop func() error, err error) {
	folder, err := tie()
	if err != nil {
		return nil, err
	}
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(folder, etcd)}
	server := environment.ControlPlane.GetAPIServer()
	server.Path = filepath.Join(folder, kubeAPIServer)
	spare(server.Configure())
	environment.ControlPlaneStartTimeout, environment.ControlPlaneStopTimeout = startTimeout, startTimeout
	environment.CRDInstallOptions.MaxTime = startTimeout
	s := servers{environment: environment, started: make(chan error), stopping: make(chan struct{}), stopped: make(chan error)}
	go s.keep()
	if err := <-s.started; err != nil {
		return nil, errors.Join(fmt.Errorf("starting an API server (%s names the folder with %s and %s; make api-test sets it): %w",
			assetsVariable, kubeAPIServer, etcd, err), s.stop(folder))
	}
	return func() error { return s.stop(folder) }, nil
}

// spare leaves out what an API server does for many clients and for people who limit
// them: here it has one client, and nobody sets limits.
func spare(arguments *envtest.Arguments) {
	arguments.Set("enable-priority-and-fairness", "false").
		Append("disable-admission-plugins", "LimitRanger", "ResourceQuota").
		Set("watch-cache", "false")
}

// servers are an API server and its etcd.
type servers struct {
	environment *envtest.Environment
	started     chan error
	stopping    chan struct{}
	stopped     chan error
}

// keep starts the servers and stops them. They end with the thread that has started
// them: it is nobody else's, and lasts until then.
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
