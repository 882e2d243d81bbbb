package kubetest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
)

// Run starts a program beside an API server, and writes what it says to output. It ends with the process that started
// it, however that ends; stop ends it before, and returns after its end.
func Run(output io.Writer, program string, arguments ...string) (stop func(), err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the test program: %w", err)
	}
	command := exec.Command(own, arguments...)
	command.Env = append(os.Environ(), programVariable+"="+program, starterVariable+"="+strconv.Itoa(os.Getpid()))
	command.Stdout, command.Stderr = output, output
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the program ends with this thread, which is kept until then
		defer close(ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	return func() {
		_ = command.Process.Kill() // it may have ended
		<-ended
	}, nil
}
