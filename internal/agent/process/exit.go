package process

import (
	"fmt"
	"syscall"
)

// Terminated is the exit code of a process that ended because it was asked to.
const Terminated = signalBase + int(syscall.SIGTERM)

// ExitError carries the exit code the agent's process is to end with, which is
// that of its child. The log has said already how that came.
type ExitError struct {
	Code int
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("the agent's child ended with exit code %d", e.Code)
}

// ExitCode returns the code.
func (e *ExitError) ExitCode() int { return e.Code }
