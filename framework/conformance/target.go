package conformance

import (
	"path/filepath"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
)

// Target is a plugin to be tested. See Binary and InProcess.
type Target interface {
	// String describes the target.
	String() string
	// unwrap returns the target as it is run.
	unwrap() suite.Target
}

// target is the only implementation of Target.
type target struct{ suite.Target }

func (t target) unwrap() suite.Target { return t.Target }

// Binary returns the executable at path as a target. It is started with args many times, and killed.
func Binary(path string, args ...string) Target {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return target{&suite.Binary{Path: path, Args: args}}
}

// InProcess returns a target that serves regs in the process of the test. Rules about the process are skipped. A panic
// in a goroutine of the plugin ends the test.
func InProcess(regs ...framework.Registration) Target {
	return target{&suite.InProcess{Registrations: regs}}
}
