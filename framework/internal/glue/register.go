package glue

import (
	"maps"
	"slices"

	"google.golang.org/grpc"

	plugininfov1 "github.com/cleat-dev/cleat/proto/cleat/plugininfo/v1"
	pluginlisterv1 "github.com/cleat-dev/cleat/proto/velero/pluginlister/v1"
)

// RegisterAll registers the services of all kinds in regs, PluginLister and PluginInfo on registrar. If registrations
// are invalid it registers nothing, and its error names all of them.
func RegisterAll(registrar grpc.ServiceRegistrar, env Environment, regs ...Registration) error {
	c, err := newCatalog(env, regs)
	if err != nil {
		return err
	}
	c.bind(registrar)
	return nil
}

func (c *catalog) bind(registrar grpc.ServiceRegistrar) {
	guarded := guard{next: registrar, log: c.env.Log}
	pluginlisterv1.RegisterPluginListerServer(guarded, newLister(c))
	plugininfov1.RegisterPluginInfoServiceServer(guarded, newInfo(c))
	for _, kind := range slices.Sorted(maps.Keys(c.services)) {
		c.services[kind].bind(guarded)
	}
}
