package framework

import (
	"fmt"
	"log/slog"
	"reflect"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

// Setup is the input of the constructor of an implementation. It stays valid for the life of the process.
//
// A constructor is called when a call first needs the implementation, and again for each other configuration. It is
// never called twice at a time for one name. If it fails, the call that needed it fails with its error, and the next
// call tries again. Its context ends with that call: keep nothing that depends on it. What it returns serves all later
// calls, which come concurrently. An implementation that is an io.Closer is closed when another configuration has
// replaced it and its last call has ended; it is not closed when the process ends, which can be at any moment.
type Setup glue.Setup

// Name returns the name under which the implementation is registered, "example.io/stamp".
func (s *Setup) Name() string { return s.setup().Name() }

// Logger returns a logger for what belongs to the process and to no call. The host writes its lines to the logs of all
// runs that the process serves at the time. Within a call use Log.
func (s *Setup) Logger() hclog.Logger { return s.setup().Logger() }

// Slog returns Logger for code that uses log/slog.
func (s *Setup) Slog() *slog.Logger { return s.setup().Slog() }

// Features returns the feature flags that the host runs with, for instance "EnableCSI".
func (s *Setup) Features() []string { return s.setup().Features() }

// FeatureEnabled reports whether the host runs with a feature flag. Names are case-sensitive.
func (s *Setup) FeatureEnabled(name string) bool { return s.setup().FeatureEnabled(name) }

// StateDir returns a directory for the state of this implementation, creating it if necessary. Only the user that the
// process runs as can read it. Its content outlives the process, but not the host's pod, unless the operator has
// mounted a volume there. All processes and kinds that use the same name share it. StateDir returns an
// error for a name that is not "domain/name" or whose second part is a path, like "example.io/..".
func (s *Setup) StateDir() (string, error) { return s.setup().StateDir() }

func (s *Setup) setup() *glue.Setup { return (*glue.Setup)(s) }

// Config returns the configuration of the implementation, of the type that WithConfig was given. It panics if that was
// another type, or if the implementation was registered without WithConfig: a mistake in the program.
func Config[T any](setup *Setup) T {
	config, ok := setup.setup().Config().(T)
	if !ok {
		panic(fmt.Sprintf("the configuration of %s is a %T, not a %s: give WithConfig and Config the same type",
			setup.Name(), setup.setup().Config(), reflect.TypeFor[T]()))
	}
	return config
}
