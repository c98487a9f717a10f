package run

import (
	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/pluginhost"
)

// LogOptions are the settings for the logs of runs.
type LogOptions struct {
	Dir  string // for temporary files; empty means that of the system
	JSON bool
}

// Plugins opens the session of a run, with its view of the plugins.
type Plugins interface {
	Session(log hclog.Logger) *pluginhost.Session
}
