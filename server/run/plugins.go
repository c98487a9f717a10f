package run

import (
	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/pluginhost"
)

// LogOptions say how the logs of operations are written.
type LogOptions struct {
	Dir  string // of temporary files; empty means the system's
	JSON bool
}

// Plugins gives a running operation its view of the plugins.
type Plugins interface {
	Session(log hclog.Logger) *pluginhost.Session
}
