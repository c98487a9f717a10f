//go:build unix

package console

import (
	"os/signal"
	"syscall"
)

// stayInBackground has a read of the terminal fail, rather than stop the process, when the shell has the process in the
// background.
func stayInBackground() { signal.Ignore(syscall.SIGTTIN) }
