package pluginreport

import (
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// Plugins returns the report of each entry of a host, in their order. policies are the names of the plugins that
// decide, by kind.
func Plugins(entries []pluginhost.Entry, policies map[string][]string) []serverreport.Plugin {
	plugins := make([]serverreport.Plugin, 0, len(entries))
	for _, entry := range entries {
		plugins = append(plugins, plugin(entry, policies))
	}
	return plugins
}

func plugin(e pluginhost.Entry, policies map[string][]string) serverreport.Plugin {
	p := serverreport.Plugin{
		Name: e.Name, Status: serverreport.NotUsed, Reason: e.Choice, Note: e.Note, File: e.Command, BuiltIn: e.BuiltIn,
		Stock:         e.Stock,
		PluginVersion: e.PluginVersion, FrameworkVersion: e.FrameworkVersion, Calls: e.Calls, Errors: e.Errors,
	}
	if e.Kind != "" {
		p.Kind, p.Version = hostapi.SplitWireKind(e.Kind)
	}
	switch {
	case e.Quarantined != "":
		p.Status, p.Reason = serverreport.Quarantined, e.Quarantined
	case e.Used:
		p.Status = serverreport.InUse
		if idle := whyIdle(e, policies); idle != "" {
			p.Status, p.Reason = serverreport.Available, idle
		}
	case p.Reason == "":
		p.Reason, p.Note = p.Note, ""
	}
	p.Process = running(e.Process)
	for _, location := range e.Locations {
		p.Locations = append(p.Locations, serverreport.Location{Name: location.Name, Process: running(location.Process)})
	}
	return p
}

// running returns a process, or nil if there is none.
func running(p process.Process) *serverreport.Process {
	if p == (process.Process{}) {
		return nil
	}
	return new(serverreport.Process(p))
}
