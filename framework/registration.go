package framework

import "github.com/cleat-dev/cleat/framework/internal/glue"

// Registration is one thing that a process declares: an implementation under a name, which the Register function of a
// kind's package returns, or what WithVersion returns. Serve takes registrations.
type Registration glue.Registration

// Kind returns the kind's name on the wire, "BackupItemAction"; empty for a registration that is not an implementation.
func (r Registration) Kind() string { return glue.Registration(r).Kind() }

// Name returns the implementation's name, "example.io/stamp"; empty for a registration that is not an implementation.
func (r Registration) Name() string { return glue.Registration(r).Name() }

// Option changes how an implementation is registered; see WithConfig.
type Option glue.Option

// WithVersion returns a registration that declares the plugin's version, in the author's own style. Without it the
// version is that of the binary's main module, if the binary was built from a version. Pass it to Serve once.
func WithVersion(version string) Registration { return Registration(glue.Version(version)) }
