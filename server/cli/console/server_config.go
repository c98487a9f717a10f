package console

import (
	"context"

	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// serverConfig is the configuration file of the server.
type serverConfig struct {
	File    *config.File // nil with a problem
	From    string       // where it is
	Problem string       // a sentence
}

// askConfig returns the configuration of the server as the viewer may read it, and false if it is not there yet.
func askConfig(l *console.Look) (*serverConfig, bool) {
	cluster := clusterOf(l)
	return console.Ask(l, "config", askAgain, func(ctx context.Context) *serverConfig {
		file, from, err := cluster.ServerConfig(ctx)
		if err != nil {
			return &serverConfig{Problem: layout.OneLine(err.Error())}
		}
		return &serverConfig{File: file, From: from}
	})
}
