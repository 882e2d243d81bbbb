package kubetest

import "golang.org/x/sys/unix"

// endWithParent has the kernel kill this process when the thread that started it ends.
func endWithParent() error {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}
