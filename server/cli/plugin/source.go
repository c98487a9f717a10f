package plugin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugindir"
	"github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/cli/status/pluginstatus"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// pluginFlags select the plugins of a running server or of a directory.
type pluginFlags struct {
	directory plugindir.Flags
	timeout   time.Duration

	policies *serverreport.PolicyReport // of the server; nil if no server was asked or it makes no report
	// configured is what the plugins of "plugin info" were configured with; nil for a file.
	configured *pluginstatus.Configured
}

func (f *pluginFlags) add(cmd *cobra.Command) {
	f.directory.Add(cmd, "inspect the plugins in this directory, without a server; empty asks the running server")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait for the server")
}

// report returns the report of all plugins. If only is not empty, it returns the plugins that only refers to, with
// details.
func (f *pluginFlags) report(cmd *cobra.Command, a *command.App, only string) (*serverreport.PluginReport, error) {
	ctx := cmd.Context()
	if err := f.directory.Complete(cmd); err != nil {
		return nil, err
	}
	if f.directory.Path == "" {
		answer, err := askForPlugins(ctx, a, f.timeout, only)
		if err != nil {
			return nil, err
		}
		if f.policies, err = queue.PoliciesOf(answer); err != nil {
			return nil, err
		}
		return pluginsOf(a, answer, only)
	}
	lock, err := f.directory.ReadLock()
	if err != nil {
		return nil, err
	}
	source, err := f.directory.Open(ctx, a, lock)
	if err != nil {
		return nil, err
	}
	defer source.Host.Close()
	report := source.Report()
	if only != "" {
		report = source.Detailed(ctx, only)
	}
	return withoutProcesses(report), nil
}

// withoutProcesses removes the processes, which end with this command.
func withoutProcesses(r *serverreport.PluginReport) *serverreport.PluginReport {
	for i := range r.Plugins {
		r.Plugins[i].Process = nil
		r.Plugins[i].Locations = nil
	}
	return r
}

// askForPlugins asks the running server.
func askForPlugins(
	ctx context.Context, a *command.App, timeout time.Duration, only string,
) (*velerov1.ServerStatusRequest, error) {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return nil, fmt.Errorf("%w; to inspect a directory instead, use --plugin-dir", err)
	}
	annotations := map[string]string{}
	if only != "" {
		annotations[serverreport.PluginDetailsAnnotation] = only
	}
	answer, err := cluster.ServerStatus(ctx, timeout, annotations)
	if err != nil {
		return nil, fmt.Errorf("ask the server for its plugins: %w", err)
	}
	return answer, nil
}

// pluginsOf returns the report in an answer. It prints a note if the server is Velero's, which reports less.
func pluginsOf(a *command.App, answer *velerov1.ServerStatusRequest, only string) (*serverreport.PluginReport, error) {
	report, err := ReportOf(answer)
	if err != nil {
		return nil, err
	}
	if _, complete := answer.Annotations[serverreport.PluginsAnnotation]; !complete {
		fmt.Fprintf(a.Err, "The server (%s) reports only names and kinds of its plugins: it is Velero's, or an older cleat. "+
			"Files, versions in use and what is quarantined are in its log.\n",
			strings.TrimSpace(layout.Printable(answer.Status.ServerVersion)))
	}
	if report.Omitted > 0 {
		fmt.Fprintf(a.Err, "%s more did not fit into the server's answer; ask for one with \"cleat plugin info NAME\".\n",
			layout.Count(report.Omitted, "plugin"))
	}
	if only != "" {
		report = report.Only(only)
	}
	return report, nil
}

// ReportOf returns the report in an answer, or makes one from the answer of a server of Velero.
func ReportOf(answer *velerov1.ServerStatusRequest) (*serverreport.PluginReport, error) {
	if text, complete := answer.Annotations[serverreport.PluginsAnnotation]; complete {
		return serverreport.DecodePlugins(text)
	}
	report := &serverreport.PluginReport{}
	for _, info := range answer.Status.Plugins {
		kind, version := hostapi.SplitWireKind(info.Kind)
		report.Plugins = append(report.Plugins, serverreport.Plugin{
			Name: info.Name, Kind: kind, Version: version, Status: serverreport.Unknown,
		})
	}
	return report, nil
}
