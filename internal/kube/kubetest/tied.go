package kubetest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
)

// The programs of an API server, by the names under which envtest looks for them.
const (
	etcd          = "etcd"
	kubeAPIServer = "kube-apiserver"
)

// assetsVariable names the folder of the programs.
const assetsVariable = "KUBEBUILDER_ASSETS"

// programVariable names a program that is no server and runs beside one.
const programVariable = "KEYTURN_TEST_PROGRAM"

// starterVariable holds the id of the process that starts servers.
const starterVariable = "KEYTURN_TEST_STARTER"

// moreMemory is how much memory may become free before it is looked for, in percent of what
// is in use. It lets tests and servers take more of it for less of the processors' time: what
// hundreds of tests have left behind is looked through less often.
const moreMemory = 400

// Main is the TestMain of a package whose tests call Start: it runs them and returns the
// exit code. A server is started as the test program under another name, which asks to
// end with its parent, and then becomes the server: this is where it does. So is what
// calls of Run start.
func Main(run func() int) int {
	if err := becomeServer(); err != nil {
		fmt.Fprintf(os.Stderr, "%s of a test: %v\n", filepath.Base(os.Args[0]), err)
		return 1
	}
	debug.SetGCPercent(moreMemory)
	return run()
}

// becomeServer turns this process into the server that it was started as, tied to the
// process that started it. It returns when it was not started as one.
func becomeServer() error {
	name := filepath.Base(os.Args[0])
	starter, program := os.Getenv(starterVariable), os.Getenv(programVariable)
	if program == "" && (name == etcd || name == kubeAPIServer) {
		program = filepath.Join(os.Getenv(assetsVariable), name)
	}
	if starter == "" || program == "" {
		return nil
	}
	runtime.LockOSThread() // what is asked for is kept by the thread that becomes the program
	if err := endWithParent(); err != nil {
		return fmt.Errorf("tying it to the test: %w", err)
	}
	if starter != strconv.Itoa(os.Getppid()) {
		return fmt.Errorf("process %s, which started it, has ended", starter)
	}
	if err := syscall.Exec(program, append([]string{program}, os.Args[1:]...), append(os.Environ(), fmt.Sprintf("GOGC=%d", moreMemory))); err != nil {
		return fmt.Errorf("running %s: %w", program, err)
	}
	return nil
}

// tie makes a folder of programs that end with the thread that starts them.
func tie() (folder string, err error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding the test program: %w", err)
	}
	if folder, err = os.MkdirTemp("", "keyturn-servers-"); err != nil {
		return "", fmt.Errorf("making a folder for the programs of an API server: %w", err)
	}
	for _, name := range []string{etcd, kubeAPIServer} {
		if err := os.Symlink(own, filepath.Join(folder, name)); err != nil {
			return "", fmt.Errorf("naming the test program %s: %w", name, err)
		}
	}
	if err := os.Setenv(starterVariable, strconv.Itoa(os.Getpid())); err != nil {
		return "", fmt.Errorf("naming the process that starts servers: %w", err)
	}
	return folder, nil
}
