package command

import (
	"errors"
	"io"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/app"
)

// App holds what all commands share.
type App struct {
	Streams
	Version string
	Args    []string // of the process, without its name
	Cluster ClusterFlags
}

// Streams are the outputs of the commands.
type Streams struct {
	Out io.Writer // results
	Err io.Writer // progress and notes
}

// ErrQuiet ends the process with a failure that has been printed already.
var ErrQuiet = errors.New("")

// IsQuiet reports whether err needs no message.
func IsQuiet(err error) bool { return errors.Is(err, ErrQuiet) }

// BuiltIns returns the built-in plugins. They use the cluster and the namespace that the flags name.
func (a *App) BuiltIns() []framework.Registration {
	return app.BuiltIns(a.Cluster.RestConfig, a.Cluster.NamespaceOrDefault)
}
