package framework

import (
	"time"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

// Registration is one thing that a process declares: an implementation under a name, which the Register function of a
// kind's package returns, or what WithVersion returns. Serve takes registrations.
type Registration glue.Registration

// Kind returns the kind's name on the wire, "BackupItemAction"; empty for a registration that is not an implementation.
func (r Registration) Kind() string { return glue.Registration(r).Kind() }

// Name returns the implementation's name, "example.io/stamp"; empty for a registration that is not an implementation.
func (r Registration) Name() string { return glue.Registration(r).Name() }

// Option changes how an implementation is registered; see WithConfig.
type Option glue.Option

// WithOperationTimeout declares how long an operation of the action may take, from its start to its end; at least a
// second. The server then cancels it. What the user configures for the action, or for all, comes first, and the
// itemOperationTimeout of a Backup or Restore may end the operation earlier. It is for the kinds whose actions start
// operations.
func WithOperationTimeout(longest time.Duration) Option {
	return Option(glue.OperationTimeout(longest))
}

// WithStallTimeout declares how long an operation of the action may go on without progress: none of the numbers, the
// units and the description changes. It is less than that of WithOperationTimeout, and otherwise alike.
func WithStallTimeout(longest time.Duration) Option { return Option(glue.StallTimeout(longest)) }

// WithProcessPerRun returns a registration that declares that implementations keep state of one run in memory. The host
// then starts a process for each backup, restore or deletion, and for calls outside of one, and ends it with them.
// Without it runs share a process, also at once, so no call may depend on the calls of another run. Pass it to Serve.
func WithProcessPerRun() Registration { return Registration(glue.ProcessPerRun()) }

// WithVersion returns a registration that declares the plugin's version, in the author's own style. Without it the
// version is that of the binary's main module, if the binary was built from a version. Pass it to Serve once.
func WithVersion(version string) Registration { return Registration(glue.Version(version)) }
