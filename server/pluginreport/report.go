package pluginreport

import (
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/pluginhost"
	"github.com/cleat-dev/cleat/server/pluginhost/process"
	"github.com/cleat-dev/cleat/server/status/serverreport"
)

// Plugins returns the report of each entry of a host, in their order.
func Plugins(entries []pluginhost.Entry) []serverreport.Plugin {
	plugins := make([]serverreport.Plugin, 0, len(entries))
	for _, entry := range entries {
		plugins = append(plugins, plugin(entry))
	}
	return plugins
}

func plugin(e pluginhost.Entry) serverreport.Plugin {
	p := serverreport.Plugin{
		Name: e.Name, Status: serverreport.NotUsed, Reason: e.Choice, Note: e.Note, File: e.Command, BuiltIn: e.BuiltIn, Stock: e.Stock,
		PluginVersion: e.PluginVersion, FrameworkVersion: e.FrameworkVersion,
	}
	if e.Kind != "" {
		p.Kind, p.Version = hostapi.SplitWireKind(e.Kind)
	}
	switch {
	case e.Quarantined != "":
		p.Status, p.Reason = serverreport.Quarantined, e.Quarantined
	case e.Used:
		p.Status = serverreport.InUse
	case p.Reason == "":
		p.Reason, p.Note = p.Note, ""
	}
	if e.Process != (process.Process{}) {
		process := serverreport.Process(e.Process)
		p.Process = &process
	}
	return p
}
