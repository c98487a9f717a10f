package framework

import (
	"maps"
	"slices"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
)

// RegisterAll registers the services of all kinds in regs, PluginLister and PluginInfo on registrar. Serve does so on a
// plugin's gRPC server; a host does so on a registrar of its own to run the same implementations in its own
// process. Each handler gets log with the key "plugin" set to its name.
//
// The error names every registration that is wrong; nothing is registered then.
func RegisterAll(registrar grpc.ServiceRegistrar, log hclog.Logger, regs ...Registration) error {
	c, err := newCatalog(log, regs)
	if err != nil {
		return err
	}
	c.bind(registrar)
	return nil
}

func (c *catalog) bind(registrar grpc.ServiceRegistrar) {
	guarded := guard{next: registrar, log: c.log}
	pluginlisterv1.RegisterPluginListerServer(guarded, newLister(c))
	plugininfov1.RegisterPluginInfoServiceServer(guarded, newInfo(c))
	for _, kind := range slices.Sorted(maps.Keys(c.services)) {
		c.services[kind].bind(guarded)
	}
}
