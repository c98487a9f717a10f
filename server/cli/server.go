package cli

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/plugins/itemactions"
	"github.com/cleat-dev/cleat/server/config"
	"github.com/cleat-dev/cleat/server/controller"
)

func (a *App) serverCommand() *cobra.Command {
	options := config.Defaults()
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the server",
		Long: "Run the server: it works on the Backups, Restores and other custom resources of one namespace,\n" +
			"with the built-in plugins and those in --plugin-dir.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.Complete(); err != nil {
				return err
			}
			log := newLog(a, options)
			for _, warning := range config.Warnings(cmd.Flags()) {
				log.Warn(warning)
			}
			rest, err := a.cluster.restConfig()
			if err != nil {
				return err
			}
			rest.QPS, rest.Burst = options.ClientQPS, options.ClientBurst
			namespace, err := a.cluster.namespaceOrDefault()
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the path of this binary: %w", err)
			}
			limitGarbage()
			return controller.Serve(cmd.Context(), controller.ServerConfig{
				REST: rest, Namespace: namespace, Options: options, Version: a.Version,
				BuiltIns: a.builtIns(), Self: self, PluginArgs: a.pluginArgs(), Log: log,
			})
		},
	}
	options.AddFlags(cmd.Flags())
	return cmd
}

// limitGarbage trades a little time for memory that stays low, unless GOGC says what to do: most of what a backup
// allocates is short-lived.
func limitGarbage() {
	const percent = 50 // of what is in use; Go's default is 100
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// builtIns are the built-in plugins, which ask the cluster that the flags name.
func (a *App) builtIns() []framework.Registration {
	return plugins.All(itemactions.WithConfig(a.cluster.restConfig))
}

// pluginArgs is what plugins are given: the server's own arguments without its name.
func (a *App) pluginArgs() []string {
	args := slices.Clone(a.Args)
	if i := slices.Index(args, "server"); i >= 0 {
		args = slices.Delete(args, i, i+1)
	}
	return args
}

// newLog is the server's log. The libraries below write to it as well.
func newLog(a *App, options config.Options) hclog.Logger {
	level := hclog.LevelFromString(options.LogLevel)
	switch strings.ToLower(options.LogLevel) {
	case "warning":
		level = hclog.Warn
	case "fatal", "panic":
		level = hclog.Error
	}
	log := hclog.New(&hclog.LoggerOptions{Level: level, Output: a.Err, JSONFormat: options.LogFormat == "json"})
	ctrl.SetLogger(controller.NewLogr(log.Named("controller-runtime")))
	klog.SetLogger(controller.NewLogr(log.Named("client-go")))
	return log
}
