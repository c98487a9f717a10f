package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/app"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/takeover"
	"github.com/cleat-dev/cleat/server/internal/control/repositories"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// serverProgram returns "cleat server", with the flags of all commands.
func serverProgram() takeover.Program {
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var s serverFlags
	s.options = config.Defaults()
	s.add(flags)
	(&command.ClusterFlags{}).Add(flags)
	return takeover.Program{
		Flags: flags, Complete: s.options.Complete, Warnings: func() []string { return s.options.Warnings(flags) },
		Check: func(
			ctx context.Context, reader client.Reader, namespace string, repositories []velerov1.BackupRepository,
		) (without, wrong []string) {
			return app.CheckServer(ctx, reader, namespace, &s.options, repositories)
		},
	}
}

func newServerCommand(a *command.App) *cobra.Command {
	s := serverFlags{options: config.Defaults()}
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the server",
		Long: "Run the server: it works on the Backups, Restores and other custom resources of one namespace,\n" +
			"with the built-in plugins and those in --plugin-dir.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.check {
				return checkServer(a, cmd, &s)
			}
			return runServer(a, cmd, &s)
		},
	}
	s.add(cmd.Flags())
	cmd.Flags().StringVar(&s.maintain, repositories.Flag, "", "maintain a repository, and exit")
	cmd.Flags().Lookup(repositories.Flag).Hidden = true // for the jobs of the server
	return cmd
}

// addVerbosity adds -v and --vmodule, with which manifests of Velero choose what the Kubernetes client logs. The lines
// go to the server's log; package config has the other flags of klog.
func addVerbosity(flags *pflag.FlagSet) {
	klogs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(klogs)
	for _, name := range []string{"v", "vmodule"} {
		flags.AddGoFlag(klogs.Lookup(name))
		flags.Lookup(name).Hidden = true
	}
}

// serverFlags are the flags of the server.
type serverFlags struct {
	options config.Options
	file    string
	check   bool
	// maintain is the name of the BackupRepository to maintain; empty for a server.
	maintain string
}

func (s *serverFlags) add(flags *pflag.FlagSet) {
	s.options.AddFlags(flags)
	addVerbosity(flags)
	flags.StringVar(&s.file, "config", "", "configuration file with policies and the settings of plugins; see "+
		"examples/config/cleat.yaml")
	flags.BoolVar(&s.check, "check", false, "check the settings and the plugins that they name, without a cluster, and "+
		"exit")
}

// serverConfig returns the configuration from the flags and the configuration file, without the cluster.
func serverConfig(a *command.App, cmd *cobra.Command, flags *serverFlags) (app.Config, error) {
	file := &config.File{}
	if cmd.Flags().Changed("config") {
		read, err := config.ReadFile(flags.file)
		if err != nil {
			return app.Config{}, err
		}
		file = read
	}
	if err := errors.Join(file.Apply(cmd.Flags()), flags.options.Complete()); err != nil {
		return app.Config{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return app.Config{}, fmt.Errorf("find the path of this binary: %w", err)
	}
	return app.Config{
		Options: flags.options, File: file, Version: a.Version,
		BuiltIns: a.BuiltIns(), Self: self, PluginArgs: pluginArgs(a), Log: newLog(a, flags.options),
	}, nil
}

func runServer(a *command.App, cmd *cobra.Command, flags *serverFlags) error {
	server, err := serverConfig(a, cmd, flags)
	if err != nil {
		return err
	}
	for _, warning := range server.Options.Warnings(cmd.Flags()) {
		server.Log.Warn(warning)
	}
	if server.REST, err = a.Cluster.RestConfig(); err != nil {
		return err
	}
	server.REST.QPS, server.REST.Burst = server.Options.ClientQPS, server.Options.ClientBurst
	if server.Namespace, err = a.Cluster.NamespaceOrDefault(); err != nil {
		return err
	}
	ctrl.SetLogger(app.NewLogr(server.Log.Named("controller-runtime")))
	klog.SetLogger(app.NewLogr(server.Log.Named("client-go")))
	limitGarbage()
	if flags.maintain != "" {
		return app.MaintainRepository(cmd.Context(), server, flags.maintain)
	}
	server.Pod = ownPod()
	return app.Serve(cmd.Context(), server)
}

// checkServer returns an error if a server with these flags would not start, as far as that shows without a cluster.
func checkServer(a *command.App, cmd *cobra.Command, flags *serverFlags) error {
	if !cmd.Flags().Changed("log-level") {
		flags.options.LogLevel = "warn" // show what is wrong
	}
	server, err := serverConfig(a, cmd, flags)
	if err != nil {
		return err
	}
	host, err := app.NewHost(cmd.Context(), server, nil, nil, nil)
	if err != nil {
		return err
	}
	defer host.Close()
	if _, err := os.Stat(server.Options.PluginDir); err != nil {
		fmt.Fprintf(a.Err, "Only the built-in plugins were checked: %v\n", err)
	}
	if err := app.CheckIndispensable(host, server.File); err != nil {
		return err
	}
	for _, named := range server.File.Named() {
		fmt.Fprintf(a.Out, "%s: %s\n", named.Key, named.Policy.Plugin)
	}
	fmt.Fprintln(a.Out, "The settings are valid.")
	return nil
}

// limitGarbage trades a little time for less memory, unless GOGC is set: most allocations of a backup are short-lived.
func limitGarbage() {
	const percent = 50 // of what is in use; Go's default is 100
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// pluginArgs returns the arguments of plugins: the arguments of the server without the command's name.
func pluginArgs(a *command.App) []string {
	args := slices.Clone(a.Args)
	for _, name := range []string{"node-agent", "server"} {
		if i := slices.Index(args, name); i >= 0 {
			args = slices.Delete(args, i, i+1)
		}
	}
	return args
}

// newLog returns the server's log.
func newLog(a *command.App, options config.Options) hclog.Logger {
	level := hclog.LevelFromString(options.LogLevel)
	switch strings.ToLower(options.LogLevel) {
	case "warning":
		level = hclog.Warn
	case "fatal", "panic":
		level = hclog.Error
	}
	return hclog.New(&hclog.LoggerOptions{Level: level, Output: a.Err, JSONFormat: options.LogFormat == "json"})
}
