package plugin

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func newInfoCommand(a *command.App) *cobra.Command {
	var f pluginFlags
	var output string
	cmd := &cobra.Command{
		Use:   "info NAME|FILE",
		Short: "Show everything about a plugin or about a file with plugins",
		Long: "Show everything about a plugin of the running server, or with --plugin-dir of a directory: what it offers, " +
			"which\n" +
			"versions are used and why, what it applies to, what it was configured with, without secrets, the schema of its " +
			"config,\n" +
			"and what is wrong with it.\n" +
			"An existing FILE is started and inspected on its own, without a server.",
		Example: "  cleat plugin info example.io/mover\n  cleat plugin info ./mover\n  cleat plugin info --plugin-dir " +
			"./plugins example.io/mover",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := f.detailed(cmd, a, args[0])
			if err != nil {
				return err
			}
			list := pluginstatus.NewList(report, report.Plugins)
			list.Configured = f.configured
			return a.Print(output, []string{"text"}, list, func() error {
				d := layout.NewDescription(a.Out)
				pluginstatus.PrintDetails(d, report)
				if list.Configured != nil {
					list.Configured.Print(d)
				}
				return d.Err()
			})
		},
	}
	f.add(cmd)
	command.AddOutput(cmd, &output, "text")
	return cmd
}

// detailed returns the report about the file or plugin that text refers to: an existing file, if no directory is named,
// and otherwise a plugin.
func (f *pluginFlags) detailed(cmd *cobra.Command, a *command.App, text string) (*serverreport.PluginReport, error) {
	if f.directory.Path == "" && f.directory.Config == "" {
		isFile, err := pluginFileAt(text)
		if err != nil {
			return nil, err
		}
		if isFile {
			return f.ofFile(cmd, a, text)
		}
	}
	all, err := f.report(cmd, a, text)
	if err != nil {
		return nil, err
	}
	if len(all.Plugins) == 0 {
		command := "cleat plugin get"
		if f.directory.Path != "" {
			command += " --plugin-dir " + f.directory.Path
		}
		return nil, fmt.Errorf("there is no plugin %q; %q lists the existing ones", text, command)
	}
	switch {
	case f.directory.Config != "":
		f.configured = pluginstatus.NewConfigured(all, f.directory.File, f.directory.Config, nil, nil)
		return all, nil
	case f.directory.Path != "":
		return all, nil
	}
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return nil, err
	}
	f.configured = Configured(cmd.Context(), cluster, all)
	return all, nil
}

// pluginFileAt reports whether text is the path of a plugin file on this machine. Otherwise it may be the name of a
// plugin, or a path in the server's directory, unless it begins with a dot.
func pluginFileAt(text string) (bool, error) {
	info, err := os.Stat(text)
	switch here := strings.HasPrefix(text, "."); {
	case err != nil && here:
		return false, err
	case err != nil, info.IsDir() && !here:
		return false, nil
	case info.IsDir():
		return false, fmt.Errorf("%s is a directory; \"cleat plugin get --plugin-dir %s\" lists its plugins", text, text)
	}
	err = plugindir.CheckExecutable(text)
	return err == nil, err
}

// ofFile returns the report about a single file.
func (f *pluginFlags) ofFile(cmd *cobra.Command, a *command.App, path string) (*serverreport.PluginReport, error) {
	if err := f.directory.Complete(cmd); err != nil { // sets the defaults
		return nil, err
	}
	f.directory.Path, f.directory.NoBuiltIns = path, true
	source, err := f.directory.OpenFile(cmd.Context(), a)
	if err != nil {
		return nil, err
	}
	defer source.Host.Close()
	return withoutProcesses(source.Detailed(cmd.Context(), "")), nil
}
