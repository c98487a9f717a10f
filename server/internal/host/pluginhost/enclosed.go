package pluginhost

import (
	"fmt"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
)

// Enclosed returns the plugin of a kind with the given name in a process of its own, which sees no more of the file
// system than an enclosure. The first call starts the process; end stops it. The error is the error of Named, or
// reports that the plugin has no process.
func Enclosed[H any](
	h *Host, kind versioning.Kind[H], name string, enclosure *process.Enclosure,
) (plugin H, end func(), err error) {
	chosen, err := choose(h, kind, kind.Name, name)
	if err != nil {
		return plugin, nil, err
	}
	if chosen.source.launch == nil {
		return plugin, nil, fmt.Errorf("%s %q is part of the server and runs in its process, where it cannot be shut off "+
			"from the node; "+
			"give built-in plugins a process of their own (plugins.isolateBuiltIns)", kind.Name, chosen.name)
	}
	launch := *chosen.source.launch
	launch.Plugin, launch.Enclosure = chosen.name, enclosure
	supervisor := h.pool.Supervise(&launch)
	return chosen.version.Bind(supervisor.Conn(chosen.name, nil), chosen.name), supervisor.Stop, nil
}
